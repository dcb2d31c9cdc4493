"""The top-bags that an explainer reads: in memory, or the batches of a `tf.data.Dataset`."""

import collections
import copy
import hashlib
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.rows import as_tensor
from keras_mmil.layers._bags import depth_of

__all__ = ["InMemory", "Stream", "as_batch", "top_bags"]


def top_bags(x, checks, batch_size, name="x"):
    """Check top-bags, and make them what the network can read batch by batch, again and again.

    Args:
        x: RaggedTensor, array, `Bags`, dict of the model's inputs; or a `tf.data.Dataset` of
            batches of those, alone or in tuples (x, y) or (x, y, sample_weight).
        checks: the `InputChecks` of the model.
        batch_size: number of top-bags in a batch; a Dataset has batches of its own.
        name: what to call `x` in errors.

    Returns:
        `InMemory` or `Stream`.

    Raises:
        TypeError: for an iterator, which yields its data once, a list, or anything else that is not
            nested bags.
        ValueError: if there are no top-bags, or no end of them; if the depth is not the model's, or
            values are not finite. The batches of a Dataset are checked when they are read.
    """
    if isinstance(x, tf.data.Dataset):
        return Stream(x, checks, name)
    if isinstance(x, Iterator):
        raise TypeError(
            "Expected data that can be read several times, such as a `tf.data.Dataset`; "
            "`tf.data.Dataset.from_generator` makes one of a function that returns iterators. "
            f"Received: {name}, an iterator of type {type(x).__name__}"
        )
    return InMemory(_checked(x, checks, name), batch_size)


class InMemory:
    """Top-bags that are in memory.

    Args:
        x: checked inputs.
        batch_size: number of top-bags in a batch.

    Attributes:
        n_batches: number of batches.
        has_labels: False, for `x` comes without.
    """

    has_labels = False

    def __init__(self, x, batch_size):
        self._x, self._batch_size = x, batch_size
        self.n_batches = -(-ragged.n_top_bags(x) // batch_size)

    def batches(self):
        """Yield checked inputs, as tensors."""
        for start in range(0, ragged.n_top_bags(self._x), self._batch_size):
            batch = ragged.take(self._x, slice(start, start + self._batch_size))
            yield tf.nest.map_structure(as_tensor, batch)

    def labelled(self, y):
        """The batches, and a function that returns their labels once they have been read.

        Raises:
            ValueError: if there are no labels.
        """
        if y is None:
            raise ValueError("Expected labels, where x is not a Dataset. Received: y=None")
        return self.batches(), lambda: y

    def set_aside(self, fraction, seed):
        """Split at random: the rest, and a fraction of the top-bags.

        Raises:
            ValueError: if one of the two would be empty.
        """
        n = ragged.n_top_bags(self._x)
        n_aside = round(n * fraction)
        if not 0 < n_aside < n:
            raise ValueError(
                "Expected x_valid, or enough top-bags to set some aside for validation. "
                f"Received: {n} top-bags, validation_fraction={fraction}"
            )
        parts = ragged.split(self._x, [n - n_aside, n_aside], seed=seed)
        return tuple(InMemory(part, self._batch_size) for part in parts)

    def draw(self, at_most, seed):
        """So many of the top-bags, chosen at random; itself if there are no more."""
        chosen = _drawn(ragged.n_top_bags(self._x), at_most, seed)
        return self if chosen is None else InMemory(ragged.take(self._x, chosen), self._batch_size)


class Stream:
    """Top-bags that come from a Dataset, a batch at a time, the same in every pass.

    What is read in several passes would be mismatched if they differed. So a digest of each batch
    is kept, and nothing else of it, and a pass that differs from the first one is refused.

    Args:
        dataset: `tf.data.Dataset` of batches x, or of tuples (x, y) or (x, y, sample_weight).
        checks: the `InputChecks` of the model.
        name: what to call the Dataset in errors.

    Attributes:
        n_batches: number of batches; None where the Dataset does not know it.
        has_labels: whether the Dataset yields labels.

    Raises:
        ValueError: if the Dataset is known to be empty or to have no end.
    """

    def __init__(self, dataset, checks, name):
        self._dataset, self._checks, self._name = dataset, checks, name
        self._seen = None  # the digest and the size of each batch, once all have been read
        self._masks = None  # which top-bags of each batch to read, bool [top-bags], if not all
        spec = dataset.element_spec
        self.has_labels = isinstance(spec, tuple) and len(spec) > 1
        cardinality = int(dataset.cardinality())
        if cardinality == tf.data.INFINITE_CARDINALITY:
            raise ValueError(f"Expected a finite Dataset. Received: {name}, which has no end")
        if cardinality == 0:
            raise self._empty()
        self.n_batches = None if cardinality == tf.data.UNKNOWN_CARDINALITY else cardinality

    def batches(self, labels=None):
        """Yield checked inputs.

        Args:
            labels: list to append the labels y of each batch to.

        Raises:
            ValueError: if the Dataset is empty, or yields other data than in its first pass.
        """
        seen = []
        for i, element in enumerate(self._dataset):
            x, y, _ = keras.utils.unpack_x_y_sample_weight(element)
            x = _checked(x, self._checks, f"a batch of {self._name}")
            seen.append((_digest(x), ragged.n_top_bags(x)))
            if self._seen is not None and seen[i:] != self._seen[i : i + 1]:
                raise self._changed(i)
            if labels is not None:
                labels.append(np.asarray(y))
            if self._masks is None:
                yield x
            elif self._masks[i].any():
                yield ragged.take(x, self._masks[i])
        if not seen:
            raise self._empty()
        if self._seen is not None and len(seen) != len(self._seen):
            raise self._changed(len(seen))
        self._seen = seen

    def labelled(self, y=None):
        """The batches, and a function that returns their labels once they have been read.

        Raises:
            ValueError: if the Dataset has no labels, or there are others beside it.
        """
        if not self.has_labels:
            raise ValueError(f"Expected batches (x, y). Received: {self._name} without labels")
        if y is not None:
            raise ValueError(
                "Expected no labels beside a Dataset, which yields them. "
                f"Received: y of type {type(y).__name__}"
            )
        labels = []
        return self.batches(labels), lambda: np.concatenate(labels)

    def set_aside(self, fraction, seed):
        """Not of a Dataset, as in Keras.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "Expected x_valid where x is a Dataset, of which nothing can be set aside for "
            "validation. Received: x_valid=None"
        )

    def draw(self, at_most, seed):
        """So many of the top-bags, chosen at random; itself if there are no more."""
        if self._seen is None:
            collections.deque(self.batches(), maxlen=0)  # to count them
        sizes = [size for _, size in self._seen]
        chosen = _drawn(sum(sizes), at_most, seed)
        if chosen is None:
            return self
        is_chosen = np.isin(np.arange(sum(sizes)), chosen)
        drawn = copy.copy(self)
        drawn._masks = np.split(is_chosen, np.cumsum(sizes)[:-1])
        drawn.n_batches = sum(mask.any() for mask in drawn._masks)
        return drawn

    def _empty(self):
        return ValueError(
            f"Expected at least one top-bag. Received: {self._name}, a Dataset without batches"
        )

    def _changed(self, batch):
        return ValueError(
            "Expected a Dataset that yields the same batches each time. If it shuffles, that needs "
            "`shuffle(..., reshuffle_each_iteration=False)`. "
            f"Received: {self._name}, of which batch {batch} is not what it was"
        )


def as_batch(x, expected):
    """A single top-bag as a batch of one; anything else as it is.

    Args:
        x: top-bags as for `top_bags`, or one of them: all parts have one axis less.
        expected: the model's inputs.
    """
    if not _is_single(x, expected):
        return x
    if isinstance(expected, dict) and not isinstance(x, dict):
        x = {"bags": x}
    batches = [_batch_of_one(part, spec) for part, spec in _pairs(x, expected)]
    if isinstance(expected, dict):
        return dict(zip(x, batches, strict=True))
    return batches if isinstance(expected, (list, tuple)) else batches[0]


def _checked(x, checks, name):
    if _is_single(x, checks.expected):
        shapes = [tuple(getattr(part, "shape", ())) for part, _ in _pairs(x, checks.expected)]
        raise ValueError(
            "Expected top-bags, a single one as x[:1], of which x[0] has an axis less. "
            f"Received: {name} with the axes of one, shapes {shapes}"
        )
    return checks(x, name)


def _is_single(x, expected):
    """Whether all parts of some top-bags have one axis less than the model's inputs."""
    pairs = [(part, spec) for part, spec in _pairs(x, expected) if part is not None]
    return bool(pairs) and all(
        spec is not None and _rank(part) == len(spec.shape) - 1 for part, spec in pairs
    )


def _pairs(x, expected):
    """Each part of `x` and the input it is for; none where they cannot be matched."""
    if isinstance(expected, dict):
        x = x if isinstance(x, dict) else {"bags": x}
        return [(part, expected.get(key)) for key, part in x.items()]
    if isinstance(expected, (list, tuple)):
        is_alike = isinstance(x, (list, tuple)) and len(x) == len(expected)
        return list(zip(x, expected, strict=True)) if is_alike else []
    return [(x, expected)]


def _rank(part):
    if isinstance(part, (str, bytes)):
        return 0
    shape = getattr(part, "shape", None)
    return None if shape is None else len(shape)


def _batch_of_one(part, spec):
    if part is None:
        return None
    if isinstance(part, (str, bytes)):
        return [part]
    if isinstance(part, tf.RaggedTensor):
        splits = tf.stack([tf.zeros_like(part.nrows()), part.nrows()])
        return tf.RaggedTensor.from_row_splits(part, splits)
    part = tf.convert_to_tensor(part)[None]
    if not spec.ragged:
        return part
    return tf.RaggedTensor.from_tensor(part, ragged_rank=depth_of(spec.shape) - 1)


def _drawn(n, at_most, seed):
    """Indices of so many of n top-bags, ascending; None for all."""
    if n <= at_most:
        return None
    return np.sort(np.random.default_rng(seed).permutation(n)[:at_most])


def _digest(x):
    """A digest of checked inputs."""
    digest = hashlib.blake2b(digest_size=16)
    for part in tf.nest.flatten(x, expand_composites=True):
        values = np.asarray(part)
        digest.update(f"{values.shape} {values.dtype}".encode())
        is_text = values.dtype == object
        texts = (b"%d %s" % (len(text), text) for text in values.flat) if is_text else ()
        digest.update(b"".join(texts) if is_text else values.tobytes())
    return digest.digest()
