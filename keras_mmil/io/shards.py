"""Checks of files before they are read, and errors that say which file is damaged."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import tensorflow as tf

from keras_mmil._support.digests import checksum_of_file
from keras_mmil.io.manifest import Shard

__all__ = ["Check", "asserted", "check_content", "check_size", "checks_of"]

# Of the path of a shard. It raises ValueError where the file is not as it was written.
Check: TypeAlias = Callable[[Path], Shard]

# Files that this process has checked: by path, what the system says of them, and the checksum.
_checked: set[tuple[str, int, int, int, str]] = set()
_lock = threading.Lock()


def check_size(path: Path, shard: Shard) -> None:
    """Raise ValueError where a file is missing, or not as large as it was written."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ValueError(
            f"Expected a shard. Received: no file {path} ({error.strerror})"
        ) from error
    if size != shard.bytes:
        raise ValueError(
            f"Expected a shard of {shard.bytes:,} bytes. Received: {path}, of {size:,}: it is "
            "damaged, or of other data"
        )


def check_content(path: Path, shard: Shard) -> None:
    """Raise ValueError where a file is not the one that was written, by its checksum.

    In a process a file is read for this once, as long as its size and time stay the same.
    """
    check_size(path, shard)
    status = path.stat()
    state = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, shard.sha256)
    if state in _checked:
        return
    if checksum_of_file(path) != shard.sha256:
        raise ValueError(
            f"Expected a shard as it was written. Received: {path}, with another checksum: it is "
            "damaged, or of other data"
        )
    with _lock:
        _checked.add(state)


def checks_of(folder: Path, shards: Sequence[Shard], verify: bool) -> Check:
    """A check of the shards of a folder; with `verify` by their checksums."""
    by_name = {shard.file: shard for shard in shards}

    def check(path: Path) -> Shard:
        shard = by_name[path.name]
        (check_content if verify else check_size)(path, shard)
        return shard

    return check


def asserted(message: tf.Tensor, x: Any) -> Any:
    """Tensors, in a graph that ends with a message where there is one, and not with a traceback."""
    with tf.control_dependencies([tf.debugging.Assert(message == "", [message])]):
        return tf.nest.map_structure(tf.identity, x)
