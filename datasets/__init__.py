"""Data sets: `keras_mmil.datasets`.

A loader of bags, `load_mil` or `load_mmil`, returns pairs `(x, y)` of a RaggedTensor and an array
of labels. Files are read from the folder that the environment variable `KERAS_MMIL_DATA` names, or
else downloaded once to Keras's cache. Made-up data are in `synthetic`.
"""

if __name__ == "datasets":
    raise ImportError("Expected `from keras_mmil import datasets`. Received: `import datasets`")

from keras_mmil._support.lazy import lazy

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

__getattr__, __dir__ = lazy(__name__, dict.fromkeys(__all__), __all__)
