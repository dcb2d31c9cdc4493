"""What is done with a block, in whatever process."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from keras_mmil.distributed.blocks import Block, read
from keras_mmil.distributed.job import Job
from keras_mmil.distributed.predictor import Predictor

__all__ = ["Report", "Work", "Worker", "set_threads"]

# What data may be to blame for. Such an error of one block does not end the others.
_ERRORS = (KeyError, OSError, TypeError, ValueError, tf.errors.OpError)


@dataclass(frozen=True)
class Report:
    """What became of a block.

    Attributes:
        number: of the block.
        rows: how many were written.
        error: why none were; empty where all is well.
        started, finished: when, in seconds since 1970.
        process: id of the process.
    """

    number: int
    rows: int
    error: str
    started: float
    finished: float
    process: int


@dataclass(frozen=True)
class Work:
    """What is to be done with blocks.

    Attributes:
        job: where the results go.
        verb: "predict" or "explain".
        model_path: of the model.
        arguments: others of `Predictor`.
    """

    job: Job
    verb: str
    model_path: str
    arguments: Mapping[str, Any]


class Worker:
    """Computes results of blocks, and writes them.

    Args:
        work: what to do.
        predictor: the model; None to load it.
    """

    def __init__(self, work: Work, predictor: Predictor | None = None) -> None:
        self._work = work
        self._predictor = predictor or Predictor(work.model_path, **work.arguments)
        if work.verb == "explain":
            self._predictor.explainer  # loaded now  # noqa: B018

    def __call__(self, block: Block) -> Report:
        """Compute the results of a block, and write them in place of those that may be there."""
        started, error = time.time(), ""
        try:
            self._work.job.write(block, self._results(block))
        except _ERRORS as caught:
            error = str(caught) or repr(caught)
        return Report(
            number=block.number,
            rows=0 if error else block.rows,
            error=error,
            started=started,
            finished=time.time(),
            process=os.getpid(),
        )

    def _results(self, block: Block) -> Any:
        batch = read(block, self._predictor.columns)
        if self._work.verb == "explain":
            return self._predictor.explain_batch(batch, first=block.start)
        return self._predictor.predict_batch(batch)


def set_threads(n: int) -> None:
    """Have TensorFlow compute with so many threads; only before it has computed anything."""
    tf.config.threading.set_intra_op_parallelism_threads(n)
    tf.config.threading.set_inter_op_parallelism_threads(n)
