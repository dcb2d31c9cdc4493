"""Ways to make nested bags of things: `keras_mmil.builders`."""

import importlib

__all__ = ["clouds", "corpus", "graphs", "tables", "word_vectors"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__():
    return sorted(__all__)
