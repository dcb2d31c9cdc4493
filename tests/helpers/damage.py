"""What the tests of damaged files share.

Bytes of a file are changed at random or cut off, or claim more than the file can hold. A loader
then returns what it returned before, or says in a `ValueError` which file is damaged. It raises
nothing else, and allocates no more than a file can hold. Caches are made again, with a warning.
"""

import contextlib
import errno
import random
import tracemalloc
import zipfile

import numpy as np
import pytest

from keras_mmil.datasets._io import files

N_DAMAGES = 40
MOST = 2**28  # bytes that may be allocated for files of a few kilobytes


def damages(content, seed, n=N_DAMAGES):
    """Yields copies of bytes, of which some are changed or missing."""
    rng = random.Random(seed)
    for i in range(n):
        changed = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 4])):
            changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
        yield bytes(changed[: rng.randrange(len(changed)) if i % 8 == 7 else None])


def plain(x):
    """Lists of lists, to be compared."""
    if isinstance(x, dict):
        return {name: plain(part) for name, part in x.items()}
    if isinstance(x, tuple):
        return [plain(part) for part in x]
    for method in ("to_list", "tolist"):
        if hasattr(x, method):
            return getattr(x, method)()
    return plain(vars(x)) if hasattr(x, "__dataclass_fields__") else x


def write_zip(path, files, method=zipfile.ZIP_DEFLATED):
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@contextlib.contextmanager
def bounded():
    """In the block, what is allocated must go by what files hold, and not by what they claim."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST


def check_files(paths, load, is_checked, n=None):
    """Damages files one by one.

    Args:
        paths: the files.
        load: function without arguments that reads them.
        is_checked: whether they have checksums, so that no change goes unnoticed.
        n: how often to damage each, if not 40 times in all.
    """
    with bounded():
        expected = load()
        n_refused = 0
        for path in paths:
            whole = path.read_bytes()
            n_here = n or (N_DAMAGES if len(paths) == 1 else N_DAMAGES // 4)
            for damaged in damages(whole, path.name, n_here):
                path.write_bytes(damaged)
                try:
                    found = load()
                except ValueError as error:
                    message = str(error)
                    n_refused += 1
                else:
                    message = path.stem
                    assert found == expected or not is_checked
                assert path.stem[:9] in message
            path.write_bytes(whole)
        assert n_refused > N_DAMAGES / 5
        assert load() == expected


# Caches -----------------------------------------------------------------------------------------


def cached_files(home):
    return [path for path in home.rglob("*") if path.is_file()]


def check_caches(home, load, n_files=1, n=20):
    """Damages cached files one by one.

    Args:
        home: the folder of the cache, which is empty.
        load: function without arguments that fills the cache or reads it.
        n_files: how many files it writes.
        n: how often to damage each.
    """
    expected = load()
    cached = cached_files(home)
    assert len(cached) == n_files
    assert load() == expected  # of the cache, and without a warning
    for path in cached:
        whole = path.read_bytes()
        for damaged in [b"", *damages(whole, path.name, n)]:
            path.write_bytes(damaged)
            with pytest.warns(UserWarning, match=rf"cached file .* is damaged.*{path.name}"):
                assert load() == expected
            assert path.read_bytes() == whole
    assert load() == expected
    assert len(list(home.rglob("part-*"))) == 0


def check_impossible_cache(home, load, match="is damaged", **changed):
    """Numbers out of range are refused even where the checksum is right."""
    expected = load()
    (path,) = cached_files(home)
    with np.load(path) as arrays:
        files.write_arrays(path, dict(arrays) | changed)
    with pytest.warns(UserWarning, match=match):
        assert load() == expected


def _no_space(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def check_unwritable_cache(home, load, reason, monkeypatch):
    """What cannot be cached is made in every call, with a warning.

    Args:
        home: the folder of the cache, which does not exist.
        load: function without arguments that fills the cache or reads it.
        reason: "full", or "no folder".
        monkeypatch: pytest's.
    """
    with monkeypatch.context() as patch:
        if reason == "full":
            patch.setattr(np, "savez", _no_space)
        else:
            home.write_text("a file where the folder is to be")
        for _ in range(2):
            with pytest.warns(
                UserWarning, match=r"cannot be written.*(No space|Not a directory|exists)"
            ):
                found = load()
    monkeypatch.setenv("KERAS_HOME", str(home.with_name("another")))
    assert load() == found
