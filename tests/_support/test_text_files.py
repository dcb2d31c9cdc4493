"""Ints in text files."""

import io

import damage
import pytest

from keras_mmil._support import text_files


def test_ints():
    assert text_files.ints(io.StringIO("1, 2\n\n-3,4"), 2, "a").tolist() == [[1, 2], [-3, 4]]
    assert text_files.ints(io.StringIO(""), 2, "a").shape == (0, 2)
    with pytest.raises(ValueError, match="Received: a "):
        text_files.ints(io.StringIO("1\nx\n"), 1, "a")


def test_long_lines_are_not_held():
    """An archive of a few kilobytes may hold gigabytes of one line."""
    file = io.TextIOWrapper(io.BytesIO(bytes(2**28)))
    with damage.bounded(), pytest.raises(ValueError, match=r"Received: a .*10000 characters"):
        text_files.ints(file, 1, "a")
