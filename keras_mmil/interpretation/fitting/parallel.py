"""Tasks side by side, with results that do not depend on how many."""

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

__all__ = ["run"]


def run(function, tasks, n_jobs, on_done):
    """Call a function once for each tuple of arguments.

    Threads, for what takes time here releases Python's lock. Each task computes on one thread only,
    because sums over several differ in the last bits with their number: OpenMP's limit is a
    thread's own, BLAS's is the process's and is set once around them all.

    Args:
        function: what to call.
        tasks: list of tuples of arguments.
        n_jobs: number of threads; None for one a core.
        on_done: called without arguments after each task.

    Returns:
        The results, in the order of the tasks.
    """
    controller = ThreadpoolController()

    def single_threaded(*arguments):
        with controller.limit(limits=1, user_api="openmp"):
            return function(*arguments)

    n_threads = -1 if n_jobs is None else min(n_jobs, max(len(tasks), 1))
    parallel = Parallel(n_threads, backend="threading", return_as="generator")
    results = []
    with controller.limit(limits=1, user_api="blas"):
        for result in parallel(delayed(single_threaded)(*arguments) for arguments in tasks):
            results.append(result)
            on_done()
    return results
