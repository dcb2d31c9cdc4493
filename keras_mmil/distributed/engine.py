"""Where calls run: in this process, or in actors of Ray."""

import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import tensorflow as tf

__all__ = ["Pool"]

# An actor that ends is restarted, and repeats what it had begun: but not for ever, if it ends each
# time at the same call, as where that needs more memory than there is.
_LIFE = {"max_restarts": -1, "max_task_retries": 3}


class Pool:
    """Applies a function to many arguments, here or in actors of Ray, as a context manager.

    Ray is started if it is not running, and then ended with the context; ImportError if it is not
    installed, ValueError if it has too few cores. Actors start with the first call, and each loads
    its function once, by `load`, which can be pickled. Without actors, Ray is not even imported.
    """

    def __init__(
        self, load: Callable[[], Callable[[Any, Any], Any]], actors: int, threads: int
    ) -> None:
        self._load, self._n, self._threads = load, actors, threads
        self._actors: list[Any] = []
        self._is_ours = False  # Ray

    def __enter__(self) -> Self:
        if not self._n:
            return self
        ray, threads = _imported("ray"), self._threads
        if ray.is_initialized():
            cores = int(ray.cluster_resources().get("CPU", 0))
            if cores < self._n * threads:  # some actors would wait for ever
                raise ValueError(
                    f"Expected at most {cores // threads} actors of {threads} threads, for the "
                    f"{cores} cores that Ray has. Received: actors={self._n}"
                )
            return self
        arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
        if not os.environ.get("RAY_ADDRESS"):  # otherwise it is a running cluster
            cores = max(os.cpu_count() or 1, self._n * threads)
            arguments |= {"num_cpus": cores, "include_dashboard": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's, about its own settings
            ray.init(**arguments)
        self._is_ours = True
        return self

    def __exit__(self, *_: object) -> None:
        self._actors.clear()
        self._n = 0  # from now on, calls run here
        if self._is_ours:
            _imported("ray").shutdown()

    def map(
        self,
        arguments: Sequence[Any],
        common: Any = None,
        *,
        here: Callable[[Any, Any], Any],
        in_order: bool = True,
    ) -> Iterator[Any]:
        """Yield the results of the function for `common` and each of the arguments.

        `here` is the function if there are no actors. Each actor gets `common` once.
        """
        if not self._n:
            yield from (here(common, each) for each in arguments)
            return
        ray, util = _imported("ray"), _imported("ray.util")
        kind = ray.remote(num_cpus=self._threads, **_LIFE)(_Actor)
        for _ in range(len(self._actors), min(self._n, len(arguments))):
            self._actors.append(kind.remote(self._load, self._threads))
        common = ray.put(common)
        pool = util.ActorPool(self._actors)
        run = pool.map if in_order else pool.map_unordered
        exceptions = _imported("ray.exceptions")
        try:
            yield from run(lambda actor, each: actor.call.remote(common, each), arguments)
        except exceptions.RayTaskError as error:
            raise error.cause from error
        except exceptions.RayActorError as error:
            raise RuntimeError(
                "Expected actors that do not end before their work, or too often. Finished work is "
                f"kept: the same call continues. Received: {error}"
            ) from error


class _Actor:
    """A process of Ray, with a function."""

    def __init__(self, load: Callable[[], Callable[[Any, Any], Any]], threads: int) -> None:
        # Before TensorFlow computes anything.
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        self._function = load()

    def call(self, common: Any, argument: Any) -> Any:
        return self._function(common, argument)


def _imported(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own, about settings that nobody set
            return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            "Expected Ray for actors: pip install 'keras-mmil[ray]'. actors=0 works without"
        ) from error
