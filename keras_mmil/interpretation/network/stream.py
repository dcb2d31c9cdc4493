"""Top-bags that come from a `tf.data.Dataset`."""

import copy
import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, TypeVar

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.digests import add_to_digest
from keras_mmil._support.types import Array, Ints, Tensors
from keras_mmil.interpretation.network.passes import Step, in_one_go
from keras_mmil.interpretation.network.single import checked
from keras_mmil.model.checks import InputChecks

if TYPE_CHECKING:
    from keras_mmil.interpretation.network.capture import Network

__all__ = ["Stream", "drawn"]

T = TypeVar("T")


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
        self._seen: list[tuple[bytes, int]] | None = None
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
        seen: list[tuple[bytes, int]] = []
        for i, element in enumerate(self._dataset):
            x, y, _ = keras.utils.unpack_x_y_sample_weight(element)
            x = checked(x, self._checks, f"a batch of {self._name}")
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
        self, step: Step[T], network: "Network", on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The result of a step for all batches."""
        return in_one_go(step, network, self.batches(), on_batch)

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
        """Count the top-bags, unless all have been read before: `draw` has to know.

        Args:
            on_batch: called without arguments after each batch.
        """
        if not self.is_counted:
            for _ in self.batches():
                on_batch()

    def draw(self, at_most: int, seed: int) -> "Stream":
        """So many of the top-bags, chosen at random; itself if there are no more."""
        self.count()
        sizes = [size for _, size in self._seen or ()]
        is_mine = np.ones(sum(sizes), bool) if self._masks is None else np.concatenate(self._masks)
        chosen = drawn(int(is_mine.sum()), at_most, seed)
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


def drawn(n: int, at_most: int, seed: int) -> Ints | None:
    """Indices of so many of n top-bags, ascending; None for all."""
    if n <= at_most:
        return None
    return np.sort(np.random.default_rng(seed).permutation(n)[:at_most])


def _digest(x: Tensors) -> bytes:
    """A digest of checked inputs."""
    digest = hashlib.blake2b(digest_size=16)
    add_to_digest(digest, x)
    return digest.digest()
