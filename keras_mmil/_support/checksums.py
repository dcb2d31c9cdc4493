"""SHA-256 of files and of what JSON holds, hexadecimal."""

import hashlib
import json

from keras_mmil._support.types import PathLike

__all__ = ["checksum_of_file", "checksum_of_json"]


def checksum_of_file(path: PathLike) -> str:
    """That of a file, which is read piece by piece."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_of_json(content: object) -> str:
    """That of what JSON knows, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
