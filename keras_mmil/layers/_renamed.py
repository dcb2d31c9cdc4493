"""Arguments of layers that have another name in files saved before."""

from typing import Any

import keras

from keras_mmil._support.types import Config

__all__ = ["ReadsOldConfigs"]

# The width of a window was `positions` in BagLayer and ConcatDense, and `size` in TextBags.
_NEW_NAMES = {"positions": "window_size", "size": "window_size"}


class ReadsOldConfigs(keras.Layer):
    """Base of layers one of whose arguments had another name."""

    @classmethod
    def from_config(cls, config: Config) -> Any:
        """The layer of a configuration, which may be from a file saved before."""
        return super().from_config({_NEW_NAMES.get(name, name): config[name] for name in config})
