"""Ray: where it is imported, started and asked."""

import contextlib
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from keras_mmil.distributed.blocks import Block
from keras_mmil.distributed.worker import Report, Work, Worker, set_threads

__all__ = ["Pool", "session", "work_on"]

# An actor that ends is started anew, and does again what it had begun: but not for ever, if it ends
# each time at the same block, as where that is too large for its memory.
_LIFE = {"max_restarts": -1, "max_task_retries": 3}


@contextlib.contextmanager
def session(actors: int, threads: int) -> Iterator[None]:
    """Ray, which is started if it is not running, and then ended with the block.

    Args:
        actors: how many there will be; more than there are cores share them. Without any, nothing
            is imported or started.
        threads: of each.

    Raises:
        ImportError: if Ray is not installed.
        ValueError: if Ray is running, with too few cores.
    """
    if not actors:
        yield
        return
    ray = _imported("ray")
    if ray.is_initialized():
        cores = int(ray.cluster_resources().get("CPU", 0))
        if cores < actors * threads:  # some would wait for ever
            raise ValueError(
                f"Expected at most {cores // threads} actors of {threads} threads, for the {cores} "
                f"cores that Ray has. Received: {actors=}"
            )
        yield
        return
    arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
    if not os.environ.get("RAY_ADDRESS"):  # otherwise it is a cluster that runs
        cores = max(os.cpu_count() or 1, actors * threads)
        arguments |= {"num_cpus": cores, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's, of its own settings
        ray.init(**arguments)
    try:
        yield
    finally:
        ray.shutdown()


def work_on(work: Work, blocks: Sequence[Block], actors: int, threads: int) -> Iterator[Report]:
    """Have actors work on blocks; the reports come as the blocks are done.

    Ray Data passes the blocks on, as tables of Arrow, restarts actors that end, and repeats what
    they had begun.

    Args:
        work: what to do.
        blocks: which blocks.
        actors: how many there are.
        threads: of each.
    """
    data = _imported("ray.data")
    with _quiet(data), _plain_errors():
        tables = [pa.Table.from_pylist([block.to_dict()]) for block in blocks]
        with warnings.catch_warnings():
            # Ray 2.64 is to have another way to limit retries, which older ones have not.
            warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")
            reports = data.from_arrow(tables).map_batches(
                _ArrowWorker,
                fn_constructor_args=(work, threads),
                compute=data.ActorPoolStrategy(size=actors),
                batch_size=1,
                batch_format="pyarrow",
                num_cpus=threads,
                **_LIFE,
            )
        for table in reports.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            yield from (Report(**row) for row in table.to_pylist())


class _ArrowWorker:
    """A `Worker` that gets a table of a block, and returns one of a report."""

    def __init__(self, work: Work, threads: int) -> None:
        set_threads(threads)
        self._worker = Worker(work)

    def __call__(self, table: pa.Table) -> pa.Table:
        reports = [asdict(self._worker(Block(**row))) for row in table.to_pylist()]
        return pa.Table.from_pylist(reports)


class Pool:
    """Actors that stay for several passes: each holds an object that answers calls.

    Args:
        make: makes the object, in the process of the actor.
        actors: how many there are.
        threads: of each.
    """

    def __init__(self, make: Callable[[], Any], actors: int, threads: int) -> None:
        self._ray = _imported("ray")
        kind = self._ray.remote(num_cpus=threads, **_LIFE)(_Actor)
        self._actors = [kind.remote(make, threads) for _ in range(actors)]

    def map(self, common: Any, arguments: Iterable[Any]) -> Iterator[Any]:
        """Results of the object for `common` and each of the arguments, in their order."""
        pool = _imported("ray.util").ActorPool(self._actors)
        common = self._ray.put(common)
        found = pool.map(lambda actor, each: actor.answer.remote(common, each), arguments)
        with _plain_errors():
            yield from found


class _Actor:
    """What `Pool` starts."""

    def __init__(self, make: Callable[[], Any], threads: int) -> None:
        set_threads(threads)
        self._held = make()

    def answer(self, common: Any, argument: Any) -> Any:
        return self._held(common, argument)


def _imported(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own, of settings that nobody set
            return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            "Expected Ray for actors: pip install 'keras-mmil[ray]'. actors=0 works without"
        ) from error


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors of tasks as they were raised; RuntimeError where actors do not live."""
    exceptions = _imported("ray.exceptions")
    try:
        yield
    except exceptions.RayTaskError as error:
        raise error.cause from error
    except exceptions.RayActorError as error:
        raise RuntimeError(
            "Expected actors that do not end before their work, or too often. What is done, is "
            f"done: the same call continues. Received: {error}"
        ) from error


@contextlib.contextmanager
def _quiet(data: Any) -> Iterator[None]:
    """Without Ray Data's progress bars and log: there is a bar of ours."""
    log = logging.getLogger("ray.data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = data.DataContext.get_current()
    level, has_bars = log.level, context.enable_progress_bars
    log.setLevel(logging.WARNING)
    context.enable_progress_bars = False
    try:
        yield
    finally:
        log.setLevel(level)
        context.enable_progress_bars = has_bars
