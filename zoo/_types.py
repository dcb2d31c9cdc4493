"""Types of the models' arguments."""

from collections.abc import Sequence
from typing import TypeAlias

import keras

from keras_mmil.layers.aggregations import Identifier

__all__ = ["Aggregations", "LearningRate"]

# The aggregation of a bag-layer, or several side by side.
Aggregations: TypeAlias = Identifier | Sequence[Identifier]
LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
