"""The format of cached files; the tests of each data set damage its own."""

import hashlib

import damage
import numpy as np

from keras_mmil.datasets._io import cache


def test_cached_files_are_plain_npz(tmp_path):
    arrays = {"a": np.arange(5), "b": np.array(["x", "é"])}
    cache.write_arrays(tmp_path / "a.npz", arrays)
    with np.load(tmp_path / "a.npz") as found:
        assert {name: found[name].tolist() for name in found} == damage.plain(arrays)
    content = (tmp_path / "a.npz").read_bytes()
    assert content[-64:].decode() == hashlib.sha256(content[:-64]).hexdigest()
