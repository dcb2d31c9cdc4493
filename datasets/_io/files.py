"""Files of data sets: found in a local folder or in Keras's cache, or else downloaded once."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from keras_mmil._support.digests import checksum_of_file
from keras_mmil._support.files import atomic_write, remove_abandoned
from keras_mmil._support.types import PathLike

__all__ = ["cache_folder", "find", "find_local", "short_digest"]

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

    If the environment variable `KERAS_MMIL_DATA` names a folder, the file is looked for there and
    nowhere else. Otherwise it is looked for in Keras's cache (`~/.keras/datasets`, or the folder
    `datasets` in `KERAS_HOME`), and downloaded to it if it is not there yet.

    Args:
        name: path of the file within the folder.
        url: where to download the file from; None if it cannot be downloaded.
        checksum: of the download, as "sha256:" and hexadecimal digits; or of another of hashlib's
            algorithms, if that is the published one.
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
    """The path where `find` looks for a file before it downloads it, whether it exists or not."""
    return Path(os.environ.get("KERAS_MMIL_DATA") or cache_folder()).expanduser() / name


def short_digest(path: PathLike) -> str:
    """The first hexadecimal digits of a file's SHA-256, for the names of its cached results."""
    return checksum_of_file(path)[:12]


def cache_folder() -> Path:
    """The folder of Keras's cache for data sets."""
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    return Path(home) / "datasets"


def _download(url: str, path: Path, checksum: str | None) -> None:
    """Downloads to a temporary file beside `path`, and moves it there only when it is complete."""
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
