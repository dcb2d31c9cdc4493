"""The arguments of an `Explainer`, checked, and what they mean for each bag-layer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from keras_mmil._support.checks import check_int, check_number, is_int
from keras_mmil._support.types import Array
from keras_mmil.rules.network.targets import TargetChoice
from keras_mmil.rules.trees import features as kinds

__all__ = [
    "ONE_STANDARD_ERROR",
    "Options",
    "Tolerance",
    "class_names",
    "level_features",
]

ONE_STANDARD_ERROR: Literal["one_standard_error"] = "one_standard_error"
# How far below the highest fidelity counts as equally good: a number, or one standard error.
Tolerance: TypeAlias = float | Literal["one_standard_error"]

# The check of each argument, with the least and the greatest value allowed.
_RANGES: tuple[tuple[str, Callable[..., object], float, float], ...] = (
    ("ccp_alpha", check_number, 0.0, np.inf),
    ("validation_fraction", check_number, 0.0, 1.0),
    ("n_init", check_int, 1, 1000),
    ("max_rows", check_int, 1, np.inf),
    ("max_top_bags", check_int, 1, np.inf),
)
_METRICS = ("euclidean", "sensitivity")
_INSTANCES = ("auto", "fields", "centroids")
_BINARY = ("negative", "positive")


@dataclass(eq=False, repr=False)
class Options:
    """The arguments of an `Explainer`, which documents them."""

    max_clusters: int | Sequence[int] = 10
    n_clusters: int | Sequence[int] | None = None
    metric: str = "euclidean"
    features: str | Sequence[str] = "auto"
    instances: str = "auto"
    target: TargetChoice = None
    class_names: Sequence[str] | None = None
    max_depth: int | None = None
    ccp_alpha: float = 1e-3
    tolerance: Tolerance = 0.0
    validation_fraction: float = 0.2
    n_init: int = 3
    max_rows: int = 100_000
    max_top_bags: int = 50_000
    batch_size: int | None = None
    random_state: int | None = 0
    n_jobs: int | None = None
    verbose: int = 1
    feature_names: Sequence[str] | None = None

    def check_arguments(self) -> None:
        """Raise ValueError if an argument is out of range, whatever the network is."""
        if isinstance(self.tolerance, str) and self.tolerance != ONE_STANDARD_ERROR:
            raise ValueError(
                f"Expected a number, or {ONE_STANDARD_ERROR!r}. "
                f"Received: tolerance={self.tolerance!r}"
            )
        if self.tolerance != ONE_STANDARD_ERROR:
            check_number("tolerance", self.tolerance, 0.0, 1.0)
        for name, check, least, most in _RANGES:
            check(name, getattr(self, name), least, most)
        if self.metric not in _METRICS:
            raise ValueError(f"Expected one of {_METRICS}. Received: metric={self.metric!r}")
        if self.instances not in _INSTANCES:
            raise ValueError(
                f"Expected one of {_INSTANCES}. Received: instances={self.instances!r}"
            )
        for name in ("max_depth", "n_jobs", "random_state"):
            value = getattr(self, name)
            if value is not None and not is_int(value):
                raise ValueError(f"Expected an int or None. Received: {name}={value!r}")
        if self.random_state is not None:
            check_int("random_state", self.random_state, 0, 2**32 - 1)
        check_int("batch_size", self.batch_size, 1, optional=True)
        if self.max_depth is not None:
            check_int("max_depth", self.max_depth, 1, 2**31 - 1)
        if self.n_jobs == 0:
            raise ValueError("Expected a number of threads, or -1. Received: n_jobs=0")
        if self.feature_names is not None:
            _check_feature_names(self.feature_names)

    def numbers_of_clusters(self, n_levels: int) -> tuple[range, ...]:
        """The numbers of clusters to try at each level; they may exceed the data's rows."""
        if self.n_clusters is None:
            limits = _per_level("max_clusters", self.max_clusters, n_levels, 2)
            return tuple(range(2, limit + 1) for limit in limits)
        numbers = _per_level("n_clusters", self.n_clusters, n_levels, 1)
        check_int("n_clusters", max(numbers, default=1), 1, self.max_rows)
        return tuple(range(k, k + 1) for k in numbers)


def _check_feature_names(names: Sequence[str]) -> None:
    is_list = isinstance(names, Iterable) and not isinstance(names, str)
    found = list(names) if is_list else []
    are_texts = all(isinstance(name, str) and name for name in found)
    if not found or not are_texts or len(set(found)) < len(found):
        raise ValueError(
            f"Expected a name of its own for each feature. Received: feature_names={names!r}"
        )


def _per_level(name: str, value: int | Sequence[int], n_levels: int, least: int) -> tuple[int, ...]:
    values = value if isinstance(value, Sequence) else (value,) * n_levels
    if (
        not isinstance(values, (tuple, list))
        or len(values) != n_levels
        or not all(is_int(each) and each >= least for each in values)
    ):
        raise ValueError(
            f"Expected an int ≥ {least}, or a tuple of one for each of {n_levels} bag-layers, from "
            f"the instances upwards. Received: {name}={value!r}"
        )
    return tuple(int(each) for each in values)


def level_features(
    features: str | Sequence[str], aggregations: Sequence[set[str]], weights: Sequence[Array]
) -> tuple[kinds.Feature, ...]:
    """The feature that describes the bags of each level.

    Args:
        features: "auto", the name of a feature, or a tuple of names, one per level.
        aggregations: names of the aggregations of each bag-layer.
        weights: the members' weights at each level; fractions turn "count" into "weight".

    Raises:
        ValueError: for anything else.
    """
    names = (features,) * len(aggregations) if isinstance(features, str) else features
    if not isinstance(names, (tuple, list)) or len(names) != len(aggregations):
        raise ValueError(
            f"Expected 'auto', a name, or a tuple of one for each of {len(aggregations)} "
            f"bag-layers. Received: features={features!r}"
        )
    return tuple(map(_level_feature, names, aggregations, weights))


def _level_feature(name: str, aggregations: set[str], weights: Array) -> kinds.Feature:
    if name == "auto" and aggregations <= {"max"}:
        name = "occurrence"
    elif name == "auto":
        name = "count" if aggregations <= {"max", "sum"} else "frequency"
    if name == "count" and (weights != np.floor(weights)).any():
        name = "weight"
    return kinds.get(name)


def class_names(
    names: Sequence[str] | None, n_classes: int, or_more: bool = False
) -> tuple[str, ...]:
    """Names of the classes of top-bags: the user's, or default ones for None.

    Args:
        names: the user's.
        n_classes: number of classes.
        or_more: whether there may be more classes, which have not been seen.

    Raises:
        ValueError: if there are not as many names as classes, or two are equal.
    """
    if names is None:
        return _BINARY if n_classes == 2 else tuple(f"class_{i}" for i in range(n_classes))
    n_names = min(len(names), n_classes) if or_more else len(names)
    if isinstance(names, str) or len(set(names)) != len(names) or n_names != n_classes:
        raise ValueError(
            f"Expected different names for {n_classes} classes. Received: class_names={names!r}"
        )
    return tuple(map(str, names))
