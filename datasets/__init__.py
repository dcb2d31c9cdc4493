"""Data sets: `keras_mmil.datasets`.

Every `load_...` function returns pairs `(x, y)` of a RaggedTensor and an array of labels. Files are
read from the folder that the environment variable `KERAS_MMIL_DATA` names, or else downloaded once
into Keras's cache.
"""

if __name__ == "datasets":
    raise ImportError("Expected `from keras_mmil import datasets`. Received: `import datasets`")

import importlib

__all__ = [
    "citations",
    "imdb",
    "mnist",
    "modelnet",
    "pictures",
    "plants",
    "social",
    "synthetic",
]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__():
    return sorted(__all__)
