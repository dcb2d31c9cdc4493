"""The command `keras-mmil`, as far as it needs no TensorFlow.

This is a package of its own, and not a part of `keras_mmil.cli`, because importing anything from
`keras_mmil` imports TensorFlow, which takes seconds. So help, `list` and errors in the options are
printed at once. What the commands do is in `keras_mmil.cli`, which is imported when one runs.
"""

__all__ = []
