"""Types that the signatures of layers speak of."""

from collections.abc import Callable
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_mmil._support.types import Config

__all__ = ["Activation", "Constraint", "Initializer", "Nested", "Regularizer"]

Nested: TypeAlias = tf.RaggedTensor | tf.Tensor  # bags, dense if all are of one size

# What the functions of Keras of the same names take: a name, an object, or its configuration.
Activation: TypeAlias = str | Callable[[tf.Tensor], tf.Tensor] | Config | None
Initializer: TypeAlias = str | keras.initializers.Initializer | Config | None
Regularizer: TypeAlias = str | keras.regularizers.Regularizer | Config | None
Constraint: TypeAlias = str | keras.constraints.Constraint | Config | None
