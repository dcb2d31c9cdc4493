"""The top-bags that an explainer reads: in memory, or the batches of a `tf.data.Dataset`."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, runtime_checkable

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.digests import digest_of
from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.bags import Bags
from keras_mmil.batches import in_order
from keras_mmil.layers.grouping import depth_of
from keras_mmil.model.checks import InputChecks
from keras_mmil.rules.network.capture import Network

__all__ = ["InMemory", "Source", "Step", "Stream", "TopBags", "as_batch", "sample_of", "top_bags"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Step(Protocol[T_co]):
    """What one pass does with batches: it returns a partial result, to be merged with others.

    Of the other batches it may only depend on how many came before, so that any blocks of batches
    give the same together. It can be pickled, and so can its result.
    """

    def __call__(self, network: Network, batches: Iterable[Tensors], first: int) -> T_co:
        """The result for some batches of checked inputs, the first of which has this number."""


@runtime_checkable
class Source(Protocol):
    """Top-bags, checked, that the network can read batch by batch, again and again.

    Attributes:
        n_batches: number of batches; None where it is unknown.
        has_labels: whether labels come with them.
        in_blocks: whether there are several partial results, perhaps computed by workers elsewhere.
        is_counted: whether the number of top-bags is known.
    """

    n_batches: int | None
    has_labels: bool
    in_blocks: bool

    @property
    def is_counted(self) -> bool: ...  # noqa: D102

    def count(self, on_batch: Callable[[], None] = lambda: None) -> None:
        """Count the top-bags, unless that was done; calls `on_batch` after each batch."""

    def batches(self) -> Iterator[Tensors]:
        """Yield checked inputs, in this process."""

    def run(
        self, step: Step[T], network: Network, on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The results of a step, in the order of the batches: one, or one for each block."""

    def labelled(
        self, y: npt.ArrayLike | None = None
    ) -> tuple[Iterator[Tensors], Callable[[], npt.ArrayLike]]:
        """The batches, and a function that returns their labels once they have been read.

        Raises:
            ValueError: if there are no labels, or some beside those that the source has.
        """

    def set_aside(self, fraction: float, seed: int) -> "tuple[Source, Source]":
        """Split at random: the rest, and a fraction of the top-bags.

        Raises:
            ValueError: if it cannot be split, or one of the two would be empty.
        """

    def sample(self, at_most: int, seed: int) -> "Source":
        """A random sample of this size; itself if there are no more top-bags."""


_NUMBERS = 2**20  # in a batch
_LEAST_TOP_BAGS, _MOST_TOP_BAGS = 64, 1024
# Top-bags as users have them: one input of a model or several, by name or in order.
TopBags: TypeAlias = Tensors | Sequence[Any] | Bags | tf.data.Dataset | Source


def top_bags(x: TopBags, network: Network, batch_size: int | None, name: str = "x") -> Source:
    """Check top-bags, and make them what the network can read batch by batch, again and again.

    Args:
        x: RaggedTensor, array, `Bags`, dict of the model's inputs; or a `tf.data.Dataset` of
            batches of those, alone or in tuples (x, y) or (x, y, sample_weight); or a `Source`.
        network: what is to read them.
        batch_size: number of top-bags in a batch, None for one that depends on their size; a
            Dataset has batches of its own.
        name: what to call `x` in errors.

    Raises:
        TypeError: for an iterator, which yields its data once, a list, or anything else that is not
            nested bags.
        ValueError: if there are no top-bags, or no end of them; if the depth is not the model's, or
            values are not finite. The batches of a Dataset are checked when they are read.
    """
    if isinstance(x, tf.data.Dataset):
        return Stream(x, network.checks, name)
    if isinstance(x, Source):
        return x
    if isinstance(x, Iterator):
        raise TypeError(
            "Expected data that can be read several times, such as a `tf.data.Dataset`; "
            "`tf.data.Dataset.from_generator` makes one of a function that returns iterators. "
            f"Received: {name}, an iterator of type {type(x).__name__}"
        )
    checked = _checked(x, network.checks, name)
    return InMemory(checked, batch_size or _batch_size(checked))


def _batch_size(x: Tensors) -> int:
    """As many top-bags as hold about a million numbers: a batch costs much, whatever its size."""
    parts = [getattr(part, "flat_values", part) for part in tf.nest.flatten(x) if part is not None]
    n = sum(int(np.prod(part.shape)) for part in parts) // ragged.n_top_bags(x)
    return min(max(_NUMBERS // max(n, 1), _LEAST_TOP_BAGS), _MOST_TOP_BAGS)


class InMemory:
    """Top-bags that are in memory.

    Args:
        x: checked inputs.
        batch_size: number of top-bags in a batch.

    Attributes:
        n_batches: number of batches.
        has_labels: False, for `x` comes without.
        in_blocks: False.
        is_counted: True.
    """

    has_labels = in_blocks = False
    is_counted = True

    def __init__(self, x: Tensors, batch_size: int) -> None:
        self._x, self._batch_size = x, batch_size
        self.n_batches: int | None = -(-ragged.n_top_bags(x) // batch_size)

    def batches(self) -> Iterator[Tensors]:
        """Yield checked inputs, as tensors."""
        yield from in_order(self._x, self._batch_size)

    def run(
        self, step: Step[T], network: Network, on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The result of a step for all batches."""
        return _in_one_go(step, network, self.batches(), on_batch)

    def count(self, on_batch: Callable[[], None] = lambda: None) -> None:
        """Nothing, as the number of top-bags is known."""

    def labelled(
        self, y: npt.ArrayLike | None = None
    ) -> tuple[Iterator[Tensors], Callable[[], npt.ArrayLike]]:
        """The batches, and a function that returns their labels once they have been read.

        Raises:
            ValueError: if there are no labels.
        """
        if y is None:
            raise ValueError("Expected labels, where x is not a Dataset. Received: y=None")
        return self.batches(), lambda: y

    def set_aside(self, fraction: float, seed: int) -> tuple["InMemory", "InMemory"]:
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
        rest, aside = ragged.split(self._x, [n - n_aside, n_aside], seed=seed)
        return InMemory(rest, self._batch_size), InMemory(aside, self._batch_size)

    def sample(self, at_most: int, seed: int) -> "InMemory":
        """A random sample of this size; itself if there are no more top-bags."""
        chosen = sample_of(ragged.n_top_bags(self._x), at_most, seed)
        return self if chosen is None else InMemory(ragged.take(self._x, chosen), self._batch_size)


class Stream:
    """Top-bags that come from a Dataset, a batch at a time, the same in every pass.

    Results of several passes would not belong together if the passes differed. So a digest of each
    batch is kept, and nothing else of it, and a pass that differs from the first one is refused.

    Args:
        dataset: batches x, or of tuples (x, y) or (x, y, sample_weight).
        checks: those of the model.
        name: what to call the Dataset in errors.

    Attributes:
        n_batches: number of batches; None where the Dataset does not know it.
        has_labels: whether the Dataset yields labels.
        in_blocks: False.

    Raises:
        ValueError: if the Dataset is known to be empty or to have no end.
    """

    in_blocks = False

    def __init__(self, dataset: tf.data.Dataset, checks: InputChecks, name: str) -> None:
        self._dataset, self._checks, self._name = dataset, checks, name
        # The digest and the size of each batch, once all have been read.
        self._seen: list[tuple[str, int]] | None = None
        # Which top-bags of each batch to read, bool [top-bags], if not all.
        self._masks: list[Array] | None = None
        spec = dataset.element_spec
        self.has_labels = isinstance(spec, tuple) and len(spec) > 1
        cardinality = int(dataset.cardinality())
        if cardinality == tf.data.INFINITE_CARDINALITY:
            raise ValueError(f"Expected a finite Dataset. Received: {name}, which has no end")
        if cardinality == 0:
            raise self._empty()
        self.n_batches: int | None = (
            None if cardinality == tf.data.UNKNOWN_CARDINALITY else cardinality
        )

    def batches(self, labels: list[Array] | None = None) -> Iterator[Tensors]:
        """Yield checked inputs.

        Args:
            labels: list to append the labels y of each batch to.

        Raises:
            ValueError: if the Dataset is empty, or yields other data than in its first pass.
        """
        seen: list[tuple[str, int]] = []
        for i, element in enumerate(self._dataset):
            x, y, _ = keras.utils.unpack_x_y_sample_weight(element)
            x = _checked(x, self._checks, f"a batch of {self._name}")
            seen.append((digest_of(x), ragged.n_top_bags(x)))
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

    def labelled(
        self, y: npt.ArrayLike | None = None
    ) -> tuple[Iterator[Tensors], Callable[[], npt.ArrayLike]]:
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
        labels: list[Array] = []
        return self.batches(labels), lambda: np.concatenate(labels)

    def run(
        self, step: Step[T], network: Network, on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The result of a step for all batches."""
        return _in_one_go(step, network, self.batches(), on_batch)

    def set_aside(self, fraction: float, seed: int) -> NoReturn:
        """Refuse to split a Dataset, as Keras does.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "Expected x_valid where x is a Dataset, of which nothing can be set aside for "
            "validation. Received: x_valid=None"
        )

    @property
    def is_counted(self) -> bool:
        """Whether all batches have been read."""
        return self._seen is not None

    def count(self, on_batch: Callable[[], None] = lambda: None) -> None:
        """Count the top-bags, unless all have been read before: `sample` has to know."""
        if not self.is_counted:
            for _ in self.batches():
                on_batch()

    def sample(self, at_most: int, seed: int) -> "Stream":
        """A random sample of this size; itself if there are no more top-bags."""
        self.count()
        sizes = [size for _, size in self._seen or ()]
        is_mine = np.ones(sum(sizes), bool) if self._masks is None else np.concatenate(self._masks)
        chosen = sample_of(int(is_mine.sum()), at_most, seed)
        if chosen is None:
            return self
        is_chosen = np.zeros(len(is_mine), bool)
        is_chosen[np.flatnonzero(is_mine)[chosen]] = True
        some = copy.copy(self)
        some._masks = np.split(is_chosen, np.cumsum(sizes)[:-1])
        some.n_batches = sum(bool(mask.any()) for mask in some._masks)
        return some

    def _empty(self) -> ValueError:
        return ValueError(
            f"Expected at least one top-bag. Received: {self._name}, a Dataset without batches"
        )

    def _changed(self, batch: int) -> ValueError:
        return ValueError(
            "Expected a Dataset that yields the same batches each time. If it shuffles, that needs "
            "`shuffle(..., reshuffle_each_iteration=False)`. "
            f"Received: {self._name}, of which batch {batch} is not what it was"
        )


def sample_of(n: int, at_most: int, seed: int) -> Ints | None:
    """Indices of a random sample of n top-bags, ascending; None for all of them."""
    if n <= at_most:
        return None
    return np.sort(np.random.default_rng(seed).permutation(n)[:at_most])


def _in_one_go(
    step: Step[T], network: Network, batches: Iterable[Tensors], on_batch: Callable[[], None]
) -> Iterator[T]:
    """The result of a step for all batches, in this process: see `Source.run`."""

    def counted() -> Iterator[Tensors]:
        for batch in batches:
            yield batch
            on_batch()

    yield step(network, counted(), 0)


def as_batch(x: Any, expected: Any) -> Any:
    """A single top-bag as a batch of one; anything else as it is.

    All parts of a single one have one axis less than the model's inputs, which `expected` is: a
    `KerasTensor`, or a dict or list of them.
    """
    if not _is_single(x, expected):
        return x
    if isinstance(expected, dict) and not isinstance(x, dict):
        x = {"bags": x}
    batches = [_batch_of_one(part, spec) for part, spec in _pairs(x, expected)]
    if isinstance(expected, dict):
        return dict(zip(x, batches, strict=True))
    return batches if isinstance(expected, (list, tuple)) else batches[0]


def _checked(x: Any, checks: InputChecks, name: str) -> Any:
    """What the model can read of some top-bags, see `InputChecks`.

    Raises:
        TypeError, ValueError: as `InputChecks`; and for a single top-bag.
    """
    if _is_single(x, checks.expected):
        shapes = [tuple(getattr(part, "shape", ())) for part, _ in _pairs(x, checks.expected)]
        raise ValueError(
            "Expected top-bags, a single one as x[:1], of which x[0] has an axis less. "
            f"Received: {name} with the axes of one, shapes {shapes}"
        )
    return checks(x, name)


def _is_single(x: Any, expected: Any) -> bool:
    """Whether all parts of some top-bags have one axis less than the model's inputs."""
    pairs = [(part, spec) for part, spec in _pairs(x, expected) if part is not None]
    return bool(pairs) and all(
        spec is not None and _rank(part) == len(spec.shape) - 1 for part, spec in pairs
    )


def _pairs(x: Any, expected: Any) -> list[tuple[Any, keras.KerasTensor | None]]:
    """Each part of `x` and the input it is for; none where they cannot be matched."""
    if isinstance(expected, dict):
        x = x if isinstance(x, dict) else {"bags": x}
        return [(part, expected.get(key)) for key, part in x.items()]
    if isinstance(expected, (list, tuple)):
        is_alike = isinstance(x, (list, tuple)) and len(x) == len(expected)
        return list(zip(x, expected, strict=True)) if is_alike else []
    return [(x, expected)]


def _rank(part: Any) -> int | None:
    if isinstance(part, (str, bytes)):
        return 0
    shape = getattr(part, "shape", None)
    return None if shape is None else len(shape)


def _batch_of_one(part: Any, spec: keras.KerasTensor) -> Any:
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
