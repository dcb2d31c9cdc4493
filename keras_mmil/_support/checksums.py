"""SHA-256 of files and of what JSON holds, hexadecimal."""

import hashlib

from keras_mmil._support.json_text import to_json
from keras_mmil._support.types import PathLike

__all__ = ["checksum_of_file", "checksum_of_json"]


def checksum_of_file(path: PathLike) -> str:
    """That of a file, which is read piece by piece."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_of_json(content: object) -> str:
    """That of what JSON knows, whatever the order of its keys: the same before and after a file."""
    return hashlib.sha256(to_json(content, sort_keys=True).encode()).hexdigest()
