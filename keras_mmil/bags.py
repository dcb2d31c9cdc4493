"""Nested multisets in compressed form."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_mmil import _multisets, ragged

__all__ = ["Bags", "input_names", "inputs_of", "members_of"]

_MERGES = ("batch", "top_bag", None)


def input_names(depth):
    """Names of the components of `Bags` of a nesting depth, the keys of `Bags.inputs`.

    `("bags", "counts")`, then for each inner level, counted from the instances upwards,
    `"sub_bag_counts"` and `"sub_bag_keys"`, `"sub_bag_counts_2"` and `"sub_bag_keys_2"`, and so on.
    """
    names = ["bags", "counts"]
    for level in range(1, depth):
        suffix = f"_{level}" if level > 1 else ""
        names += [f"sub_bag_counts{suffix}", f"sub_bag_keys{suffix}"]
    return tuple(names)


@dataclass(frozen=True, eq=False, repr=False)
class Bags:
    """Nested multisets of ids, each distinct member of a bag stored once with its multiplicity.

    Instances are ids: of words, of nodes, of rows in a table of features that stands beside the
    bags. All components are RaggedTensors on the host that lead with the top-bags, so they are
    sliced, batched and shuffled as any input of a Keras model. Use `from_ragged` to make bags.

    Args:
        bags: ids `[B, (n), (m)]`, int32 or int64, of nesting depth K (here 2), sorted in each bag.
        counts: multiplicities, or positive weights, of the ids: float32, ragged like `bags`.
        level_counts: K - 1 float32 RaggedTensors, for each inner level from the instances upwards:
            how often a sub-bag occurs in the bag it belongs to, `[B, (n)]` for sub-bags of ids.
        level_keys: K - 1 int64 RaggedTensors like `level_counts`; equal keys mean equal sub-bags,
            in whatever top-bag, so that a network need not compute them twice.

    Raises:
        TypeError: if a component is not a RaggedTensor of its dtype.
        ValueError: if the components do not fit together.

    Example:

    >>> x = ragged.from_nested_lists([[[5, 3, 5], [4], [4]], [[4]]])
    >>> bags = Bags.from_ragged(x)
    >>> bags.bags
    <tf.RaggedTensor [[[4], [3, 5]], [[4]]]>
    >>> bags.counts
    <tf.RaggedTensor [[[1.0], [1.0, 2.0]], [[1.0]]]>
    >>> bags.inputs["sub_bag_counts"], bags.inputs["sub_bag_keys"]
    (<tf.RaggedTensor [[2.0, 1.0], [1.0]]>, <tf.RaggedTensor [[0, 1], [0]]>)
    """

    bags: tf.RaggedTensor
    counts: tf.RaggedTensor
    level_counts: tuple = ()
    level_keys: tuple = ()

    def __post_init__(self):
        _check_ids(self.bags)
        if not len(self.level_counts) == len(self.level_keys) == self.depth - 1:
            raise ValueError(
                f"Expected counts and keys of {self.depth - 1} inner levels. Received: "
                f"{len(self.level_counts)} level_counts and {len(self.level_keys)} level_keys"
            )
        for position, (name, part) in enumerate(self.inputs.items()):
            _check_ragged_like(self.bags, name, part, depth=self.depth - position // 2)
            if "counts" in name:
                _check_positive(name, part)
            elif "keys" in name:
                _check_dtype(name, part, tf.int64)

    @classmethod
    def from_ragged(cls, x, weights=None, merge="batch"):
        """Compresses nested bags of ids.

        Args:
            x: int32 or int64 RaggedTensor `[B, (n), (m)]`, of any nesting depth, of ids >= 0.
            weights: positive multiplicities or weights of the ids, float32, ragged like `x`; 1 by
                default. The weights of equal ids in a bag are added.
            merge: how far equal things become one. "batch": equal members of a bag are stored
                once, and equal sub-bags share a key wherever they are. "top_bag": equal members
                are stored once, but no sub-bags share a key. None: all is stored as it is in `x`,
                in its order.

        Returns:
            `Bags` of the depth of `x`.
        """
        _check_ids(x)
        if weights is None:
            weights = tf.ones_like(x, tf.float32)
        _check_ragged_like(x, "weights", weights, depth=x.ragged_rank)
        _check_positive("weights", weights)
        inner = [np.ones(len(sizes), np.float32) for sizes in ragged.nested_lengths(x)[1:]]
        return cls._compress(x, [weights.flat_values.numpy(), *reversed(inner)], merge)

    @classmethod
    def concat(cls, parts, merge="batch"):
        """Joins the top-bags of several `Bags` of one depth and dtype.

        Args:
            parts: non-empty list of `Bags`.
            merge: as for `from_ragged`; keys are made anew, so that they agree across the parts.

        Raises:
            ValueError: if there are no parts, or their depths or dtypes differ.
        """
        kinds = sorted({(part.depth, part.dtype.name) for part in parts})
        if len(kinds) != 1:
            raise ValueError(f"Expected Bags of one depth and dtype. Received: {kinds}")
        return cls._from_inputs(ragged.concat([part.inputs for part in parts]), merge)

    @classmethod
    def _from_inputs(cls, inputs, merge):
        """Merges what is equal in components, whatever keys they have."""
        counts = [part.flat_values.numpy() for name, part in inputs.items() if "counts" in name]
        return cls._compress(inputs["bags"], counts, merge)

    @classmethod
    def _compress(cls, x, counts, merge):
        """Merges what is equal, level by level from the instances upwards.

        Args:
            x: ragged ids of depth K.
            counts: K flat arrays of multiplicities, of the ids and then of each inner level.
            merge: as for `from_ragged`.
        """
        if merge not in _MERGES:
            raise ValueError(f"Expected merge to be one of {_MERGES}. Received: merge={merge!r}")
        parts = []  # key and count of each level, from the instances upwards
        keys = x.flat_values.numpy()  # an id is its own key
        for splits, weights in zip(reversed(x.nested_row_splits), counts, strict=True):
            splits = splits.numpy()
            if merge is not None:
                stay, weights, splits = _multisets.merge_equal(keys, weights, splits)
                keys = keys[stay]
                parts = [tf.gather(part, stay) for part in parts]
            is_shared = merge == "batch" or not parts
            parts += [keys if is_shared else np.arange(len(keys)), weights]
            parts = [tf.RaggedTensor.from_row_splits(part, splits) for part in parts]
            keys = _multisets.keys_of(keys, weights, splits)  # members of the next level
        return cls(*parts[:2], tuple(parts[3::2]), tuple(parts[2::2]))

    def to_ragged(self):
        """The nested bags with every multiplicity written out: those compressed, up to order.

        Returns:
            RaggedTensor of ids `[B, (n), (m)]`.

        Raises:
            ValueError: if some multiplicity is not an integer.
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
    def inputs(self):
        """Dict of all components, named as `input_names` says: the input of a model."""
        parts = [self.bags, self.counts]
        for level in zip(self.level_counts, self.level_keys, strict=True):
            parts += level
        return dict(zip(input_names(self.depth), parts, strict=True))

    @property
    def depth(self):
        """Nesting depth K: 1 for bags of ids, 2 for bags of bags, ..."""
        return self.bags.ragged_rank

    @property
    def dtype(self):
        """Dtype of the ids."""
        return self.bags.dtype

    @property
    def n_stored(self):
        """Number of instances stored."""
        return self.bags.flat_values.shape[0]

    @property
    def n_instances(self):
        """Number of instances, or their total weight, with every multiplicity counted."""
        total = np.ones(len(self))
        levels = zip(ragged.nested_lengths(self.bags), reversed(self._all_counts), strict=True)
        for lengths, counts in levels:
            total = np.repeat(total, lengths) * counts.flat_values.numpy()
        return float(total.sum())

    @property
    def _all_counts(self):
        return (self.counts, *self.level_counts)

    def split(self, sizes, seed=None):
        """Several `Bags` with parts of the top-bags; see `keras_mmil.ragged.split`."""
        return ragged.split(self, sizes, seed)

    def shuffle(self, seed=None):
        """The top-bags in random order, the same for the same integer `seed`."""
        return ragged.shuffle(self, seed)

    def thin(self, rates, seed=None, merge="batch"):
        """Leaves members out at random, each with its multiplicity; see `keras_mmil.ragged.thin`.

        Args:
            rates, seed: as there.
            merge: as for `from_ragged`.
        """
        return self._from_inputs(ragged.thin(self.inputs, rates, seed), merge)

    def __len__(self):
        return self.bags.shape[0]

    def __getitem__(self, indices):
        """`Bags` of the top-bags that a slice, integers or a mask select, or of a single one."""
        if np.ndim(indices) == 0 and not isinstance(indices, slice):
            indices = [indices]
        parts = ragged.take(self.inputs, indices)
        return Bags(
            parts["bags"],
            parts["counts"],
            tuple(part for name, part in parts.items() if name.startswith("sub_bag_counts")),
            tuple(part for name, part in parts.items() if name.startswith("sub_bag_keys")),
        )

    def __repr__(self):
        return (
            f"Bags(depth={self.depth}, {len(self):,} top-bags, {self.n_instances:,.10g} instances "
            f"stored as {self.n_stored:,}, dtype={self.dtype.name})"
        )


def inputs_of(x):
    """What a model is fed with: the `inputs` of `Bags`, and anything else as it is."""
    return x.inputs if isinstance(x, Bags) else x


def members_of(x):
    """The ragged tensor of instances, or of their ids, among what a model is fed with."""
    inputs = inputs_of(x)
    return inputs["bags"] if isinstance(inputs, dict) else inputs


def _check_ids(x):
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


def _check_ragged_like(bags, name, part, depth):
    """Checks that a component has the outermost `depth` levels of `bags`, and nothing else."""
    if not isinstance(part, tf.RaggedTensor):
        raise TypeError(f"Expected a RaggedTensor. Received: {name} of type {type(part).__name__}")
    fits = part.ragged_rank == depth and part.flat_values.shape.rank == 1
    pairs = zip(part.nested_row_splits, bags.nested_row_splits, strict=False)
    if not fits or not all(np.array_equal(ours, theirs) for ours, theirs in pairs):
        raise ValueError(
            f"Expected the sizes of the outermost {depth} levels of the bags, {bags.shape}. "
            f"Received: {name} of other sizes, shape {part.shape}"
        )


def _check_dtype(name, part, dtype):
    if part.dtype != dtype:
        raise TypeError(f"Expected {dtype.name}. Received: {name} of {part.dtype.name}")


def _check_positive(name, counts):
    _check_dtype(name, counts, tf.float32)
    values = counts.flat_values.numpy()
    wrong = values[~(values > 0) | np.isinf(values)]  # NaN is not above 0 either
    if wrong.size:
        raise ValueError(
            f"Expected positive, finite multiplicities; {wrong.size} are not. "
            f"Received: {name} with {wrong[0]}"
        )
