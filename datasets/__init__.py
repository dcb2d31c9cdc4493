"""Data sets: `keras_mmil.datasets`.

A loader of bags, `load_mil` or `load_mmil`, returns pairs `(x, y)` of a RaggedTensor and an array
of labels. Files are read from the folder that the environment variable `KERAS_MMIL_DATA` names, or
else downloaded once to Keras's cache. Made-up data are in `synthetic`.
"""

if __name__ == "datasets":
    raise ImportError("Expected `from keras_mmil import datasets`. Received: `import datasets`")

import importlib
from types import ModuleType

__all__ = [
    "citations",
    "devices",
    "imdb",
    "mnist",
    "modelnet",
    "molecules",
    "mutagenesis",
    "plants",
    "recipes",
    "social",
    "synthetic",
    "trains",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
