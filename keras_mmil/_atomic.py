"""Files that are there whole or not at all."""

import contextlib
import os
from pathlib import Path

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path):
    """Give a path to write to, beside `path`, which replaces `path` when the block has ended."""
    path = Path(path)
    part = path.with_name(f"part-{path.name}")  # before the name: Keras goes by the ending
    yield part
    os.replace(part, path)
