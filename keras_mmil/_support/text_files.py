"""Text files of people and programs: with a byte-order mark or without, and no line is lost."""

import codecs
import contextlib
import warnings
from collections.abc import Iterator
from typing import TextIO

import numpy as np
import numpy.typing as npt

from keras_mmil._support.types import PathLike

__all__ = ["ints", "opened"]

UTF_8 = "utf-8-sig"  # also without the byte-order mark
_LONGEST = 10_000  # characters of a line of ints


@contextlib.contextmanager
def opened(path: PathLike, encoding: str = UTF_8) -> Iterator[TextIO]:
    """A text file with its line ends as they are, for a `with` statement.

    Raises:
        ValueError: in the block, where the file is in another encoding; names the line.
    """
    with open(path, newline="", encoding=encoding) as file:
        try:
            yield file
        except UnicodeError as error:
            line, reason = _undecodable(path, encoding)
            raise ValueError(
                f"Expected text in the encoding {encoding!r}; if it is in another, say "
                f"`encoding=`. Received: {path}, line {line}: {reason}"
            ) from error


def _undecodable(path: PathLike, encoding: str) -> tuple[int, object]:
    """The first line that cannot be decoded, counted from 1, and why."""
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                decoder.decode(line)
            except UnicodeError as error:
                return number, getattr(error, "reason", error)
    return number, "the text breaks off"


def ints(file: TextIO, n_columns: int, source: object) -> npt.NDArray[np.int64]:
    """The comma-separated ints in lines of text: int64 [lines, n_columns].

    Args:
        file: open text file. Empty lines are left out.
        n_columns: number of ints in each line.
        source: what it is, for the error message.

    Raises:
        ValueError: if a line is anything but so many ints.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how NumPy says that it is no int
        warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
        try:
            found = np.loadtxt(_lines(file), np.int64, comments=None, delimiter=",", ndmin=2)
        except (ValueError, DeprecationWarning) as error:
            why = str(error).partition(";")[0]  # and not what to do with NumPy about it
            raise ValueError(f"Expected ints. Received: {source} ({why})") from error
    if found.size and found.shape[1] != n_columns:
        raise ValueError(
            f"Expected lines of {n_columns} ints. Received: {source} with {found.shape[1]} ints"
        )
    return found.reshape(-1, n_columns)


def _lines(file: TextIO) -> Iterator[str]:
    """The lines of a file, none of which is held in memory if it is far too long."""
    while line := file.readline(_LONGEST):
        if len(line) == _LONGEST:
            raise ValueError(f"a line of {_LONGEST} characters or more")
        yield line
