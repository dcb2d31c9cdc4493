"""Files of data sets: found, downloaded or read from the cache; and JSON documents in them."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import scipy.sparse as sparse

from keras_mmil._support import archives
from keras_mmil._support.digests import checksum_of_file
from keras_mmil._support.files import atomic_write, open_text, parse_json, remove_abandoned
from keras_mmil._support.types import Array, PathLike

__all__ = [
    "Document",
    "cache_folder",
    "cached",
    "check",
    "check_csr",
    "find",
    "find_local",
    "read_array",
    "read_arrays",
    "read_lines",
    "short_digest",
    "write_arrays",
]

_CHUNK = 2**20  # bytes
_NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    TimeoutError,
    ConnectionError,
)


def find(
    name: str, url: str | None = None, checksum: str | None = None, instructions: str = ""
) -> Path:
    """Path of a data set's file.

    The file is in the folder that the environment variable `KERAS_MMIL_DATA` names; or else in
    Keras's cache (`~/.keras/datasets`, or `datasets` in `KERAS_HOME`), where it is downloaded to.

    Args:
        name: path of the file within the folder.
        url: where to download the file from; None if it cannot be downloaded.
        checksum: of the download, with the name of the algorithm: "sha256:" and hexadecimal digits.
        instructions: how to get the file by hand, a sentence for the error message.

    Raises:
        FileNotFoundError: if the file is not there and cannot be downloaded; says where to put it.
        ValueError: if the download has another checksum.
    """
    path = find_local(name)
    if path.is_file():
        return path
    local = os.environ.get("KERAS_MMIL_DATA")
    by_hand = f"Put the file there by hand. {instructions}".strip()
    if local:
        raise FileNotFoundError(
            f"Expected the file {path}, as the environment variable KERAS_MMIL_DATA is set. "
            f"{by_hand} Received: KERAS_MMIL_DATA={local!r}"
        )
    if url is None:
        raise FileNotFoundError(f"Expected the file {path}, which cannot be downloaded. {by_hand}")
    try:
        _download(url, path, checksum)
    except _NETWORK_ERRORS as error:
        raise FileNotFoundError(
            f"Expected the file {path}, and could not download it from {url} ({error}). {by_hand}"
        ) from error
    return path


def find_local(name: str) -> Path:
    """The path where `find` looks for a file, whether it exists or not."""
    return Path(os.environ.get("KERAS_MMIL_DATA") or cache_folder()).expanduser() / name


def short_digest(path: PathLike) -> str:
    """The first hexadecimal digits of a file's SHA-256, to name its cached results."""
    return checksum_of_file(path)[:12]


def cache_folder() -> Path:
    """The folder of Keras's cache for data sets."""
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    return Path(home) / "datasets"


def _download(url: str, path: Path, checksum: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    algorithm, _, expected = (checksum or "sha256:").partition(":")
    digest = hashlib.new(algorithm)
    with atomic_write(path) as part:
        with urllib.request.urlopen(url, timeout=60) as response, open(part, "wb") as file:
            while chunk := response.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
            missing = int(response.headers.get("Content-Length", file.tell())) - file.tell()
        if missing:
            raise ConnectionError(f"the connection ended {missing} bytes early")
        if expected and digest.hexdigest() != expected:
            raise ValueError(
                f"Expected {checksum} of {url}, to be saved as {path}. "
                f"Received: {algorithm}:{digest.hexdigest()}"
            )
    remove_abandoned(path)


T = TypeVar("T")

_SEAL = b"sha256:"
_DIGITS = 64  # of a checksum


def cached(
    path: Path,
    *,
    make: Callable[[], T],
    read: Callable[[Path], T],
    write: Callable[[Path, T], None],
) -> T:
    """The result of `make`: read from the file `path` if it exists, else made and written to it.

    It is made again, with a warning, if the file is damaged (`read` raises ValueError). Of several
    files, `path` is the one that is written last.
    """
    if os.path.exists(path):
        try:
            return read(path)
        except (OSError, ValueError) as error:
            warnings.warn(
                f"The cached file {path} is damaged, and what it holds is made anew ({error})",
                stacklevel=2,
            )
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, made)
    except OSError as error:
        warnings.warn(
            f"The cached file {path} cannot be written, and what it is to hold will be made again "
            f"next time ({error})",
            stacklevel=2,
        )
    return made


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays atomically to a `.npz` file that ends with its own checksum."""
    with atomic_write(path) as part:
        np.savez(part, **arrays)  # type: ignore[arg-type]  # no array is `allow_pickle`
        with zipfile.ZipFile(part, "a") as archive:
            archive.comment = _SEAL + bytes(_DIGITS)  # the end of the file
        with open(part, "rb+") as stream:
            digest = _digest(stream, os.fstat(stream.fileno()).st_size - _DIGITS)
            stream.seek(-_DIGITS, os.SEEK_END)
            stream.write(digest)
    remove_abandoned(path)


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, Array]:
    """The arrays of a file that `write_arrays` wrote, in the order of `names`.

    Raises:
        ValueError: if a byte of the file is not as it was written, or an array is missing.
    """
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest = _digest(stream, max(size - _DIGITS, 0))
        if stream.read() != digest:
            raise ValueError(f"Expected a file that ends with its checksum. Received: {path}")
    return archives.read_npz(path, dict.fromkeys(names))


def _digest(stream: BinaryIO, n_bytes: int) -> bytes:
    """Hexadecimal digits of the SHA-256 of the next bytes, as bytes."""
    digest = hashlib.sha256()
    while chunk := stream.read(min(n_bytes, 2**20)):
        digest.update(chunk)
        n_bytes -= len(chunk)
    return digest.hexdigest().encode()


Document = dict[str, Any]


def read_array(path: Path, is_right: Callable[[Document], bool], what: str) -> list[Document]:
    """The documents of a JSON file that is an array of objects.

    Raises:
        ValueError: if the file is anything else, or a document does not pass `is_right`; `what`
            describes the documents expected.
    """
    with open_text(path) as file:
        documents = _parsed(file.read(), path)
    if not isinstance(documents, list) or not documents:
        raise ValueError(f"Expected an array of documents. Received: {path} without")
    return [check(each, i, path, is_right, what) for i, each in enumerate(documents)]


def read_lines(path: Path, is_right: Callable[[Document], bool], what: str) -> list[Document]:
    """Same as `read_array`, of a file with one JSON object a line; empty lines are skipped."""
    documents = [
        check(_parsed(line, f"{path}, line {i + 1}"), i, path, is_right, what)
        for i, line in _lines(path)
    ]
    if not documents:
        raise ValueError(f"Expected a document a line. Received: {path} without")
    return documents


def check(
    document: Any, i: int, path: Path, is_right: Callable[[Document], bool], what: str
) -> Document:
    """Document `i` of a file, if it passes `is_right`, else ValueError."""
    if not isinstance(document, dict) or not is_right(document):
        raise ValueError(f"Expected {what}. Received: {path} with another document {i}")
    return document


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with open_text(path) as file:
        for i, line in enumerate(file):
            if line.strip():
                yield i, line


def _parsed(text: str, place: object) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected JSON. Received: {place} ({error})") from error


def check_csr(matrix: sparse.csr_array) -> None:
    """Raise ValueError if the parts of a matrix are inconsistent."""
    matrix.check_format(full_check=True)
    # SciPy checks differences, which overflow, and none where the last one is 0.
    if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
        raise ValueError("index pointers that decrease")
