"""Files of data sets: found in a local folder or in Keras's cache, or else downloaded once."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from keras_mmil._support.atomic import replacing

__all__ = ["cache", "find", "find_local", "short_digest"]

_CHUNK = 2**20  # bytes
_NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    TimeoutError,
    ConnectionError,
)


def find(name, url=None, checksum=None, instructions=""):
    """Path of a data set's file.

    The file is looked for in the folder that the environment variable `KERAS_MMIL_DATA` names, and
    nowhere else where that is set. Otherwise in Keras's cache (`~/.keras/datasets`, or the folder
    `datasets` in `KERAS_HOME`), into which it is downloaded if it is not there yet.

    Args:
        name: path of the file within the folder.
        url: where to download the file from; None if it cannot be downloaded.
        checksum: what a download must have, as "sha256:" and hexadecimal digits; or of another of
            hashlib's algorithms, where that is what is published.
        instructions: how to get the file by hand, a sentence for the error message.

    Raises:
        FileNotFoundError: if the file is neither there nor can be downloaded; says where to put it.
        ValueError: if the download does not have the checksum.
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


def find_local(name):
    """Where `find` looks for a file before it downloads anything: the path, there or not."""
    return Path(os.environ.get("KERAS_MMIL_DATA") or cache()).expanduser() / name


def short_digest(path):
    """Some hexadecimal digits of a file's SHA-256, for the names of what is cached of it."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:12]


def cache():
    """The folder of Keras's cache for data sets."""
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    return Path(home) / "datasets"


def _download(url, path, checksum):
    """Downloads to a temporary file beside `path`, and moves it there only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    algorithm, _, expected = (checksum or "sha256:").partition(":")
    digest = hashlib.new(algorithm)
    with replacing(path) as part:
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
