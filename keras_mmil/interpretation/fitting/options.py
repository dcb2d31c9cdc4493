"""The explainer's arguments, checked and spelled out for each level."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from keras_mmil._support.checks import check_int, check_number, is_int
from keras_mmil.interpretation.rules import features as kinds
from keras_mmil.interpretation.rules.level import level_symbol

__all__ = [
    "Settings",
    "check_arguments",
    "class_names",
    "level_features",
    "make_settings",
]

_RANGES = (
    ("tolerance", check_number, 0.0, 1.0),
    ("ccp_alpha", check_number, 0.0, np.inf),
    ("validation_fraction", check_number, 0.0, 1.0),
    ("n_init", check_int, 1, 1000),
    ("max_rows", check_int, 1, np.inf),
    ("batch_size", check_int, 1, np.inf),
)
_METRICS = ("euclidean", "sensitivity")
_BINARY = ("negative", "positive")


@dataclass(frozen=True)
class Settings:
    """How to fit, spelled out.

    Attributes:
        options: numbers of clusters to try, a range for each level. They may be far more than the
            data have rows.
        fixed: whether those were asked for, rather than tried.
        metric, features, class_names, tolerance, n_jobs, batch_size: see `Explainer`.
        seed: decides all that is random.
        max_rows: number of rows of a level to cluster.
        clustering: further arguments of `fit_centroids`.
        tree: further arguments of `grow`.
    """

    options: tuple
    fixed: bool
    metric: str
    features: object
    class_names: object
    tolerance: float
    n_jobs: int | None
    batch_size: int
    seed: int
    max_rows: int
    clustering: dict
    tree: dict

    def check_rows(self, n_rows):
        """Raise ValueError if there are too few rows to cluster, of so many at each level."""
        for level, (n, wanted) in enumerate(zip(n_rows, self.options, strict=True)):
            least = wanted[0] if self.fixed else 1
            if n < least:
                raise ValueError(
                    f"Expected at least {wanted[0]} rows to cluster at level "
                    f"{level_symbol(level)!r}. Received: {n}, n_clusters={wanted[0]}"
                )


def check_arguments(explainer):
    """Raise ValueError if an argument of an explainer is out of range, whatever the network is."""
    for name, check, least, most in _RANGES:
        check(name, getattr(explainer, name), least, most)
    if explainer.metric not in _METRICS:
        raise ValueError(f"Expected one of {_METRICS}. Received: metric={explainer.metric!r}")
    for name in ("max_depth", "n_jobs", "random_state"):
        value = getattr(explainer, name)
        if value is not None and not is_int(value):
            raise ValueError(f"Expected an int or None. Received: {name}={value!r}")
    if explainer.random_state is not None:
        check_int("random_state", explainer.random_state, 0, 2**32 - 1)
    if explainer.max_depth is not None:
        check_int("max_depth", explainer.max_depth, 1, 2**31 - 1)
    if explainer.n_jobs == 0:
        raise ValueError("Expected a number of threads, or -1. Received: n_jobs=0")


def make_settings(explainer, n_levels):
    """The `Settings` of an explainer for a network of some number of bag-layers.

    Raises:
        ValueError: if one of its arguments is out of range.
    """
    check_arguments(explainer)
    seed = explainer.random_state
    if seed is None:
        seed = int(np.random.default_rng().integers(2**31))
    fixed = explainer.n_clusters is not None
    if fixed:
        numbers = _per_level("n_clusters", explainer.n_clusters, n_levels, 1)
        check_int("n_clusters", max(numbers), 1, explainer.max_rows)
        ks = tuple(range(k, k + 1) for k in numbers)
    else:
        limits = _per_level("max_clusters", explainer.max_clusters, n_levels, 2)
        ks = tuple(range(2, limit + 1) for limit in limits)
    return Settings(
        ks,
        fixed,
        explainer.metric,
        explainer.features,
        explainer.class_names,
        explainer.tolerance,
        explainer.n_jobs,
        explainer.batch_size,
        seed,
        explainer.max_rows,
        {"n_init": explainer.n_init, "seed": seed},
        {
            "max_depth": explainer.max_depth,
            "ccp_alpha": explainer.ccp_alpha,
            "random_state": seed,
        },
    )


def _per_level(name, value, n_levels, least):
    values = (value,) * n_levels if isinstance(value, Integral) else value
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


def level_features(features, aggregations, weights):
    """The `Feature` of each level.

    Args:
        features: "auto", the name of a feature, or a tuple of those, one a level.
        aggregations: names of the aggregations of each bag-layer, a tuple of sets.
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


def _level_feature(name, aggregations, weights):
    if name == "auto" and aggregations <= {"max"}:
        name = "occurrence"
    elif name == "auto":
        name = "count" if aggregations <= {"max", "sum"} else "frequency"
    if name == "count" and (weights != np.floor(weights)).any():
        name = "weight"
    return kinds.get(name)


def class_names(names, n_classes):
    """Names of the classes of top-bags: those given, or made up.

    Raises:
        ValueError: if there are not as many as classes, or two are equal.
    """
    if names is None:
        return _BINARY if n_classes == 2 else tuple(f"class_{i}" for i in range(n_classes))
    if isinstance(names, str) or len(set(names)) != len(names) or len(names) != n_classes:
        raise ValueError(
            f"Expected different names for {n_classes} classes. Received: class_names={names!r}"
        )
    return tuple(map(str, names))
