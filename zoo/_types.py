"""Types of the models' arguments."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import keras

from keras_mmil.layers.aggregations import Identifier

__all__ = ["Aggregations", "LearningRate", "Weights"]

# The aggregation of a bag-layer, or several side by side.
Aggregations: TypeAlias = Identifier | Sequence[Identifier]
LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
# What a network starts with: random weights, or those of the network that is in the package.
Weights: TypeAlias = Literal["pretrained"] | None
