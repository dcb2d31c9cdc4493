"""Types of the models' arguments."""

from collections.abc import Sequence
from typing import TypeAlias

import keras

from keras_mmil.layers.aggregations import Aggregation

__all__ = ["Aggregations", "LearningRate"]

# The aggregation of a bag-layer, or several side by side.
Aggregations: TypeAlias = str | Aggregation | Sequence[str | Aggregation]
LearningRate: TypeAlias = float | keras.optimizers.schedules.LearningRateSchedule
