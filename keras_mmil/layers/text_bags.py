"""Strings to bags."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_mmil import text
from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._checks import ReadsOldConfigs

__all__ = ["TextBags"]


@keras.saving.register_keras_serializable("keras_mmil")
class TextBags(ReadsOldConfigs, RawInputs):
    """Turn texts into bags of sentences of windows, such as trigrams, of the ids of their tokens.

    Same as `builders.corpus.Corpus.trigrams`, but in a model, which thus takes strings. See
    `keras_mmil.text` for how texts are split.

    Args:
        vocabulary: sequence of str, the token of each id: the padding, the unknown token, and at
            least one more.
        depth: 2 for bags of sentences, 1 for bags of windows.
        window_size: number of tokens in a window, odd.
        at_most: longer sentences keep their first and last `at_most // 2` windows; None for all.
        splitter: how sentences are split, "tensorflow-text" or "core".

    Input shape:
        Strings [batch].

    Output shape:
        RaggedTensor of int32 [batch, (sentences), (tokens), window_size], or for depth 1
        [batch, (tokens), window_size].

    Raises:
        ValueError: if an argument is out of range.
        ImportError: if tensorflow-text is needed but not installed.

    Example:

    >>> layer = keras_mmil.layers.TextBags(["_", "?", "not", "bad"], splitter="core")
    >>> layer(tf.constant(["Not bad, not bad! Bad?"]))
    <tf.RaggedTensor [[[[0, 1, 3],
       [1, 3, 2],
       [3, 2, 3],
       [2, 3, 0]], [[0, 1, 0]]]]>
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        depth: int = 2,
        window_size: int = 3,
        at_most: int | None = 100,
        splitter: str = "tensorflow-text",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        text.check_splitter(splitter)
        self.depth = check_int("depth", depth, 1, 2)
        self.window_size = text.check_window(window_size)
        self.at_most = positive_int("at_most", at_most, optional=True)
        self.splitter = splitter
        if len(vocabulary) < 3:
            raise ValueError(
                "Expected padding, unknown, and at least one token. "
                f"Received: vocabulary={vocabulary!r}"
            )
        padding, unknown, *tokens = vocabulary
        self.lookup = keras.layers.StringLookup(
            mask_token=padding, oov_token=unknown, name="lookup"
        )
        self.lookup.set_vocabulary(tokens)

    @property
    def vocabulary(self) -> list[str]:
        """The token of each id, a list of str."""
        return list(map(str, self.lookup.get_vocabulary()))

    def build(self, input_shape: Shape | None = None) -> None:
        """Nothing to create."""

    def call(self, inputs: tf.Tensor) -> tf.RaggedTensor:
        tokens = text.tokenize(tf.reshape(inputs, [-1]), self.splitter)
        ids = tf.cast(self.lookup(tokens.flat_values), tf.int32)
        bags = text.windows(tokens.with_flat_values(ids), self.window_size, self.at_most)
        return bags if self.depth == 2 else bags.merge_dims(1, 2)

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        shape = (inputs.shape[0], *(None,) * self.depth, self.window_size)
        return keras.KerasTensor(shape, dtype="int32", ragged=True)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "vocabulary": self.vocabulary,
            "depth": self.depth,
            "window_size": self.window_size,
            "at_most": self.at_most,
            "splitter": self.splitter,
        }
