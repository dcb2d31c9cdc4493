"""Training on several workers: processes that run the same program, each on a part of a batch."""

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf

__all__ = [
    "Step",
    "all_workers",
    "check_alike",
    "has_workers",
    "is_chief",
    "of_chief",
    "on_this_worker",
    "with_rows_of_logs",
]

Step: TypeAlias = Callable[[Any], dict[str, tf.Tensor]]  # from a batch to logs


# What TensorFlow raises, by where it notices first that another worker is gone.
_GONE = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


@contextlib.contextmanager
def all_workers(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Raise RuntimeError, where a block fails because a worker is gone, that says what to do."""
    try:
        yield
    except _GONE as error:
        if not has_workers(strategy):
            raise
        raise RuntimeError(
            "Expected all workers until the end. If a worker is gone: start all workers again with "
            f"the same command. Received: {error.message}"
        ) from error


def has_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether a strategy has several processes."""
    is_of_workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return is_of_workers and strategy.extended._in_multi_worker_mode()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files: the chief or, without one, worker 0."""
    return not has_workers(strategy) or strategy.extended.should_checkpoint


def of_chief(strategy: tf.distribute.Strategy, number: int) -> int:
    """The number that the chief has, on all workers. Each waits until all have come here."""
    return _sum(strategy, number if is_chief(strategy) else 0) if has_workers(strategy) else number


def on_this_worker(function: Callable[[], None]) -> None:
    """Call a function that not all workers call, outside of the scope of a strategy.

    A variable that is made in the scope waits for all of them, and Keras makes some to save models.
    """
    if not tf.distribute.has_strategy():
        function()
        return
    with concurrent.futures.ThreadPoolExecutor(1) as threads:  # scopes are of a thread
        threads.submit(function).result()


def check_alike(strategy: tf.distribute.Strategy, n: int) -> None:
    """Raise ValueError where the workers have different numbers of top-bags."""
    if not has_workers(strategy):
        return
    n_workers, total, squares = (_sum(strategy, number) for number in (1, n, n * n))
    if n_workers * squares != total * total:  # their variance is not 0
        raise ValueError(
            "Expected the same data on all workers, each of which takes its part of each batch. "
            f"Received: {n} top-bags on this worker, {total} on all {n_workers}"
        )


def with_rows_of_logs(
    make: Callable[[Callable[[Any], tf.Tensor]], Callable[[Iterator[Any]], tf.Tensor]], step: Step
) -> Callable[[Iterator[Any]], dict[str, tf.Tensor]]:
    """What Keras makes of a step, so that it averages the logs of several workers.

    Keras takes the logs for batches, and averages along their first axis: scalars have none.

    Args:
        make: Keras's function from a step to a function of an iterator.
        step: of one replica.

    Returns:
        Function of an iterator, which returns the logs of the last step, averaged over replicas.
    """
    names: list[str] = []

    def row(data: Any) -> tf.Tensor:
        logs = step(data)
        names[:] = logs
        return tf.stack([tf.cast(value, tf.float32) for value in logs.values()])[tf.newaxis]

    function = make(row)

    def logs(iterator: Iterator[Any]) -> dict[str, tf.Tensor]:
        values = tf.unstack(function(iterator))
        return dict(zip(names, values, strict=True))

    return logs


def _sum(strategy: tf.distribute.Strategy, number: int) -> int:
    with strategy.scope():
        return int(strategy.reduce("SUM", tf.constant(number, tf.int64), axis=None))
