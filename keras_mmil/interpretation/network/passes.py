"""What is done with top-bags in one pass, wherever they are."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy.typing as npt

from keras_mmil._support.types import Tensors

if TYPE_CHECKING:
    from keras_mmil.interpretation.network.capture import Network

__all__ = ["Source", "Step", "in_one_go"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Step(Protocol[T_co]):
    """What is done with batches: it yields a partial result, which can be merged with others.

    It must not depend on what other batches there are, but by the number of the first one, so that
    any blocks of batches give the same together. It can be pickled, and so can its result.
    """

    def __call__(self, network: "Network", batches: Iterable[Tensors], first: int) -> T_co:
        """The result for some batches.

        Args:
            network: which is to be interpreted.
            batches: checked inputs, one batch after the other.
            first: number of the first of them among all batches.
        """


@runtime_checkable
class Source(Protocol):
    """Top-bags, checked, that the network can read batch by batch, again and again.

    Attributes:
        n_batches: number of batches; None where it is not known.
        has_labels: whether there are labels with them.
        in_blocks: whether there are several partial results, for which workers may be elsewhere.
        is_counted: whether the number of top-bags is known.
    """

    n_batches: int | None
    has_labels: bool
    in_blocks: bool

    @property
    def is_counted(self) -> bool: ...  # noqa: D102

    def count(self, on_batch: Callable[[], None] = lambda: None) -> None:
        """Count the top-bags, unless that was done.

        Args:
            on_batch: called without arguments after each batch that is read for this.
        """

    def batches(self) -> Iterator[Tensors]:
        """Yield checked inputs, in this process."""

    def run(
        self, step: Step[T], network: "Network", on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The results of a step, in the order of the batches: one, or one for each block.

        Args:
            step: what to do.
            network: which is to be interpreted.
            on_batch: called without arguments after each batch.
        """

    def labelled(
        self, y: npt.ArrayLike | None = None
    ) -> tuple[Iterator[Tensors], Callable[[], npt.ArrayLike]]:
        """The batches, and a function that returns their labels once they have been read.

        Raises:
            ValueError: if there are no labels.
        """

    def set_aside(self, fraction: float, seed: int) -> "tuple[Source, Source]":
        """Split at random: the rest, and a fraction of the top-bags.

        Raises:
            ValueError: if it cannot be split, or one of the two would be empty.
        """

    def draw(self, at_most: int, seed: int) -> "Source":
        """So many of the top-bags, chosen at random; itself if there are no more."""


def in_one_go(
    step: Step[T], network: "Network", batches: Iterable[Tensors], on_batch: Callable[[], None]
) -> Iterator[T]:
    """The result of a step for all batches, in this process: see `Source.run`."""

    def counted() -> Iterator[Tensors]:
        for batch in batches:
            yield batch
            on_batch()

    yield step(network, counted(), 0)
