"""Files of records: which to read, and text of any packing and coding as UTF-8."""

import codecs
import glob
import gzip
import os
import urllib.parse
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from keras_mmil._support.types import PathLike

__all__ = [
    "DAMAGES",
    "ENDINGS",
    "LIMIT",
    "DataFile",
    "Files",
    "TextFile",
    "are_paths",
    "check_packing",
    "ending",
    "largest_record",
    "list_files",
    "most_values",
    "unpacked",
]

_TABLES = (".csv", ".tsv")
_LINES = (".jsonl", ".ndjson")
ENDINGS = (".parquet", *_TABLES, ".json", *_LINES)
_HIDDEN = (".", "_")
_NULL = "__HIVE_DEFAULT_PARTITION__"

LIMIT = "KERAS_MMIL_RECORD_MB"  # the environment variable
_LIMIT = 64  # MiB of a record
_RATIO = 100
_BYTES_A_VALUE = 16  # of a record with as many values as it may have
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Raised where a file cannot be unpacked, or is no text.
DAMAGES = EOFError, OSError, zlib.error, UnicodeError


@dataclass(frozen=True)
class Files:
    """Files of records, and how to read them; a source wherever a path is.

    Args:
        paths: of a file, or of a folder, or a pattern such as `"2024-*.csv"`, or a list of these.
        records: where the records are in a JSON object: the key of an array of records, or of an
            object whose values are records; "*" for each value of the outermost object.
        decimal: the decimal separator in CSV: "." or ","; by default a comma only where numbers
            show that it is, with a warning.

    Example:

    >>> from keras_mmil.records import Files, Schema
    >>> _ = open("answer.json", "w").write('{"page": 1, "users": [{"age": 31}, {"age": 54}]}')
    >>> Schema.infer(Files("answer.json", records="users")).read(
    ...     Files("answer.json", records="users")
    ... )["age"].numpy()
    array([31., 54.], dtype=float32)
    """

    paths: PathLike | Sequence[PathLike]
    records: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if not are_paths(self.paths):
            raise TypeError(f"Expected a path, or a list of paths. Received: paths={self.paths!r}")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"Expected '.' or ','. Received: decimal={self.decimal!r}")

    def __str__(self) -> str:
        return _shown([self.paths] if isinstance(self.paths, str | os.PathLike) else self.paths)


@dataclass(frozen=True)
class DataFile:
    """A file of records.

    Attributes:
        path: of the file.
        constants: fields of all its records, such as year=2024, from the names of its folders:
            arrays of length 1.
    """

    path: Path
    constants: dict[str, pa.Array]


def are_paths(source: object) -> bool:
    """Whether this is a path, or a list of paths."""
    if isinstance(source, list | tuple) and source:
        source = source[0]
    return isinstance(source, str | os.PathLike)


def unpacked(path: Path) -> Path:
    """A path without the ending of a packed file."""
    return path.with_suffix("") if path.suffix in (".gz", ".zst") else path


def ending(path: Path) -> str:
    """The ending that tells the format of a file, without that of a packed file."""
    bare = unpacked(path)
    return "" if bare != path and bare.suffix == ".parquet" else bare.suffix


def list_files(paths: PathLike | Sequence[PathLike]) -> list[DataFile]:
    """The files of some paths, in their order, those of a folder or a pattern sorted.

    Raises:
        FileNotFoundError: if there is none.
        TypeError: if one is no path.
        ValueError: if a file has another ending, or they are of several formats.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    files: list[tuple[Path, dict[str, str]]] = []
    for path in several:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"Expected paths. Received: a {type(path).__name__}, {path!r:.80}")
        files.extend(_expanded(Path(path)))
    formats = {ending(path) for path, _ in files}
    formats = {"lines" if x in _LINES else "table" if x in _TABLES else x for x in formats}
    if len(formats) > 1:
        endings = ", ".join(sorted({ending(path) for path, _ in files}))
        raise ValueError(f"Expected files of one format. Received: {endings} in {_shown(several)}")
    constants = _constants([values for _, values in files], several)
    return [DataFile(path, each) for (path, _), each in zip(files, constants, strict=True)]


def _shown(paths: Sequence[PathLike]) -> str:
    return ", ".join(map(str, paths[:3])) + (" …" if len(paths) > 3 else "")


def _expanded(path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The files of a path, and the values in the names of their folders."""
    if not path.exists() and glob.has_magic(str(path)):
        matches = sorted(glob.glob(str(path), recursive=True))
        if not matches:
            raise FileNotFoundError(f"Expected files that match a pattern. Received: {path}")
        for each in matches:
            yield from _expanded(Path(each))
        return
    if not path.exists():
        raise FileNotFoundError(f"Expected a file of records. Received: {path}")
    if not path.is_dir():
        if ending(path) not in ENDINGS:
            raise ValueError(
                f"Expected a file that ends in {', '.join(ENDINGS)} (all but the first also "
                f"followed by .gz or .zst). Received: {path}"
            )
        yield path, {}
        return
    inside = [file for file in sorted(path.rglob("*")) if _is_of_records(file, path)]
    if not inside:
        raise FileNotFoundError(
            f"Expected files that end in {', '.join(ENDINGS)} in a folder. Received: {path}"
        )
    others = [file for file in inside if ending(file) != ".json"]
    if others and len(others) < len(inside):  # such as manifest.json
        left = len(inside) - len(others)
        warnings.warn(
            f"{left} .json files beside {ending(others[0])} files in {path} are skipped.",
            stacklevel=2,
        )
        inside = others
    for file in inside:
        folders = [each.partition("=") for each in file.relative_to(path).parts[:-1] if "=" in each]
        yield file, {urllib.parse.unquote(k): urllib.parse.unquote(v) for k, _, v in folders}


def _is_of_records(file: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(_HIDDEN) for part in file.relative_to(folder).parts)
    return ending(file) in ENDINGS and not is_hidden and file.is_file()


def _constants(
    values: list[dict[str, str]], paths: Sequence[PathLike]
) -> list[dict[str, pa.Array]]:
    """The values in the names of folders, as numbers where all are integers, else as texts."""
    names = list(dict.fromkeys(name for each in values for name in each))
    if any(each.keys() != set(names) for each in values):
        raise ValueError(
            f"Expected all files in folders of {', '.join(names)}. Received: others in "
            f"{_shown(paths)}"
        )
    of_name = {}
    for name in names:
        texts = [each[name] if each[name] != _NULL else None for each in values]
        array = pa.array(texts, pa.string())
        if any(texts) and all(x is None or _is_integer(x) for x in texts):
            array = array.cast(pa.int64())
        of_name[name] = array
    return [{name: array[i : i + 1] for name, array in of_name.items()} for i in range(len(values))]


def _is_integer(text: str) -> bool:
    bare = text.removeprefix("-")
    return bare.isascii() and bare.isdigit() and len(bare) < 18 and (bare == "0" or bare[0] != "0")


def largest_record() -> int:
    """How many bytes of JSON or CSV one record may have.

    Raises ValueError if the environment variable `LIMIT` is no number.
    """
    text = os.environ.get(LIMIT, str(_LIMIT))
    if not text.isdecimal() or not int(text):
        raise ValueError(f"Expected a number of MiB in {LIMIT}. Received: {text!r}")
    return int(text) * 2**20


def most_values() -> int:
    """How many values one record may have."""
    return largest_record() // _BYTES_A_VALUE


def check_packing(path: Path, size: int) -> None:
    """Raise ValueError where a file that is read as a whole is packed as no table is."""
    if size > largest_record() and size > _RATIO * path.stat().st_size:
        raise ValueError(
            f"Expected a file that is not packed into less than a {_RATIO}th, or a larger {LIMIT} "
            f"in the environment. Received: more than {size >> 20} MiB in {path}"
        )


class TextFile:
    """A file of text, read as UTF-8 without a byte order mark, however it is packed and coded.

    `with` closes it. Damage raises one of `DAMAGES`.

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
        """About n bytes; none only at the end."""
        while True:
            content = self._read(n)
            is_end = not content
            if self._is_new:
                content += self._read(max(0, 3 - len(content)))
                self._is_new = False
                if content.startswith(_UTF_16):
                    self._decoder = codecs.getincrementaldecoder("utf-16")()
                    self.is_plain = False
                content = content.removeprefix(codecs.BOM_UTF8)
            if self._decoder is not None:
                content = self._decoder.decode(content, is_end).encode()
            if content or is_end:
                return content

    def _read(self, n: int) -> bytes:
        if isinstance(self._file, pa.NativeFile):  # its `read` leaks n bytes where it raises
            return self._file.read_buffer(n).to_pybytes()
        return self._file.read(n)

    def __enter__(self) -> "TextFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
