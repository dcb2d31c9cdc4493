"""Nested bags sampled by rejection, so that their sizes are independent of their labels."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import check_int, is_int
from keras_mmil._support.types import Ints

__all__ = ["Sizes", "check_counts", "check_sizes", "sample_labelled", "sample_sets", "sample_until"]

Sizes: TypeAlias = tuple[int, int]  # smallest and largest
Set = TypeVar("Set")

_CANDIDATES = 5_000  # top-bags drawn at once, at least
_MAX_ROUNDS = 200


def check_counts(**counts: object) -> None:
    """Raises ValueError where a number of top-bags is not an integer of at least 0."""
    for name, n in counts.items():
        check_int(name, n)


def check_sizes(**sizes: Sizes) -> None:
    """Raises ValueError where a range of sizes is not `(low, high)` with 1 <= low <= high."""
    for name, pair in sizes.items():
        if np.shape(pair) != (2,) or not all(map(is_int, pair)):
            raise ValueError(f"Expected a pair of integers (low, high). Received: {name}={pair!r}")
        if not 1 <= pair[0] <= pair[1]:
            raise ValueError(
                "Expected (low, high) with 1 <= low <= high; an empty bag cannot be positive, so "
                f"its size would tell the label. Received: {name}={pair!r}"
            )


def sample_sets(
    counts: Sequence[int], seed: int, draw_set: Callable[[int, int, np.random.Generator], Set]
) -> tuple[Set, ...]:
    """Samples sets of `counts` top-bags, each independent of the sizes of the others.

    `draw_set` maps the index of a set, its number of top-bags and a random generator to the set.
    """
    rngs = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(len(counts)))
    return tuple(map(draw_set, range(len(counts)), counts, rngs))


def sample_labelled(
    n: int,
    ranges: Iterable[Sizes],
    *,
    draw: Callable[[int], Ints],
    label_of: Callable[[tf.RaggedTensor], Ints],
    rng: np.random.Generator,
) -> tuple[tf.RaggedTensor, npt.NDArray[np.int64]]:
    """Samples n nested bags in random order, `n // 2` of label 1 and the others of label 0.

    Args:
        n: number of top-bags.
        ranges: `(low, high)` for each level from the top-bags inwards; sizes are uniform in it.
        draw, label_of: see `sample_until`.
        rng: random generator.

    Returns:
        Contents, an int64 RaggedTensor `[n, (n), (m)]`, and labels, int64 `[n]`.
    """
    labels = rng.permutation((np.arange(n) < n // 2).astype(np.int64))
    lengths = []
    for low, high in ranges:
        lengths.append(rng.integers(low, high, n, endpoint=True))
        n = lengths[-1].sum()
    return sample_until(lengths, draw=draw, label_of=label_of, wanted=labels), labels


def sample_until(
    lengths: Sequence[Ints],
    *,
    draw: Callable[[int], Ints],
    label_of: Callable[[tf.RaggedTensor], Ints],
    wanted: Ints,
) -> tf.RaggedTensor:
    """Samples the contents of top-bags repeatedly until they have the labels `wanted` [B].

    Args:
        lengths: sizes of all bags, as for `keras_mmil.ragged.from_flat`.
        draw: function from a number n to integers `[n]`, the contents of n instances.
        label_of: function from contents, a RaggedTensor `[b, (n), (m)]`, to labels `[b]`.
        wanted: the labels.

    Returns:
        Contents, an int64 RaggedTensor `[B, (n), (m)]`.

    Raises:
        ValueError: if a top-bag does not get its label in very many samples.
    """
    n_instances = int(lengths[-1].sum())
    slots = ragged.from_flat(np.arange(n_instances), lengths)  # the instances of each top-bag
    contents = np.zeros(n_instances, np.int64)
    pending = np.arange(len(wanted))
    for _ in range(_MAX_ROUNDS):
        if not pending.size:
            return slots.with_flat_values(contents)
        # The fewer top-bags are left, the more candidates each has.
        tries = max(1, _CANDIDATES // pending.size)
        candidates = ragged.take(slots, np.repeat(pending, tries))
        candidates = candidates.with_flat_values(draw(candidates.flat_values.shape[0]))
        fits = (label_of(candidates) == np.repeat(wanted[pending], tries)).reshape(-1, tries)
        done = fits.any(axis=1)
        first = np.arange(len(pending)) * tries + fits.argmax(axis=1)
        filled = ragged.take(slots, pending[done]).flat_values.numpy()
        contents[filled] = ragged.take(candidates, first[done]).flat_values.numpy()
        pending = pending[~done]
    raise ValueError(
        f"Expected sizes for which both labels are likely enough; {pending.size} top-bags did not "
        f"get their label in {_MAX_ROUNDS} rounds of draws. Received: a top-bag of "
        f"{lengths[0][pending[0]]} members for label {wanted[pending[0]]}"
    )
