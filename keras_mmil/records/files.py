"""Which files records are in: a path, a folder, a pattern or several of them."""

import glob
import os
import urllib.parse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from keras_mmil._support.types import PathLike
from keras_mmil.records.opening import unpacked

__all__ = ["ENDINGS", "Files", "Found", "are_paths", "ending", "found_files"]

_TABLES = (".csv", ".tsv")
_LINES = (".jsonl", ".ndjson")
ENDINGS = (".parquet", *_TABLES, ".json", *_LINES)
_HIDDEN = (".", "_")
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Files:
    """Files of records that need a word on how they are to be read; a source wherever a path is.

    Args:
        paths: of a file, or of a folder, or a pattern such as `"2024-*.csv"`, or a list of these.
        records: where the records are in a JSON object: the key of an array of records, or of an
            object whose values are records; "*" for each value of the outermost object.
        decimal: what separates decimals in files of CSV: "." or ","; by default a comma only where
            numbers show that it does, with a warning.

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
        if isinstance(self.paths, str | os.PathLike):
            return str(self.paths)
        return ", ".join(map(str, self.paths[:3])) + (" …" if len(self.paths) > 3 else "")


@dataclass(frozen=True)
class Found:
    """A file that was found.

    Attributes:
        path: of the file.
        constants: what its folders say of all its records, by name, such as year=2024: arrays of
            length 1.
    """

    path: Path
    constants: dict[str, pa.Array]


def are_paths(source: object) -> bool:
    """Whether this is a path, or a list of paths."""
    if isinstance(source, str | os.PathLike):
        return True
    return (
        isinstance(source, list | tuple)
        and bool(source)
        and isinstance(source[0], str | os.PathLike)
    )


def ending(path: Path) -> str:
    """The ending of a path that says what is in the file, without that of a packed file."""
    bare = unpacked(path)
    return "" if bare != path and bare.suffix == ".parquet" else bare.suffix


def found_files(paths: PathLike | Sequence[PathLike]) -> list[Found]:
    """The files of some paths, in their order, those of a folder or a pattern sorted.

    Raises:
        FileNotFoundError: if there is none.
        TypeError: if one is no path.
        ValueError: if a file ends in something else, or they are of several formats.
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
        shown = ", ".join(sorted({ending(path) for path, _ in files}))
        raise ValueError(f"Expected files of one format. Received: {shown} in {_shown(several)}")
    constants = _constants([values for _, values in files], several)
    return [Found(path, each) for (path, _), each in zip(files, constants, strict=True)]


def _shown(paths: Sequence[PathLike]) -> str:
    return ", ".join(map(str, paths[:3])) + (" …" if len(paths) > 3 else "")


def _expanded(path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The files of a path, and what their folders in it say."""
    if not path.exists() and glob.has_magic(str(path)):
        matching = sorted(glob.glob(str(path), recursive=True))
        if not matching:
            raise FileNotFoundError(f"Expected files that match a pattern. Received: {path}")
        for each in matching:
            yield from _expanded(Path(each))
        return
    if not path.exists():
        raise FileNotFoundError(f"Expected a file of records. Received: {path}")
    if not path.is_dir():
        if ending(path) not in ENDINGS:
            raise ValueError(
                f"Expected a file that ends in {', '.join(ENDINGS)} (all but the first also with "
                f".gz or .zst behind it). Received: {path}"
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
            f"{left} .json files beside {ending(others[0])} files in {path} are left out.",
            stacklevel=2,
        )
        inside = others
    for file in inside:
        folders = file.relative_to(path).parts[:-1]
        yield file, dict(_parted(folder) for folder in folders if "=" in folder)


def _is_of_records(file: Path, folder: Path) -> bool:
    is_hidden = any(part.startswith(_HIDDEN) for part in file.relative_to(folder).parts)
    return ending(file) in ENDINGS and not is_hidden and file.is_file()


def _parted(folder: str) -> tuple[str, str]:
    name, _, value = folder.partition("=")
    return urllib.parse.unquote(name), urllib.parse.unquote(value)


def _constants(
    values: list[dict[str, str]], paths: Sequence[PathLike]
) -> list[dict[str, pa.Array]]:
    """What the folders of files say, as numbers where all are integers, else as texts."""
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
