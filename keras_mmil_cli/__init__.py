"""The command `keras-mmil`, as far as it needs no TensorFlow.

It lies outside of the package `keras_mmil`, as whose import starts TensorFlow, which takes seconds.
What the commands do is in `keras_mmil.cli`, and imported when one runs.
"""

__all__ = []
