"""Small problems whose rules are known, with points in the plane as instances.

- `load_offside`: bags of bags; the paper's Example offside.
- `load_zero_and_no_two`: bags, for a bag-layer; a smooth maximum of the instances' outputs, as in
  Ramon & De Raedt (2000), cannot learn it.
- `load_three_level`: bags of bags of bags.

Every instance has a latent label, and is normally distributed around the corner of that label in an
equilateral triangle.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.types import Ints
from keras_mmil.datasets import _sampling

__all__ = [
    "load_offside",
    "load_three_level",
    "load_zero_and_no_two",
    "offside_image_labels",
    "offside_labels",
    "three_level_labels",
    "zero_and_no_two_labels",
]

# Pairs (x, y) or triples (x, y, z), one for each set.
Sets: TypeAlias = tuple[tuple[Any, ...], ...]

_ANGLES = 2 * np.pi * np.arange(3) / 3
_CORNERS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)  # (latent labels, 2)

_BEHIND, _IN_FRONT = 0, 1  # 2 is inconclusive
_NOT_OFFSIDE, _OFFSIDE, _INCONCLUSIVE = 0, 1, 2


def load_offside(
    n_train: int = 1000,
    n_valid: int = 500,
    n_test: int = 1000,
    bag_size: _sampling.Sizes = (2, 6),
    sub_bag_size: _sampling.Sizes = (2, 6),
    noise: float = 0.2,
    seed: int = 0,
    instance_labels: bool = False,
) -> Sets:
    """Bags of images of football players, positive for offside (Example offside).

    A player is behind (latent label 0), in front (1), or inconclusive (2), with probabilities 0.7,
    0.05 and 0.25. An image, a bag of players, is offside if all are behind, not offside if some
    player is in front, and else inconclusive. A top-bag of images is positive iff some image is
    offside and none is not offside.

    Args:
        n_train, n_valid, n_test: numbers of top-bags; half of them, rounded down, are positive.
        bag_size: smallest and largest number of images in a top-bag, at least 1.
        sub_bag_size: smallest and largest number of players in an image, at least 1.
        noise: standard deviation of the points around corners at distance 1.73 from each other.
        seed: integer; the sizes of other sets have no effect on a set.
        instance_labels: whether to add the latent labels, which are not meant for training.

    Returns:
        `(x_train, y_train), (x_valid, y_valid), (x_test, y_test)`, or triples `(x, y, z)` with
        `instance_labels`: `x` a float32 RaggedTensor `[B, (n), (m), 2]`, `y` an int64 array `[B]`
        of labels 0 and 1, `z` an int64 RaggedTensor `[B, (n), (m)]` of latent labels.

    Raises:
        ValueError: if an argument is out of range.
    """
    return _load(
        {"n_train": n_train, "n_valid": n_valid, "n_test": n_test},
        {"bag_size": bag_size, "sub_bag_size": sub_bag_size},
        probabilities=[0.7, 0.05, 0.25],
        label_of=offside_labels,
        noise=noise,
        seed=seed,
        instance_labels=instance_labels,
    )


def offside_image_labels(latent: tf.RaggedTensor) -> tf.RaggedTensor:
    """Labels of images `[B, (n), (m)]`: int64 ragged `[B, (n)]`.

    0 is not offside, 1 offside, 2 inconclusive.
    """
    all_behind = tf.reduce_all(latent == _BEHIND, axis=2)
    any_in_front = tf.reduce_any(latent == _IN_FRONT, axis=2)
    conclusive = tf.where(all_behind, np.int64(_OFFSIDE), np.int64(_INCONCLUSIVE))
    return tf.where(any_in_front, np.int64(_NOT_OFFSIDE), conclusive)


def offside_labels(latent: tf.RaggedTensor) -> npt.NDArray[np.int64]:
    """Labels of top-bags `[B, (n), (m)]` of players: int64 array `[B]`, 1 for offside."""
    images = offside_image_labels(latent)
    some_offside = tf.reduce_any(images == _OFFSIDE, axis=1)
    some_not_offside = tf.reduce_any(images == _NOT_OFFSIDE, axis=1)
    return _as_labels(some_offside & ~some_not_offside)


def load_zero_and_no_two(
    n_train: int = 1000,
    n_valid: int = 500,
    n_test: int = 1000,
    bag_size: _sampling.Sizes = (2, 6),
    noise: float = 0.2,
    seed: int = 0,
    instance_labels: bool = False,
) -> Sets:
    """Bags that are positive iff they hold an instance of latent label 0 and none of label 2.

    The latent labels 0, 1 and 2 have equal probabilities. Arguments, errors and results are those
    of `load_offside`, with one level less: `x` `[B, (n), 2]`, `z` `[B, (n)]`.
    """
    return _load(
        {"n_train": n_train, "n_valid": n_valid, "n_test": n_test},
        {"bag_size": bag_size},
        probabilities=[1 / 3, 1 / 3, 1 / 3],
        label_of=zero_and_no_two_labels,
        noise=noise,
        seed=seed,
        instance_labels=instance_labels,
    )


def zero_and_no_two_labels(latent: tf.RaggedTensor) -> npt.NDArray[np.int64]:
    """Labels of bags `[B, (n)]`: int64 array `[B]`, 1 iff they hold a 0 and no 2."""
    return _as_labels(_zero_and_no_two(latent, axis=1))


def load_three_level(
    n_train: int = 1000,
    n_valid: int = 500,
    n_test: int = 1000,
    bag_size: _sampling.Sizes = (2, 4),
    sub_bag_size: _sampling.Sizes = (2, 3),
    sub_sub_bag_size: _sampling.Sizes = (2, 4),
    noise: float = 0.2,
    seed: int = 0,
    instance_labels: bool = False,
) -> Sets:
    """Bags of bags of bags, positive iff in some sub-bag all bags hold a 0 and no 2.

    The latent labels 0, 1 and 2 have equal probabilities. Arguments, errors and results are those
    of `load_offside`, with one level more: `x` `[B, (n), (m), (l), 2]`, `z` `[B, (n), (m), (l)]`.
    """
    return _load(
        {"n_train": n_train, "n_valid": n_valid, "n_test": n_test},
        {
            "bag_size": bag_size,
            "sub_bag_size": sub_bag_size,
            "sub_sub_bag_size": sub_sub_bag_size,
        },
        probabilities=[1 / 3, 1 / 3, 1 / 3],
        label_of=three_level_labels,
        noise=noise,
        seed=seed,
        instance_labels=instance_labels,
    )


def three_level_labels(latent: tf.RaggedTensor) -> npt.NDArray[np.int64]:
    """Labels of top-bags `[B, (n), (m), (l)]`: int64 array `[B]`, as `load_three_level` says."""
    sub_sub_bags = _zero_and_no_two(latent, axis=3)  # (top-bags, (sub-bags), (sub-sub-bags))
    return _as_labels(tf.reduce_any(tf.reduce_all(sub_sub_bags, axis=2), axis=1))


def _zero_and_no_two(latent: tf.RaggedTensor, axis: int) -> tf.RaggedTensor:
    return tf.reduce_any(latent == 0, axis) & ~tf.reduce_any(latent == 2, axis)


def _as_labels(is_positive: tf.Tensor) -> npt.NDArray[np.int64]:
    return tf.cast(is_positive, tf.int64).numpy()


def _load(
    counts: Mapping[str, int],
    sizes: Mapping[str, _sampling.Sizes],
    *,
    probabilities: Sequence[float],
    label_of: Callable[[tf.RaggedTensor], Ints],
    noise: float,
    seed: int,
    instance_labels: bool,
) -> Sets:
    """Three sets of points, whose latent labels have the given probabilities."""
    _sampling.check_counts(**counts)
    _sampling.check_sizes(**sizes)
    if not 0 <= noise < np.inf:
        raise ValueError(f"Expected a standard deviation of at least 0. Received: noise={noise}")

    def draw_set(_: int, n: int, rng: np.random.Generator) -> tuple[Any, ...]:
        z, y = _sampling.sample_labelled(
            n,
            sizes.values(),
            draw=lambda k: rng.choice(3, size=k, p=probabilities),
            label_of=label_of,
            rng=rng,
        )
        latent = z.flat_values.numpy()
        points = _CORNERS[latent] + noise * rng.standard_normal((len(latent), 2))
        x = z.with_flat_values(points.astype(np.float32))
        return (x, y, z) if instance_labels else (x, y)

    return _sampling.sample_sets(tuple(counts.values()), seed, draw_set)
