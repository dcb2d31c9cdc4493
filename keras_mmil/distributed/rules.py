"""Rules learned from Parquet files, block by block, here or on Ray."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from keras_mmil import ragged
from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.types import Ints, PathLike, Tensors
from keras_mmil.distributed.blocks import Block, Data, blocks_of, files_of, read
from keras_mmil.distributed.engine import Pool
from keras_mmil.distributed.predictor import Predictor
from keras_mmil.rules import Explainer
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.sources import Step, sample_of, top_bags

__all__ = ["BlockSource", "fit_rules"]

T = TypeVar("T")


def fit_rules(
    model_path: PathLike,
    data: Data,
    validation_data: Data,
    *,
    actors: int = 0,
    threads: int = 1,
    block_size: int = 1024,
    **explainer_arguments: Any,
) -> Explainer:
    """Learn rules from a trained model, and data in Parquet files.

    The network runs where the data are read, block by block. A block yields the labels of what is
    in it, and at most `max_rows` of its rows of each level, which are merged in the order of the
    blocks; the search then needs nothing else. The rules are those of one process, bit by bit,
    whatever the number of actors.

    Args:
        model_path: same as in `Predictor`.
        data: Parquet files to learn from, same as in `predict`.
        validation_data: others, on which the numbers of clusters are chosen.
        actors, threads, block_size: same as in `predict`.
        explainer_arguments: those of `Explainer`.

    Returns:
        The fitted `Explainer`, to be saved beside the model.

    Raises:
        FileNotFoundError, ImportError: as `predict`.
        TypeError, ValueError: as `Explainer.fit`; and if columns are missing, or files damaged.

    Example:

    >>> explainer = distributed.fit_rules("model.keras", "in/*.parquet", "valid", actors=8)
    >>> explainer.save("rules")
    """
    actors, threads = check_int("actors", actors), positive_int("threads", threads)
    explainer = Explainer(**explainer_arguments)
    model_path = str(Path(model_path).absolute())
    predictor = Predictor(model_path)
    files = [files_of(each, predictor.columns) for each in (data, validation_data)]
    batch_size = positive_int("batch_size", explainer.batch_size, optional=True) or _BATCH
    load = partial(_load_worker, model_path, explainer.feature_names)
    with Pool(load, actors, threads) as pool:
        x, x_valid = (
            BlockSource(blocks_of(each, block_size), batch_size, predictor, pool) for each in files
        )
        return explainer.fit(predictor.model, x, x_valid)


_BATCH = 64  # top-bags: batches are numbered before blocks are read, and so are of one size


@dataclass(frozen=True, eq=False)
class _Share:
    """Rows of a block, all by default; `first` numbers its first batch among all."""

    block: Block
    rows: Ints | None
    first: int = 0

    @property
    def n(self) -> int:
        """Number of top-bags."""
        return self.block.rows if self.rows is None else len(self.rows)


@dataclass(frozen=True, eq=False)
class _StepWorker:
    """Does steps on shares of blocks."""

    predictor: Predictor
    network: Network

    def __call__(self, common: tuple[Step[T], int], share: _Share) -> T:
        step, batch_size = common
        # In all processes: sums with other numbers of threads may differ in their last bits.
        with threadpool_limits(1):
            return step(self.network, self.batches(share, batch_size), share.first)

    def batches(self, share: _Share, batch_size: int) -> Iterator[Tensors]:
        """The batches of a share, checked."""
        x = self.predictor._read(read(share.block, self.predictor.columns))
        if share.rows is not None:
            x = ragged.take(x, share.rows)
        return top_bags(x, self.network, batch_size, str(share.block)).batches()


def _load_worker(model_path: str, feature_names: Sequence[str] | None) -> _StepWorker:
    predictor = Predictor(model_path)
    return _StepWorker(predictor, Network(predictor.model, feature_names))


class BlockSource:
    """Top-bags in blocks of files: a `Source` whose steps run where a `Pool` has its workers.

    A batch has `batch_size` top-bags, the last one of a block perhaps fewer.
    """

    has_labels = False
    in_blocks = is_counted = True
    n_batches: int | None

    def __init__(
        self, blocks: Sequence[Block], batch_size: int, predictor: Predictor, pool: Pool
    ) -> None:
        self._batch_size, self._predictor, self._pool = batch_size, predictor, pool
        self._set([_Share(block, None) for block in blocks])

    def batches(self) -> Iterator[Tensors]:
        """Yield checked inputs, in this process."""
        worker = _StepWorker(self._predictor, Network(self._predictor.model))
        for share in self._shares:
            yield from worker.batches(share, self._batch_size)

    def run(
        self, step: Step[T], network: Network, on_batch: Callable[[], None] = lambda: None
    ) -> Iterator[T]:
        """The results of a step for each block, in their order."""
        here = _StepWorker(self._predictor, network)
        results = self._pool.map(self._shares, (step, self._batch_size), here=here)
        for share, result in zip(self._shares, results, strict=True):
            yield result
            for _ in range(self._n_batches_of(share)):
                on_batch()

    def count(self, on_batch: Callable[[], None] = lambda: None) -> None:
        """Nothing: the files say how many rows they have."""

    def labelled(self, y: npt.ArrayLike | None = None) -> NoReturn:
        """Raise ValueError: blocks are read without labels."""
        raise ValueError("Expected data with labels. Received: blocks of files, without")

    def set_aside(self, fraction: float, seed: int) -> NoReturn:
        """Raise ValueError: there are validation data already."""
        raise ValueError("Expected x_valid where x is of files. Received: x_valid=None")

    def sample(self, at_most: int, seed: int) -> "BlockSource":
        """A random sample of this many of the top-bags; all of them if there are no more."""
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

    def _n_batches_of(self, share: _Share) -> int:
        return -(-share.n // self._batch_size)

    def _set(self, shares: Sequence[_Share]) -> None:
        """Set the shares, and number their batches."""
        firsts = np.cumsum([0, *map(self._n_batches_of, shares)]).tolist()
        self.n_batches = firsts.pop()
        pairs = zip(shares, firsts, strict=True)
        self._shares = [replace(share, first=first) for share, first in pairs]
