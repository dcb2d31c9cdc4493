"""Made-up data whose rules are known: for tests, examples, and the first steps.

`load_citations`, `load_networks` and `load_flora` make what `keras_mmil.datasets` reads from files,
`load_churn` linked tables; the other `load_...` functions make bags, clouds or texts, and their
labels.
"""

import importlib
from typing import Any

# Where each name is; `keras_mmil.datasets.synthetic` loads a module when it is asked for a name.
_HOMES = {
    "load_churn": "churn",
    "load_citations": "citations",
    "load_clouds": "clouds",
    "load_flora": "plants",
    "load_networks": "social",
    "load_offside": "points",
    "load_reviews": "opinions",
    "load_three_level": "points",
    "load_zero_and_no_two": "points",
    "offside_image_labels": "points",
    "offside_labels": "points",
    "three_level_labels": "points",
    "zero_and_no_two_labels": "points",
}
_MODULES = ("churn", "citations", "clouds", "opinions", "plants", "points", "social")

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
