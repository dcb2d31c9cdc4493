"""`Bags`: nested multisets of ids, each distinct member stored once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support import multisets
from keras_mmil._support.rows import first_difference, path_to
from keras_mmil._support.types import Bools, Floats, Ints, Seed, Tensors

__all__ = ["Bags", "check_keys"]

Merge: TypeAlias = Literal["batch", "top_bag"] | None
_MERGES = ("batch", "top_bag", None)


@dataclass(frozen=True, eq=False, repr=False)
class Bags:
    """Nested multisets of ids, each distinct member of a bag stored once with its multiplicity.

    Instances are ids of words, of nodes, or of rows in a table of features. All components are
    RaggedTensors on the host that lead with the top-bags, so they can be sliced, batched and
    shuffled like any input of a Keras model. `from_ragged` makes bags.

    Args:
        bags: ids `[B, (n), (m)]`, int32 or int64, of nesting depth K (here 2), sorted in each bag.
        counts: multiplicities, or positive weights, of the ids: float32, ragged like `bags`.
        level_counts: K - 1 float32 RaggedTensors, for each inner level from the instances upwards:
            how often a sub-bag occurs in its bag, `[B, (n)]` for sub-bags of ids.
        level_keys: K - 1 int64 RaggedTensors like `level_counts`. Sub-bags with equal keys, in any
            top-bags, are equal, so that a network computes them once.

    Keys are 64-bit hashes of a sub-bag's ids, or of the keys of its members, with their counts. So
    the components of several `Bags` can be joined or batched together. Different sub-bags of one
    `Bags` are verified to have different keys. In several, two of n different sub-bags share a key
    with a probability of about n²/2⁶⁵ (3e-8 for a million).

    Raises:
        TypeError: if a component is not a RaggedTensor of its dtype.
        ValueError: if the components do not fit together, or unequal sub-bags have equal keys.

    Example:

    >>> x = ragged.from_nested_lists([[[5, 3, 5], [4], [4]], [[4]]])
    >>> bags = Bags.from_ragged(x)
    >>> bags.bags
    <tf.RaggedTensor [[[4], [3, 5]], [[4]]]>
    >>> bags.counts
    <tf.RaggedTensor [[[1.0], [1.0, 2.0]], [[1.0]]]>
    >>> bags.inputs["sub_bag_counts"]
    <tf.RaggedTensor [[2.0, 1.0], [1.0]]>
    >>> bags.inputs["sub_bag_keys"]  # that of [4] twice
    <tf.RaggedTensor [[9222983581398793951, 3820128921283045258],
     [9222983581398793951]]>
    """

    bags: tf.RaggedTensor
    counts: tf.RaggedTensor
    level_counts: tuple[tf.RaggedTensor, ...] = ()
    level_keys: tuple[tf.RaggedTensor, ...] = ()

    def __post_init__(self) -> None:
        _check_ids(self.bags)
        if not len(self.level_counts) == len(self.level_keys) == self.depth - 1:
            raise ValueError(
                f"Expected counts and keys of {self.depth - 1} inner levels. Received: "
                f"{len(self.level_counts)} level_counts and {len(self.level_keys)} level_keys"
            )
        for position, (name, part) in enumerate(self.inputs.items()):
            _check_same_sizes(self.bags, name, part, depth=self.depth - position // 2)
            if "counts" in name:
                _check_positive(name, part)
            elif "keys" in name:
                _check_dtype(name, part, tf.int64)
        check_keys(self.inputs)

    @classmethod
    def from_ragged(
        cls,
        x: tf.RaggedTensor,
        weights: tf.RaggedTensor | None = None,
        merge: Merge = "batch",
        level_weights: Sequence[tf.RaggedTensor] | None = None,
    ) -> Self:
        """Compress nested bags of ids.

        Args:
            x: int32 or int64 RaggedTensor `[B, (n), (m)]`, of any nesting depth, of ids >= 0.
            weights: positive multiplicities or weights of the ids, float32, ragged like `x`; by
                default 1. The weights of equal ids in a bag are added.
            merge: how far equal members are merged. "batch": equal members of a bag are stored
                once, and equal sub-bags share a key wherever they are. "top_bag": equal members
                are stored once, but no sub-bags share a key (their position is hashed, too). None:
                everything is stored as in `x`, in its order, and no sub-bags share a key.
            level_weights: weights of the sub-bags: K - 1 RaggedTensors, for each inner level from
                the instances upwards, `[B, (n)]` for sub-bags of ids.

        Raises:
            TypeError, ValueError: if `x` or the weights are something else.
        """
        _check_ids(x)
        depth = x.ragged_rank
        if level_weights is not None and len(level_weights) != depth - 1:
            raise ValueError(
                f"Expected level_weights of {depth - 1} inner levels. "
                f"Received: {len(level_weights)} of them"
            )
        # Of each level, from the instances upwards.
        lengths = reversed(ragged.nested_lengths(x)[1:])
        counts = [np.ones(x.flat_values.shape[0], np.float32)]
        counts += [np.ones(len(sizes), np.float32) for sizes in lengths]
        for level, part in enumerate([weights, *(level_weights or ())]):
            if part is not None:
                name = f"level_weights[{level - 1}]" if level else "weights"
                _check_same_sizes(x, name, part, depth=depth - level)
                _check_positive(name, part)
                counts[level] = part.flat_values.numpy()
        return cls._compress(x, counts, merge)

    @classmethod
    def concat(cls, parts: Sequence[Self], merge: Merge = "batch") -> Self:
        """Join the top-bags of several `Bags` of one depth and dtype.

        Args:
            parts: non-empty list of `Bags`.
            merge: as in `from_ragged`; equal members of different parts are merged, too.

        Raises:
            ValueError: if there are no parts, or their depths or dtypes differ.
        """
        kinds = sorted({(part.depth, part.dtype.name) for part in parts})
        if len(kinds) != 1:
            raise ValueError(f"Expected Bags of one depth and dtype. Received: {kinds}")
        return cls._from_inputs(ragged.concat([part.inputs for part in parts]), merge)

    @classmethod
    def _from_inputs(cls, inputs: Mapping[str, tf.RaggedTensor], merge: Merge) -> Self:
        """Merge equal members of components, whatever keys they have."""
        counts = [part.flat_values.numpy() for name, part in inputs.items() if "counts" in name]
        return cls._compress(inputs["bags"], counts, merge)

    @classmethod
    def _compress(cls, x: tf.RaggedTensor, counts: Sequence[Floats], merge: Merge) -> Self:
        """Merge equal members, level by level from the instances upwards.

        `counts` are K flat arrays of multiplicities, of the ids and then of each inner level.
        """
        if merge not in _MERGES:
            raise ValueError(f"Expected merge to be one of {_MERGES}. Received: merge={merge!r}")
        # Of each level, from the instances upwards; the keys of instances are their ids.
        all_keys: list[tf.RaggedTensor] = []
        all_counts: list[tf.RaggedTensor] = []
        numbers = x.flat_values.numpy()  # of the members, exact; an id is its own number,
        prints = keys = numbers  # ... its own hash, and its own key
        for splits, weights in zip(reversed(x.nested_row_splits), counts, strict=True):
            splits = splits.numpy()
            if merge is not None:
                stay, weights, splits = multisets.merge_equal(numbers, weights, splits)
                numbers, prints, keys = numbers[stay], prints[stay], keys[stay]
                all_keys = [tf.gather(part, stay) for part in all_keys]
                all_counts = [tf.gather(part, stay) for part in all_counts]
            all_keys, all_counts = (
                [tf.RaggedTensor.from_row_splits(part, splits) for part in parts]
                for parts in ([*all_keys, keys], [*all_counts, weights])
            )
            # These bags are the members of the next level.
            prints = multisets.fingerprints(prints, weights, splits)
            numbers = multisets.keys_of(numbers, weights, splits)
            keys = prints if merge == "batch" else multisets.distinct_fingerprints(prints)
            n_different = numbers.max(initial=-1) + 1 if merge == "batch" else len(keys)
            if len(np.unique(keys)) != n_different:
                raise ValueError(
                    "Expected different 64-bit hashes of different sub-bags; number the ids in "
                    f"another way. Received: two of {n_different} sub-bags with the same hash"
                )
        ids, *level_keys = all_keys
        ids_counts, *level_counts = all_counts
        return cls(ids, ids_counts, tuple(level_counts), tuple(level_keys))

    def to_ragged(self) -> tf.RaggedTensor:
        """The nested bags that were compressed, up to order: a RaggedTensor of ids `[B, (n), (m)]`.

        Raises:
            ValueError: if a multiplicity is not an integer.
        """
        x = self.bags.flat_values
        counts = zip(self._all_counts, reversed(self.bags.nested_row_splits), strict=True)
        for level, (weights, splits) in enumerate(counts):
            weights = weights.flat_values.numpy()
            repeats = weights.astype(np.int64)
            if (repeats != weights).any():
                raise ValueError(
                    "Expected multiplicities that are integers. "
                    f"Received: {weights[repeats != weights][0]} at level {level}"
                )
            x = tf.gather(x, np.repeat(np.arange(len(repeats)), repeats))
            x = tf.RaggedTensor.from_row_splits(x, ragged.row_splits(repeats)[splits.numpy()])
        return x

    @property
    def inputs(self) -> dict[str, tf.RaggedTensor]:
        """Dict of all components, the input of a model.

        Its keys are "bags" and "counts"; then for each inner level, counted from the instances
        upwards, "sub_bag_counts" and "sub_bag_keys", "sub_bag_counts_2" and "sub_bag_keys_2" ….
        """
        parts = [self.bags, self.counts]
        for level in zip(self.level_counts, self.level_keys, strict=True):
            parts += level
        return dict(zip(input_names(self.depth), parts, strict=True))

    @property
    def depth(self) -> int:
        """Nesting depth K: 1 for bags of ids, 2 for bags of bags, ..."""
        return self.bags.ragged_rank

    @property
    def dtype(self) -> tf.DType:
        """Dtype of the ids."""
        return self.bags.dtype

    @property
    def n_stored(self) -> int:
        """Number of instances stored."""
        return self.bags.flat_values.shape[0]

    @property
    def n_instances(self) -> float:
        """Number of instances, or their total weight, with every multiplicity counted."""
        total = np.ones(len(self))
        levels = zip(ragged.nested_lengths(self.bags), reversed(self._all_counts), strict=True)
        for lengths, counts in levels:
            total = np.repeat(total, lengths) * counts.flat_values.numpy()
        return float(total.sum())

    @property
    def _all_counts(self) -> tuple[tf.RaggedTensor, ...]:
        return (self.counts, *self.level_counts)

    def split(self, sizes: float | Sequence[int], seed: Seed = None) -> tuple[Self, ...]:
        """Split the top-bags into several `Bags`; see `keras_mmil.ragged.split`."""
        return ragged.split(self, sizes, seed)

    def shuffle(self, seed: Seed = None) -> Self:
        """The top-bags in random order, the same for the same integer `seed`."""
        return ragged.shuffle(self, seed)

    def subsample(self, rates: Sequence[float], seed: Seed = None, merge: Merge = "batch") -> Self:
        """Leave members out at random, each with its multiplicity; see `ragged.subsample`.

        Args:
            rates, seed: as there.
            merge: as in `from_ragged`.
        """
        return self._from_inputs(ragged.subsample(self.inputs, rates, seed), merge)

    def __len__(self) -> int:
        return self.bags.shape[0]

    def __getitem__(self, indices: int | slice | Sequence[int] | Ints | Bools) -> Self:
        """`Bags` of the top-bags that a slice, integers, a mask or a single integer select."""
        rows = indices if isinstance(indices, slice) else np.atleast_1d(indices)
        parts = ragged.take(self.inputs, rows)
        names = level_names(self.depth)
        counts, *level_counts = (parts[name] for name in names.counts)
        level_keys = (parts[name] for name in names.keys)
        return type(self)(parts["bags"], counts, tuple(level_counts), tuple(level_keys))

    def __repr__(self) -> str:
        return (
            f"Bags(depth={self.depth}, {len(self):,} top-bags, {self.n_instances:,.10g} instances "
            f"stored as {self.n_stored:,}, dtype={self.dtype.name})"
        )


def inputs_of(x: Bags | Tensors) -> Tensors:
    """The `inputs` of `Bags`; anything else as it is."""
    return x.inputs if isinstance(x, Bags) else x


def is_data(x: Any) -> bool:
    """Whether data are in memory, not in a Dataset or from a generator."""
    return isinstance(x, (Bags, dict, list, tuple, str, bytes)) or hasattr(x, "shape")


def instances_of(x: Bags | Tensors) -> tf.RaggedTensor:
    """The RaggedTensor of instances, or of their ids, among the inputs of a model."""
    inputs = inputs_of(x)
    return inputs["bags"] if isinstance(inputs, dict) else inputs


# Components -------------------------------------------------------------------------------------


class LevelNames(NamedTuple):
    """Names of the counts of each level of `Bags`, and of the keys of each inner level."""

    counts: list[str]
    keys: list[str]


def level_names(depth: int) -> LevelNames:
    """The names of the components of each level, from the instances upwards."""
    inner = ["" if level == 1 else f"_{level}" for level in range(1, depth)]
    return LevelNames(
        counts=["counts", *(f"sub_bag_counts{suffix}" for suffix in inner)],
        keys=[f"sub_bag_keys{suffix}" for suffix in inner],
    )


def input_names(depth: int) -> tuple[str, ...]:
    """The keys of `Bags.inputs` of a nesting depth."""
    (counts, *inner_counts), keys = level_names(depth)
    inner = [name for pair in zip(inner_counts, keys, strict=True) for name in pair]
    return ("bags", counts, *inner)


def _check_ids(x: tf.RaggedTensor) -> None:
    """Check that `x` is a RaggedTensor of integers of at least 0."""
    if not isinstance(x, tf.RaggedTensor) or x.dtype not in (tf.int32, tf.int64):
        kind = type(x).__name__
        raise TypeError(
            "Expected bags of ids, a RaggedTensor of int32 or int64 (features stand beside them). "
            f"Received: {kind} of dtype {getattr(x, 'dtype', None)}"
        )
    if x.flat_values.shape.rank != 1:
        raise ValueError(f"Expected single integers as instances. Received: shape={x.shape}")
    lowest = x.flat_values.numpy().min(initial=0)
    if lowest < 0:
        raise ValueError(f"Expected ids of at least 0. Received: id={lowest}")


def _check_same_sizes(bags: tf.RaggedTensor, name: str, part: tf.RaggedTensor, depth: int) -> None:
    """Check that a component has exactly the outermost `depth` levels of `bags`."""
    if not isinstance(part, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: {name} of type {type(part).__name__}")
    fits = part.ragged_rank == depth and part.flat_values.shape.rank == 1
    if not fits or first_difference(part, bags) is not None:
        raise ValueError(
            f"Expected the sizes of the outermost {depth} levels of the bags, {bags.shape}. "
            f"Received: {name} of other sizes, shape {part.shape}"
        )


def _check_dtype(name: str, part: tf.RaggedTensor, dtype: tf.DType) -> None:
    """Check the dtype of a component."""
    if part.dtype != dtype:
        raise TypeError(f"Expected {dtype.name}. Received: {name} of {part.dtype.name}")


def _check_positive(name: str, counts: tf.RaggedTensor) -> None:
    """Check that a component holds positive, finite floats."""
    _check_dtype(name, counts, tf.float32)
    values = counts.flat_values.numpy()
    wrong = values[~(values > 0) | np.isinf(values)]  # NaN is not above 0 either
    if wrong.size:
        raise ValueError(
            f"Expected positive, finite multiplicities; {wrong.size} are not. "
            f"Received: {name} with {wrong[0]}"
        )


def check_keys(inputs: Mapping[str, tf.RaggedTensor]) -> None:
    """Check that sub-bags with equal keys are equal, in whatever top-bags they are.

    A network computes only one of them. Sub-bags are equal if they have the same ids, or equal
    members, with the same counts. They are compared by 64-bit hashes of their content, which do not
    depend on the hashes in the keys.

    Args:
        inputs: dict of eager RaggedTensors as in `Bags.inputs`, with any of its counts and keys;
            the ids may have a last axis, of windows.

    Raises:
        ValueError: if unequal sub-bags have equal keys.
    """
    bags = inputs["bags"]
    names = level_names(bags.ragged_rank)
    if all(inputs.get(name) is None for name in names.keys):
        return
    prints = bags.flat_values.numpy()
    splits = [part.numpy() for part in reversed(bags.nested_row_splits)]
    for row_splits, counts_name, keys_name in zip(splits, names.counts, names.keys, strict=False):
        counts = inputs.get(counts_name)
        weights = np.ones(len(prints)) if counts is None else counts.flat_values.numpy()
        prints = multisets.fingerprints(prints, weights, row_splits, salt=1)
        if inputs.get(keys_name) is not None:
            _check_equal(keys_name, inputs[keys_name], prints)


def _check_equal(name: str, keys: tf.RaggedTensor, prints: npt.NDArray[np.int64]) -> None:
    """Check that sub-bags with equal keys have equal fingerprints, int64 `[sub-bags]`."""
    flat = keys.flat_values.numpy()
    _, first, which = np.unique(flat, return_index=True, return_inverse=True)
    unequal = np.flatnonzero(prints != prints[first[which]])
    if unequal.size:
        lengths = [np.diff(splits) for splits in keys.nested_row_splits]
        pair = first[which[unequal[0]]], unequal[0]
        places = " and ".join(name + path_to(i, lengths) for i in pair)
        raise ValueError(
            "Expected equal keys only of sub-bags of equal members and counts; `Bags.from_ragged` "
            f"makes such keys. Received: key {flat[unequal[0]]} of different sub-bags, {places}"
        )
