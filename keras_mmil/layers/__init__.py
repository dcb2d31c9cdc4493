"""Bag-layers, and the layers around them."""

from keras_mmil.layers import aggregations, segments
from keras_mmil.layers.bag_layer import BagLayer
from keras_mmil.layers.dense import ConcatDense, EquivariantBagLayer, GroupedDense
from keras_mmil.layers.distinct import (
    Distinct,
    DistinctBags,
    DistinctRows,
    Gather,
    bag_inputs,
)
from keras_mmil.layers.encoders import (
    BooleanEncoder,
    CategoryEncoder,
    FieldEncoder,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
)
from keras_mmil.layers.forest import Forest
from keras_mmil.layers.instance_wise import InstanceWise
from keras_mmil.layers.kernel import KernelRegression
from keras_mmil.layers.nearest import NearestMembers
from keras_mmil.layers.pool import Pool
from keras_mmil.layers.regularization import (
    MaskKnownLabels,
    MemberDropout,
    RandomPoints,
    RandomPose,
)
from keras_mmil.layers.statistics import BagStatistics
from keras_mmil.layers.symbols import Symbols
from keras_mmil.layers.text_bags import TextBags

__all__ = [
    "BagLayer",
    "BagStatistics",
    "BooleanEncoder",
    "CategoryEncoder",
    "ConcatDense",
    "Distinct",
    "DistinctBags",
    "DistinctRows",
    "EquivariantBagLayer",
    "FieldEncoder",
    "Forest",
    "Gather",
    "GroupedDense",
    "InstanceWise",
    "KernelRegression",
    "MaskKnownLabels",
    "MemberDropout",
    "NearestMembers",
    "NumberEncoder",
    "Pool",
    "RandomPoints",
    "RandomPose",
    "Symbols",
    "TextBags",
    "TextEncoder",
    "TimeEncoder",
    "aggregations",
    "bag_inputs",
    "segments",
]
