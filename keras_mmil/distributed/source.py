"""Blocks of Parquet files as the data of an explainer."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from keras_mmil import ragged
from keras_mmil._support.types import Ints, Tensors
from keras_mmil.distributed.blocks import Block, read
from keras_mmil.distributed.engine import Pool
from keras_mmil.distributed.served import Served
from keras_mmil.interpretation.network.capture import Network
from keras_mmil.interpretation.network.sources import Step, sample_of, top_bags

__all__ = ["BlockSource", "Share", "do"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Share:
    """What is read of a block, in batches.

    Attributes:
        block: the block.
        rows: the numbers of its rows that are read, ascending; None for all.
        batch_size: number of top-bags of a batch; the last one may have fewer.
        first: number of the first batch, among those of all blocks.
    """

    block: Block
    rows: Ints | None
    batch_size: int
    first: int = 0

    @property
    def n(self) -> int:
        """Number of top-bags."""
        return self.block.rows if self.rows is None else len(self.rows)

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return -(-self.n // self.batch_size)


def do(step: Step[T], share: Share, served: Served, network: Network) -> T:
    """The result of a step for a share, in this process.

    Raises:
        TypeError, ValueError: if the data are damaged, or do not fit the network.
    """
    # As in all processes: sums of other numbers of threads may differ in their last bits.
    with threadpool_limits(1):
        return step(network, _batches_of(share, served, network), share.first)


def _batches_of(share: Share, served: Served, network: Network) -> Iterator[Tensors]:
    """The batches of a share, checked."""
    x = served.read(read(share.block, served.columns))
    if share.rows is not None:
        x = ragged.take(x, share.rows)
    return top_bags(x, network, share.batch_size, str(share.block)).batches()


class BlockSource:
    """Top-bags in blocks of files: a `Source` whose steps run in actors, if there are some.

    Args:
        blocks: what to read, at least one.
        batch_size: number of top-bags of a batch.
        served: what reads them in this process.
        pool: actors that do steps; None for this process.

    Attributes:
        n_batches: number of batches.
        has_labels: False.
        in_blocks: True.
        is_counted: True.
    """

    has_labels = False
    in_blocks = is_counted = True

    def __init__(
        self, blocks: Sequence[Block], batch_size: int, served: Served, pool: Pool | None = None
    ) -> None:
        self._served, self._pool = served, pool
        self._set([Share(block, None, batch_size) for block in blocks])

    def batches(self) -> Iterator[Tensors]:
        """Yield checked inputs, in this process."""
        network = Network(self._served.model)
        for share in self._shares:
            yield from _batches_of(share, self._served, network)

    def run(
        self, step: Step[T], network: Network, on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The results of a step for each block, in their order."""
        found: Iterator[T]
        if self._pool is None:
            found = (do(step, share, self._served, network) for share in self._shares)
        else:
            found = self._pool.map(step, self._shares)
        for share, result in zip(self._shares, found, strict=True):
            yield result
            for _ in range(share.n_batches):
                on_batch()

    def count(self, on_batch: Callable[[], None] = lambda: None) -> None:
        """Nothing, as the files say how many rows they have."""

    def labelled(self, y: npt.ArrayLike | None = None) -> NoReturn:
        """Refuse, as blocks are read without labels.

        Raises:
            ValueError: always.
        """
        raise ValueError("Expected data with labels. Received: blocks of files, without")

    def set_aside(self, fraction: float, seed: int) -> NoReturn:
        """Refuse to split, as there are always validation data beside it.

        Raises:
            ValueError: always.
        """
        raise ValueError("Expected x_valid where x is of files. Received: x_valid=None")

    def sample(self, at_most: int, seed: int) -> "BlockSource":
        """So many of the top-bags, chosen at random; itself if there are no more."""
        sizes = [share.n for share in self._shares]
        chosen = sample_of(sum(sizes), at_most, seed)
        if chosen is None:
            return self
        ends = np.cumsum(sizes)
        of_shares = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
        some = copy.copy(self)
        some._set(
            [
                replace(
                    share, rows=mine - begin if share.rows is None else share.rows[mine - begin]
                )
                for share, mine, begin in zip(self._shares, of_shares, ends - sizes, strict=True)
                if len(mine)
            ]
        )
        return some

    def _set(self, shares: Sequence[Share]) -> None:
        """Number the batches of the shares, and keep them."""
        ends = np.cumsum([0, *(share.n_batches for share in shares)]).tolist()
        pairs = zip(shares, ends, strict=False)
        self._shares = [replace(share, first=first) for share, first in pairs]
        self.n_batches: int | None = ends[-1]
