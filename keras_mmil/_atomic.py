"""Files that are there whole or not at all."""

import contextlib
import json
import os
from pathlib import Path

__all__ = ["replacing", "write_json"]


@contextlib.contextmanager
def replacing(path):
    """Give a path to write to, beside `path`, which replaces `path` when the block has ended.

    Where the block raises, what it wrote is removed and `path` stays as it was.
    """
    path = Path(path)
    # Before the name, as Keras goes by the ending; and each process has a file of its own.
    part = path.with_name(f"part-{os.getpid()}-{path.name}")
    try:
        yield part
        with open(part, "rb+") as file:  # on the disk before it gets its name
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path, content):
    """Write a JSON file for people to read, too."""
    with replacing(path) as part:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
