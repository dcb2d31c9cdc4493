"""Rules learned of Parquet files, block by block, here or on Ray."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.types import PathLike
from keras_mmil.distributed import engine
from keras_mmil.distributed.blocks import Data, blocks_of, files_of
from keras_mmil.distributed.served import load
from keras_mmil.distributed.source import BlockSource, Share, do
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.network.capture import Network
from keras_mmil.interpretation.network.sources import Step

__all__ = ["fit_rules"]


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

    The network runs where the data are read, block by block. What comes back of a block are the
    labels of what is in it and at most `max_rows` of its rows of each level, which are merged in
    the order of the blocks; the search then needs nothing else. The rules are those of one process,
    bit by bit, whatever the number of actors.

    Args:
        model_path: as of `Predictor`.
        data: Parquet files to learn from, as of `predict`.
        validation_data: others, on which the numbers of clusters are chosen.
        actors, threads, block_size: as of `predict`.
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
    served = load(model_path)
    of_both = [files_of(each, served.columns) for each in (data, validation_data)]
    batch_size = positive_int("batch_size", explainer.batch_size)
    with engine.session(actors, threads):
        pool = None
        if actors:
            names = explainer.feature_names
            pool = engine.Pool(partial(_Worker, model_path, names), actors, threads)
        x, x_valid = (
            BlockSource(blocks_of(files, block_size), batch_size, served, pool) for files in of_both
        )
        return explainer.fit(served.model, x, x_valid)


class _Worker:
    """Does steps on shares of blocks, in the process of an actor."""

    def __init__(self, model_path: str, feature_names: Sequence[str] | None) -> None:
        self._served = load(model_path)
        self._network = Network(self._served.model, feature_names)

    def __call__(self, step: Step[Any], share: Share) -> Any:
        return do(step, share, self._served, self._network)
