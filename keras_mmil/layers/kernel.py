"""Regression with a Gaussian kernel as a layer."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers.nearest import squared_distances

__all__ = ["KernelRegression"]


@keras.saving.register_keras_serializable("keras_mmil")
class KernelRegression(RawInputs):
    """A weighted sum of similarities to some records: α(b + Σᵢ wᵢ kᵢ(x)). It is not trained here.

    The similarity to a record xᵢ is exp(-‖z - zᵢ‖²), of features that are standardised.

    Args:
        n_records: how many records.
        n_columns: features that are read, of those there are.
        n_outputs: size of the output.
        activation: α.

    Input shape:
        Floats [n, features].

    Output shape:
        [n, n_outputs], float32.
    """

    def __init__(
        self,
        n_records: int,
        n_columns: int,
        n_outputs: int,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=kwargs.pop("trainable", False), **kwargs)
        self.n_records = positive_int("n_records", n_records)
        self.n_columns = positive_int("n_columns", n_columns)
        self.n_outputs = positive_int("n_outputs", n_outputs)
        self.activation = keras.activations.get(activation)

    def build(self, inputs_shape: Shape | None = None) -> None:
        """Create the weights, which are set from outside."""

        def weight(name: str, dtype: str, *shape: int) -> keras.Variable:
            return self.add_weight(
                shape=shape, dtype=dtype, initializer="zeros", trainable=False, name=name
            )

        self.columns = weight("columns", "int32", self.n_columns)
        self.means = weight("means", "float32", self.n_columns)
        self.scales = weight("scales", "float32", self.n_columns)
        self.centers = weight("centers", "float32", self.n_records, self.n_columns)
        self.kernel = weight("kernel", "float32", self.n_records, self.n_outputs)
        self.bias = weight("bias", "float32", self.n_outputs)

    @staticmethod
    def similarities(x: tf.Tensor, centers: tf.Tensor) -> tf.Tensor:
        """Of standardised features [n, columns] and [records, columns]: [n, records]."""
        return tf.exp(-squared_distances(x, centers))

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        columns, means, scales, centers, kernel, bias = (
            tf.convert_to_tensor(each)
            for each in (
                self.columns,
                self.means,
                self.scales,
                self.centers,
                self.kernel,
                self.bias,
            )
        )
        x = (tf.gather(tf.cast(inputs, tf.float32), columns, axis=1) - means) / scales
        return self.activation(tf.matmul(self.similarities(x, centers), kernel) + bias)

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor((inputs.shape[0], self.n_outputs), dtype="float32")

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "n_records": self.n_records,
            "n_columns": self.n_columns,
            "n_outputs": self.n_outputs,
            "activation": keras.activations.serialize(self.activation),
        }
