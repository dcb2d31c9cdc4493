"""Files that are there whole or not at all."""

import pytest

from keras_mmil._atomic import replacing


def test_a_file_is_replaced_when_the_block_has_ended(tmp_path):
    path = tmp_path / "x.keras"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part.parent == tmp_path  # on the same disk
        assert part.suffix == ".keras"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.keras"
    path.write_text("old")

    def fail():
        with replacing(path) as part:
            part.write_text("ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
