"""Top-bags written to files, which are whole or absent."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged, text
from keras_mmil._support.checks import positive_int
from keras_mmil._support.digests import add_to_digest, checksum_of_file
from keras_mmil._support.files import atomic_write, part_of, remove_parts
from keras_mmil._support.rows import rebatch
from keras_mmil._support.types import Labels, PathLike
from keras_mmil.bags import Bags, is_data
from keras_mmil.io.layout import NAMES, FlatTensor, Layout
from keras_mmil.io.manifest import (
    MANIFEST,
    Info,
    Manifest,
    Shard,
    check_content,
    file_name,
    info,
    module_of,
    readable_size,
)

__all__ = ["write"]

_FILE = 2**26  # bytes of the tensors of a file, about
_GROUP = 2**22  # of what is written at a time, and has to be read at a time
_SLICE = 256  # top-bags that are taken from memory at a time


def write(
    folder: PathLike,
    x: Any,
    y: Labels = None,
    sample_weight: Labels = None,
    *,
    format: str = "parquet",
    top_bags_per_file: int | None = None,
    resume: bool = False,
    verbose: int = 1,
) -> Info:
    """Write top-bags to files that `read` streams.

    Each file is whole or absent, even after a crash, and `manifest.json` lists the files with
    checksums. `Bags` stay compressed. Only a few MiB of a Dataset or generator are held at a time.

    Args:
        folder: made if missing. It must be empty, unless `resume`.
        x: RaggedTensor, tensor, array, `Bags`, list of texts, or a dict or tuple of those. Or
            batches of any sizes: a `tf.data.Dataset`, or another iterable (but no list or tuple),
            of x, `(x, y)` or `(x, y, sample_weight)`.
        y: labels [B, …], or a tuple, list or dict of those of several outputs; None for batches.
        sample_weight: weights of the top-bags, likewise.
        format: "parquet", which many programs read, or "tfrecord", which TensorFlow parses in its
            graph.
        top_bags_per_file: by default what takes 64 MiB as tensors, estimated from the first batch.
            Workers and shuffling need several files.
        resume: whether the folder may hold what an earlier call wrote, interrupted or not. With the
            same data, which are compared by digests, the result is the same as without the
            interruption. Damaged and missing files are written again.
        verbose: whether to print a line for each file.

    Returns:
        `info` of the folder.

    Raises:
        TypeError: for data of other kinds or dtypes.
        ValueError: if there are no top-bags, batches differ in structure, the folder is not empty,
            or with `resume`, it holds other data, or data of another structure or format.

    Example:

    >>> io.write("reviews", bags, y)
    >>> io.write("reviews", dataset.batch(100), format="tfrecord")
    """
    folder = Path(folder).absolute()
    top_bags_per_file = positive_int("top_bags_per_file", top_bags_per_file, optional=True)
    module_of(format)  # where it cannot be used, nothing is to be made
    batches = _batches_of(x, y, sample_weight)
    first = next(batches, None)
    if first is None:
        raise ValueError("Expected at least one top-bag. Received: x without any")
    new = _manifest(first, format, top_bags_per_file)
    known = _begin(folder, new, resume, top_bags_per_file)
    tensors = _of_layout(itertools.chain([first], batches), known.layout)
    n_files = 0
    for number, groups in enumerate(_shards(tensors, known)):
        expected = known.shards[number] if number < len(known.shards) else None
        if expected is None and known.is_complete:
            raise _other_data(folder, f"more than its {known.top_bags:,} top-bags")
        if expected is not None and _is_whole(folder, expected):
            _check_same(folder, expected, _written(groups, lambda columns: None))
        else:
            shard = _write_file(folder, file_name(number, format), known, groups, expected)
            shards = [*known.shards[:number], shard, *known.shards[number + 1 :]]
            known = replace(known, shards=tuple(shards))
            known.write(folder)
            if verbose:
                print(f"{shard.file}: {shard.top_bags:,} top-bags, {readable_size(shard.bytes)}")
        n_files = number + 1
    if n_files < len(known.shards):
        raise _other_data(folder, f"only those of the first {n_files} files")
    if not known.is_complete:
        replace(known, is_complete=True).write(folder)
    return info(folder)


def _manifest(first: tuple[Any, ...], format: str, top_bags_per_file: int | None) -> Manifest:
    """A manifest without files, with sizes estimated from the first batch."""
    layout = Layout.of(first)
    n = ragged.n_top_bags(first)
    columns = map(FlatTensor.of, layout.flatten(first))
    bytes_each = max(1.0, sum(column.n_bytes for column in columns) / n)
    per_file = top_bags_per_file or max(1, int(_FILE / bytes_each))
    per_group = min(max(1, int(_GROUP / bytes_each)), per_file)
    return Manifest(format, layout, per_file, per_group)


def _begin(folder: Path, new: Manifest, resume: bool, top_bags_per_file: int | None) -> Manifest:
    """The manifest of what has been written so far."""
    folder.mkdir(parents=True, exist_ok=True)
    if resume:
        remove_parts(folder)
    if not resume or not (folder / MANIFEST).exists():
        held = [path.name for path in folder.iterdir() if part_of(path) is None]
        if held:
            way = "" if resume else ", or resume=True for what is to be continued"
            raise ValueError(
                f"Expected a new or empty folder{way}. Received: {folder} with {sorted(held)[:3]}"
            )
        new.write(folder)  # so that it is known what the files are, which come first
        return new
    known = Manifest.read(folder)
    differing = known.layout.difference(new.layout)
    if known.format != new.format:
        differing = f"format={new.format!r} instead of {known.format!r}"
    if top_bags_per_file not in (None, known.top_bags_per_file):
        differing = f"{top_bags_per_file=} instead of {known.top_bags_per_file}"
    if differing:
        raise ValueError(
            f"Expected data of the structure that {folder} holds. Received: {differing}"
        )
    return known


def _of_layout(batches: Iterable[tuple[Any, ...]], layout: Layout) -> Iterator[list[Any]]:
    """The tensors of batches, all of one layout."""
    for number, batch in enumerate(batches):
        differing = layout.difference(Layout.of(batch))
        if differing:
            raise ValueError(
                "Expected batches of one structure. "
                f"Received: in batch {number} from 0, {differing}"
            )
        yield layout.flatten(batch)


def _shards(tensors: Iterable[list[Any]], manifest: Manifest) -> Iterator[Iterator[list[Any]]]:
    """The groups of tensors of each file; take them before those of the next file."""
    n_whole, rest = divmod(manifest.top_bags_per_file, manifest.top_bags_per_group)
    n_groups = n_whole + (rest > 0)
    last = rest or manifest.top_bags_per_group
    sizes = (
        size
        for _ in itertools.count()
        for size in itertools.chain(
            itertools.repeat(manifest.top_bags_per_group, n_groups - 1), [last]
        )
    )
    pieces = rebatch(tensors, sizes, ragged.n_top_bags, ragged.take)
    groups = (parts[0] if len(parts) == 1 else ragged.concat(parts) for parts in pieces)
    for first in groups:
        yield itertools.chain([first], itertools.islice(groups, n_groups - 1))


def _write_file(
    folder: Path,
    name: str,
    manifest: Manifest,
    groups: Iterable[list[Any]],
    expected: Shard | None,
) -> Shard:
    """Write groups to a file, with the same content as a damaged one that is `expected`."""
    with atomic_write(folder / name) as part:
        with module_of(manifest.format).writer(part, manifest.layout) as append:
            shard = _written(groups, append)
        if expected is not None:
            _check_same(folder, expected, shard)
        return replace(shard, file=name, bytes=part.stat().st_size, sha256=checksum_of_file(part))


def _written(groups: Iterable[list[Any]], append: Callable[[list[FlatTensor]], None]) -> Shard:
    """Append groups to a file: a shard without the name, size and checksum of the file."""
    n = size = 0
    digest = hashlib.blake2b(digest_size=16)
    for group in groups:
        columns = [FlatTensor.of(tensor) for tensor in group]
        add_to_digest(digest, [[column.values, *column.splits] for column in columns])
        n += columns[0].top_bags
        size += sum(column.n_bytes for column in columns)
        append(columns)
    return Shard("", n, 0, size, "", digest.hexdigest())


def _check_same(folder: Path, expected: Shard, found: Shard) -> None:
    """Raise ValueError if other data were written before."""
    if (expected.top_bags, expected.content) != (found.top_bags, found.content):
        raise _other_data(folder, f"others than in {expected.file}")


def _is_whole(folder: Path, shard: Shard) -> bool:
    try:
        check_content(folder / shard.file, shard)
    except ValueError:
        return False
    return True


def _other_data(folder: Path, received: str) -> ValueError:
    return ValueError(f"Expected the data that {folder} holds, to continue. Received: {received}")


# Sources ----------------------------------------------------------------------------------------


def _batches_of(
    x: Any, y: Labels = None, sample_weight: Labels = None
) -> Iterator[tuple[Any, ...]]:
    """Batches `(x,)`, `(x, y)` or `(x, y, sample_weight)` of eager tensors; none is empty."""
    if _is_stream(x):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "Expected labels and weights in the batches, where x is an iterable of batches. "
                f"Received: y of type {type(y).__name__}, "
                f"sample_weight of type {type(sample_weight).__name__}"
            )
        return _of_stream(x)
    if y is None and sample_weight is not None:
        raise ValueError("Expected labels where there are weights. Received: y=None")
    return _of_memory(x, y, sample_weight)


def _is_stream(x: Any) -> bool:
    if isinstance(x, tf.data.Dataset):
        if x.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError("Expected a finite Dataset. Received: x, which has no end")
        return True
    return isinstance(x, Iterable) and not is_data(x)


def _of_stream(found: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    for element in found:
        parts = element if isinstance(element, tuple) else (element,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                "Expected batches x, (x,), (x, y) or (x, y, sample_weight). "
                f"Received: a tuple of {len(parts)}"
            )
        yield from _of_memory(*keras.utils.unpack_x_y_sample_weight(parts))


def _of_memory(*given: Any) -> Iterator[tuple[Any, ...]]:
    """Slices of x, y and weights, the last of which may be None."""
    pairs = zip(given, NAMES, strict=True)
    whole = tuple(_prepared(part, name) for part, name in pairs if part is not None)
    n = ragged.n_top_bags(whole)
    for start in range(0, n, _SLICE):
        some = whole if n <= _SLICE else ragged.take(whole, slice(start, start + _SLICE))
        yield tf.nest.map_structure(_as_eager_tensor, some)


def _prepared(part: Any, name: str) -> Any:
    """A structure of tensors and arrays, with dicts for `Bags`.

    A list becomes texts, numbers, or in labels a tuple of the outputs, as tf.data has it.
    """
    if isinstance(part, Bags):
        part = part.inputs
    if isinstance(part, dict):
        return {key: _prepared(inner, f"{name}/{key}") for key, inner in part.items()}
    is_labels = isinstance(part, list) and name != "x"
    if is_labels and any(len(getattr(inner, "shape", ())) for inner in part):
        part = tuple(part)  # of the outputs
    if isinstance(part, tuple):
        return tuple(_prepared(inner, f"{name}/{i}") for i, inner in enumerate(part))
    if isinstance(part, list) and part and all(isinstance(each, str | bytes) for each in part):
        return tf.constant(list(map(text.as_bytes, part)), tf.string)
    if is_labels and isinstance(part, list):
        return np.asarray(part)
    if not isinstance(part, (tf.RaggedTensor, tf.Tensor, np.ndarray)):
        raise TypeError(
            "Expected a RaggedTensor, a tensor, an array, Bags, a list of texts, or a dict or "
            "tuple of those; or a Dataset or another iterable of batches, but no list: "
            "`iter([batch, …])`. "
            f"Received: {name} of type {type(part).__name__}"
        )
    return part


def _as_eager_tensor(part: Any) -> Any:
    if isinstance(part, tf.RaggedTensor):
        part = part.with_row_splits_dtype(tf.int64)
    return tf.convert_to_tensor(part) if isinstance(part, np.ndarray) else part
