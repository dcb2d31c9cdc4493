"""Files of text, unpacked and as UTF-8; and how large a record in a file may be."""

import codecs
import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = [
    "DAMAGES",
    "LIMIT",
    "TextFile",
    "check_packing",
    "largest_record",
    "most_values",
    "unpacked",
]

LIMIT = "KERAS_MMIL_RECORD_MB"  # the environment variable
_LIMIT = 64  # MiB of a record
_RATIO = 100
_BYTES_A_VALUE = 16  # of a record with as many values as it may have
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# What is raised where a file cannot be unpacked, or is no text.
DAMAGES = EOFError, OSError, zlib.error, UnicodeError


def largest_record() -> int:
    """How many bytes of JSON or CSV one record may have.

    Raises:
        ValueError: if the environment variable that says so is no number.
    """
    text = os.environ.get(LIMIT, str(_LIMIT))
    if not text.isdecimal() or not int(text):
        raise ValueError(f"Expected a number of MiB in {LIMIT}. Received: {text!r}")
    return int(text) * 2**20


def most_values() -> int:
    """How many values one record may have."""
    return largest_record() // _BYTES_A_VALUE


def unpacked(path: Path) -> Path:
    """A path without the ending of a packed file."""
    return path.with_suffix("") if path.suffix in (".gz", ".zst") else path


def check_packing(path: Path, size: int) -> None:
    """Raise ValueError where a file that is read as a whole is packed as no table is."""
    if size > largest_record() and size > _RATIO * path.stat().st_size:
        raise ValueError(
            f"Expected a file that is not packed into less than a {_RATIO}th, or a larger {LIMIT} "
            f"in the environment. Received: more than {size >> 20} MiB in {path}"
        )


class TextFile:
    """A file of text, read as UTF-8 without a byte order mark, whatever it is packed in.

    It is closed at the end of a `with`. Damage raises one of `DAMAGES`.

    Attributes:
        is_plain: whether the file is in UTF-8 and not packed; known after the first `read`.
    """

    def __init__(self, path: Path) -> None:
        self._file: Any
        if path.suffix == ".gz":
            self._file = gzip.open(path, "rb")  # noqa: SIM115 - closed at the end
        elif path.suffix == ".zst":
            self._file = pa.input_stream(str(path), compression="zstd")
        else:
            self._file = open(path, "rb")  # noqa: SIM115 - closed at the end
        self._decoder: codecs.IncrementalDecoder | None = None
        self._is_new = True
        self.is_plain = unpacked(path) == path

    def read(self, n: int) -> bytes:
        """About so many bytes; none only at the end."""
        while True:
            found = self._read(n)
            is_end = not found
            if self._is_new:
                found += self._read(max(0, 3 - len(found)))
                self._is_new = False
                if found.startswith(_UTF_16):
                    self._decoder = codecs.getincrementaldecoder("utf-16")()
                    self.is_plain = False
                found = found.removeprefix(codecs.BOM_UTF8)
            if self._decoder is not None:
                found = self._decoder.decode(found, is_end).encode()
            if found or is_end:
                return found

    def _read(self, n: int) -> bytes:
        if isinstance(self._file, pa.NativeFile):  # whose `read` leaks n bytes where it raises
            return self._file.read_buffer(n).to_pybytes()
        return self._file.read(n)

    def __enter__(self) -> "TextFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
