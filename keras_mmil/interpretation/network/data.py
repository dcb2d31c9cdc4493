"""The top-bags that an explainer reads: in memory, or the batches of a `tf.data.Dataset`."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.types import Tensors
from keras_mmil.bags import Bags
from keras_mmil.batches import in_order
from keras_mmil.interpretation.network.passes import Source, Step, in_one_go
from keras_mmil.interpretation.network.single import checked
from keras_mmil.interpretation.network.stream import Stream, drawn
from keras_mmil.model.checks import InputChecks

if TYPE_CHECKING:
    from keras_mmil.interpretation.network.capture import Network

__all__ = ["InMemory", "Source", "TopBags", "top_bags"]

# Top-bags as users have them: one input of a model or several, by name or in order.
TopBags: TypeAlias = Tensors | Sequence[Any] | Bags | tf.data.Dataset | Source

T = TypeVar("T")


def top_bags(x: TopBags, checks: InputChecks, batch_size: int, name: str = "x") -> Source:
    """Check top-bags, and make them what the network can read batch by batch, again and again.

    Args:
        x: RaggedTensor, array, `Bags`, dict of the model's inputs; or a `tf.data.Dataset` of
            batches of those, alone or in tuples (x, y) or (x, y, sample_weight); or a `Source`.
        checks: those of the model.
        batch_size: number of top-bags in a batch; a Dataset has batches of its own.
        name: what to call `x` in errors.

    Raises:
        TypeError: for an iterator, which yields its data once, a list, or anything else that is not
            nested bags.
        ValueError: if there are no top-bags, or no end of them; if the depth is not the model's, or
            values are not finite. The batches of a Dataset are checked when they are read.
    """
    if isinstance(x, tf.data.Dataset):
        return Stream(x, checks, name)
    if isinstance(x, Source):
        return x
    if isinstance(x, Iterator):
        raise TypeError(
            "Expected data that can be read several times, such as a `tf.data.Dataset`; "
            "`tf.data.Dataset.from_generator` makes one of a function that returns iterators. "
            f"Received: {name}, an iterator of type {type(x).__name__}"
        )
    return InMemory(checked(x, checks, name), batch_size)


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
        self, step: Step[T], network: "Network", on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The result of a step for all batches."""
        return in_one_go(step, network, self.batches(), on_batch)

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

    def draw(self, at_most: int, seed: int) -> "InMemory":
        """So many of the top-bags, chosen at random; itself if there are no more."""
        chosen = drawn(ragged.n_top_bags(self._x), at_most, seed)
        return self if chosen is None else InMemory(ragged.take(self._x, chosen), self._batch_size)
