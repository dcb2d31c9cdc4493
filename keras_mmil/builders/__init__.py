"""Ways to make nested bags of your own data: `keras_mmil.builders`."""

import importlib
from types import ModuleType

__all__ = ["clouds", "corpus", "flora", "graphs", "tables", "word_vectors"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
