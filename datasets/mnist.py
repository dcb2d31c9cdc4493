"""Bags of bags of handwritten digits (paper, "A Semi-Synthetic Dataset" and Example MNIST).

A sub-bag is positive iff it holds a 7 and no 3; a top-bag is positive iff it holds a positive
sub-bag.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from keras_mmil._support import archives
from keras_mmil._support.types import Array, Ints
from keras_mmil.datasets import _sampling
from keras_mmil.datasets._io import files

__all__ = ["load_mmil", "sub_bag_labels", "top_bag_labels"]

_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
_CHECKSUM = "sha256:731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
_SHAPES = {
    "x_train": (60_000, 28, 28),
    "y_train": (60_000,),
    "x_test": (10_000, 28, 28),
    "y_test": (10_000,),
}

# Images, uint8 [n, 28, 28], and their digits, int64 [n].
Pool: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def load_mmil(
    n_train: int = 5000,
    n_valid: int = 1000,
    n_test: int = 5000,
    bag_size: _sampling.Sizes = (2, 6),
    sub_bag_size: _sampling.Sizes = (2, 6),
    source: str = "mnist",
    seed: int = 0,
    instance_labels: bool = False,
) -> tuple[tuple[Any, ...], ...]:
    """Balanced sets of bags of bags of digits, labelled by the rule of the paper.

    The sizes of all bags are uniform. Images are then sampled with replacement until each top-bag
    has its intended label, so that sizes and labels are independent. The images of the three sets
    are disjoint.

    Args:
        n_train, n_valid, n_test: numbers of top-bags, of which half, rounded down, are positive.
        bag_size: smallest and largest number of sub-bags in a top-bag, at least 1.
        sub_bag_size: smallest and largest number of images in a sub-bag, at least 1.
        source: "mnist" (test images from its test set, 5,000 of its 60,000 training images for
            validation), or "digits", the 1,797 images of scikit-learn, scaled to 28x28 pixels,
            which need no download.
        seed: integer; the sizes of other sets have no effect on a set.
        instance_labels: whether to add the true digits, which are not meant for training.

    Returns:
        `(x_train, y_train), (x_valid, y_valid), (x_test, y_test)`, or triples `(x, y, z)` with
        `instance_labels`: `x` a uint8 RaggedTensor `[B, (n), (m), 28, 28]` of images, `y` an int64
        array `[B]` of labels 0 and 1, `z` an int64 RaggedTensor `[B, (n), (m)]` of digits.

    Raises:
        ValueError: if an argument is out of range, or the file `mnist.npz` is corrupt.
        FileNotFoundError: if MNIST is not there and cannot be downloaded.
    """
    _sampling.check_counts(n_train=n_train, n_valid=n_valid, n_test=n_test)
    _sampling.check_sizes(bag_size=bag_size, sub_bag_size=sub_bag_size)
    if source not in _SOURCES:
        raise ValueError(f"Expected a source in {sorted(_SOURCES)}. Received: source={source!r}")
    pools = _SOURCES[source](seed)

    def draw_set(i: int, n: int, rng: np.random.Generator) -> tuple[Any, ...]:
        images, digits = pools[i]
        chosen, y = _sampling.sample_labelled(
            n,
            (bag_size, sub_bag_size),
            draw=lambda k: rng.integers(len(images), size=k),
            label_of=lambda chosen: top_bag_labels(_look_up(digits, chosen)),
            rng=rng,
        )
        x, z = _look_up(images, chosen), _look_up(digits, chosen)
        return (x, y, z) if instance_labels else (x, y)

    return _sampling.sample_sets((n_train, n_valid, n_test), seed, draw_set)


def sub_bag_labels(digits: tf.RaggedTensor) -> tf.RaggedTensor:
    """The rule of sub-bags `[B, (n), (m)]`: int64 ragged `[B, (n)]`, 1 iff they hold 7 and no 3."""
    has_7 = tf.reduce_any(digits == 7, axis=2)  # (top-bags, (sub-bags))
    has_3 = tf.reduce_any(digits == 3, axis=2)
    return tf.cast(has_7 & ~has_3, tf.int64)


def top_bag_labels(digits: tf.RaggedTensor) -> npt.NDArray[np.int64]:
    """The rule of top-bags `[B, (n), (m)]`: int64 `[B]`, 1 iff a sub-bag is positive."""
    return tf.cast(tf.reduce_any(sub_bag_labels(digits) == 1, axis=1), tf.int64).numpy()


def _look_up(table: Array, ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """The rows `[..., *row]` of a table with ragged ids `[...]`."""
    return ids.with_flat_values(table[ids.flat_values.numpy()])


def _mnist(seed: int) -> tuple[Pool, ...]:
    """Pools of images and digits of MNIST: training, validation, test."""
    path = files.find("mnist.npz", _URL, _CHECKSUM, instructions=f"It is {_URL}.")
    arrays = archives.read_npz(path, _SHAPES)
    for name, array in arrays.items():
        highest = 9 if name.startswith("y") else 255
        is_of_ints = array.dtype.kind in "iu"
        if not is_of_ints or array.min() < 0 or array.max() > highest:
            values = f", min={array.min()}, max={array.max()}" if is_of_ints else ""
            raise ValueError(
                f"Expected integers between 0 and {highest} as `{name}` in {path}. Received: "
                f"dtype={array.dtype}{values}"
            )
    train, valid = _split(arrays["x_train"], arrays["y_train"], 5_000, seed)
    return train, valid, _pool(arrays["x_test"], arrays["y_test"])


def _digits(seed: int) -> tuple[Pool, ...]:
    """Pools of images and digits of scikit-learn: 60 % training, 15 % validation, 25 % test."""
    data = load_digits()
    images = tf.image.resize(data.images[..., None], (28, 28), method="bilinear")[..., 0]
    images = np.rint(images.numpy() * (255 / 16)).astype(np.uint8)  # pixels were 0 to 16
    rest, test = _split(images, data.target, 0.25, seed)
    return *_split(*rest, 0.2, seed), test


def _split(images: Array, digits: Ints, size: float, seed: int) -> tuple[Pool, Pool]:
    """Two disjoint, stratified pools, the second one of the given size."""
    first, second = train_test_split(
        np.arange(len(digits)), test_size=size, stratify=digits, random_state=seed
    )
    return _pool(images[first], digits[first]), _pool(images[second], digits[second])


def _pool(images: Array, digits: Ints) -> Pool:
    return images.astype(np.uint8), digits.astype(np.int64)


_SOURCES = {"mnist": _mnist, "digits": _digits}
