"""Tasks side by side, with results that do not depend on how many."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

__all__ = ["run"]

_Result = TypeVar("_Result")


def run(
    tasks: Sequence[Callable[[], _Result]], n_jobs: int | None, on_done: Callable[[], None]
) -> list[_Result]:
    """Call some functions without arguments, side by side.

    They run in threads, because the slow parts release Python's lock. Each computes on one thread,
    because sums over several differ in the last bits with their number: OpenMP's limit belongs to a
    thread, BLAS's to the process and is set once around all.

    Args:
        tasks: the functions.
        n_jobs: number of threads; None for one per core.
        on_done: called after each task.

    Returns:
        The results, in the order of the tasks.
    """
    controller = ThreadpoolController()

    def single_threaded(task: Callable[[], _Result]) -> _Result:
        with controller.limit(limits=1, user_api="openmp"):
            return task()

    n_threads = -1 if n_jobs is None else min(n_jobs, max(len(tasks), 1))
    parallel = Parallel(n_threads, backend="threading", return_as="generator")
    results = []
    with controller.limit(limits=1, user_api="blas"):
        for result in parallel(delayed(single_threaded)(task) for task in tasks):
            results.append(result)
            on_done()
    return results
