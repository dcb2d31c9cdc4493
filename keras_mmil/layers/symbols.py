"""A layer that lets only a few discrete symbols pass."""

from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil._support.checks import check_int, check_number, positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._types import Nested
from keras_mmil.layers.grouping import with_rows

__all__ = ["Symbols"]

_DEAD = 1e-3  # share of the rows, times k: a symbol that fewer take
_LEAST = 1e-9  # share, of a symbol that no row takes


@keras.saving.register_keras_serializable("keras_mmil")
class Symbols(RawInputs):
    """Replace each vector by the nearest of k vectors, its symbol.

    All that passes is one of k things, which rules can name: nothing is left to approximate. In a
    `BagLayer(..., symbols=k)` these are the kinds of members that a bag may have.

    Gradients pass as if nothing were replaced (straight-through), and a loss pulls vectors to their
    symbols. The symbols are not trained by gradients: they follow the mean of the vectors that they
    replace, as in k-means.

    It is best to train a network without symbols first, and then to put them in, with
    `rules.symbolize`. Otherwise they begin as random rows of the first batch. During the first
    `warm_up` steps of training, vectors turn into symbols little by little, and symbols that hardly
    any vector takes are moved to random rows.

    Args:
        k: number of symbols.
        warm_up: number of those steps; 0 if the symbols are known, see `set_codebook`.
        commitment: weight in the loss of the mean squared distance of vectors from their symbols,
            as a share of the symbols' variance.
        momentum: of the moving averages, from 0 to below 1.
        seed: random seed.
        name, dtype: as in `keras.layers.Dense`.

    Attributes:
        codebook: the symbols, float32 [k, features].
        shares: moving average of the share of the rows that take each symbol, float32 [k].

    Input shape:
        RaggedTensor or tensor [..., features].

    Output shape:
        The same.

    Raises:
        ValueError: if an argument is out of range, or the number of features is unknown.

    Example:

    >>> layer = keras_mmil.layers.Symbols(2)
    >>> layer.build((None, 1))
    >>> layer.set_codebook([[0.0], [10.0]])
    >>> layer(tf.constant([[3.0], [4.0], [7.0]])).numpy().ravel()
    array([ 0.,  0., 10.], dtype=float32)

    Reference:
        van den Oord, Vinyals and Kavukcuoglu, Neural Discrete Representation Learning, 2017.
    """

    def __init__(
        self,
        k: int,
        warm_up: int = 1500,
        commitment: float = 0.25,
        momentum: float = 0.99,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.k = positive_int("k", k)
        self.warm_up = check_int("warm_up", warm_up)
        self.commitment = check_number("commitment", commitment, least=0)
        self.momentum = check_number("momentum", momentum, 0, 1)
        self.seed = check_int("seed", seed, optional=True)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    @classmethod
    def get(cls, identifier: "int | Symbols | Config | None") -> Self | None:
        """The layer for a number of symbols, itself, or its configuration; None for None.

        Raises:
            ValueError: if it is nothing of these.
        """
        if isinstance(identifier, dict):
            identifier = keras.saving.deserialize_keras_object(identifier)
        if identifier is None or isinstance(identifier, cls):
            return identifier
        return cls(positive_int("symbols", identifier))

    def build(self, inputs_shape: Shape) -> None:
        features = inputs_shape[-1]
        if features is None:
            raise ValueError(
                f"Symbols '{self.name}' expected a known number of features. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )

        def weight(name: str, initializer: str, *shape: int, dtype: str = "float32") -> Any:
            return self.add_weight(
                shape=shape,
                initializer=initializer,
                trainable=False,
                dtype=dtype,
                autocast=False,
                aggregation="mean",
                name=name,
            )

        self.codebook = weight("codebook", "random_normal", self.k, features)
        self.shares = weight("shares", "zeros", self.k)
        self.steps = weight("steps", "zeros", dtype="int64")

    def set_codebook(self, codebook: npt.ArrayLike, shares: npt.ArrayLike | None = None) -> None:
        """Set the symbols, and end the warm-up.

        Args:
            codebook: [k, features].
            shares: of the rows that take each, [k]; None for equal ones.

        Raises:
            ValueError: if the shape is another one.
        """
        if np.shape(codebook) != tuple(self.codebook.shape):
            raise ValueError(
                f"Expected a codebook of shape {tuple(self.codebook.shape)}. "
                f"Received: codebook.shape={np.shape(codebook)}"
            )
        self.codebook.assign(codebook)
        self.shares.assign(np.full(self.k, 1 / self.k) if shares is None else shares)
        self.steps.assign(max(self.warm_up, 1))

    def ids(self, inputs: Nested) -> Nested:
        """The index of the symbol of each vector: int32 [...]."""
        if not isinstance(inputs, tf.RaggedTensor):
            inputs = tf.convert_to_tensor(inputs)
        return with_rows(inputs, self._nearest(self._rows(inputs)))

    def call(self, inputs: Nested, training: bool = False) -> Nested:
        rows = self._rows(inputs)
        if training:
            self._follow(tf.stop_gradient(rows))
        symbols = tf.gather(tf.convert_to_tensor(self.codebook), self._nearest(rows))
        if training:
            strength = self._strength()
            if self.commitment:
                # Of the symbols, as all rows of a batch may be alike.
                variance = tf.reduce_mean(tf.math.reduce_variance(self.codebook.value, axis=0))
                distance = tf.reduce_mean(tf.square(rows - tf.stop_gradient(symbols)))
                loss = tf.math.divide_no_nan(distance, variance)
                loss = tf.where(tf.shape(rows)[0] > 0, loss, 0.0)  # the mean of no rows is NaN
                self.add_loss(self.commitment * strength * loss)
            symbols = rows + strength * tf.stop_gradient(symbols - rows)
        return with_rows(inputs, tf.cast(symbols, self.compute_dtype))

    def _rows(self, inputs: Nested) -> tf.Tensor:
        # In float32 also in mixed precision, so that near ties are decided alike everywhere.
        flat = tf.cast(getattr(inputs, "flat_values", inputs), tf.float32)
        return tf.reshape(flat, [-1, self.codebook.shape[1]])

    def _nearest(self, rows: tf.Tensor) -> tf.Tensor:
        codebook = tf.convert_to_tensor(self.codebook)
        # |x - c|² without |x|², which is the same for all symbols.
        products = tf.matmul(rows, codebook, transpose_b=True)
        distances = tf.reduce_sum(tf.square(codebook), axis=1) - 2 * products
        return tf.argmin(distances, axis=1, output_type=tf.int32)

    def _strength(self) -> tf.Tensor:
        """How much of the way from vectors to symbols is gone, from 0 to 1."""
        return tf.minimum(tf.cast(self.steps, tf.float32) / max(self.warm_up, 1), 1.0)

    def _follow(self, rows: tf.Tensor) -> None:
        """Move the symbols to the mean of the rows that take them, averaged over the steps."""
        n = tf.shape(rows)[0]
        codebook, shares = tf.convert_to_tensor(self.codebook), tf.convert_to_tensor(self.shares)
        chosen = keras.random.randint((self.k,), 0, tf.maximum(n, 1), seed=self.seed_generator)
        random_rows = tf.gather(tf.concat([rows, codebook[:1]], axis=0), chosen)
        is_first = tf.equal(self.steps, 0) & (n > 0)
        codebook = tf.where(is_first, random_rows, codebook)
        self.codebook.assign(codebook)
        shares = tf.where(is_first, tf.fill([self.k], 1 / self.k), shares)
        ids = self._nearest(rows)
        counts = tf.math.unsorted_segment_sum(tf.ones([n]), ids, self.k)
        sums = tf.math.unsorted_segment_sum(rows, ids, self.k)
        here = (1 - self.momentum) / tf.maximum(tf.cast(n, tf.float32), 1)
        before = self.momentum * shares
        shares = before + here * counts
        means = (before[:, None] * codebook + here * sums) / tf.maximum(shares, _LEAST)[:, None]
        codebook = tf.where((counts > 0)[:, None], means, codebook)
        is_dead = (shares * self.k < _DEAD) & (self.steps < self.warm_up) & (n > 0)
        codebook = tf.where(is_dead[:, None], random_rows, codebook)
        shares = tf.where(is_dead, 10 * _DEAD / self.k, shares)  # for some time to be taken
        self.codebook.assign(codebook)
        self.shares.assign(shares)
        self.steps.assign_add(tf.cast(n > 0, tf.int64))

    def compute_output_spec(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype, ragged=inputs.ragged)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "k": self.k,
            "warm_up": self.warm_up,
            "commitment": self.commitment,
            "momentum": self.momentum,
            "seed": self.seed,
        }
