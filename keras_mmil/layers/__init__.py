"""Bag-layers, and the layers around them."""

from keras_mmil.layers import aggregations
from keras_mmil.layers.bag_layer import BagLayer
from keras_mmil.layers.concat_dense import ConcatDense
from keras_mmil.layers.distinct import Distinct, bag_inputs
from keras_mmil.layers.distinct_bags import DistinctBags
from keras_mmil.layers.distinct_rows import DistinctRows
from keras_mmil.layers.encoders import (
    BooleanEncoder,
    CategoryEncoder,
    FieldEncoder,
    NumberEncoder,
    TextEncoder,
    TimeEncoder,
)
from keras_mmil.layers.equivariant_bag_layer import EquivariantBagLayer
from keras_mmil.layers.gather import Gather
from keras_mmil.layers.instance_wise import InstanceWise
from keras_mmil.layers.known_outputs import KnownOutputs
from keras_mmil.layers.member_dropout import MemberDropout
from keras_mmil.layers.random_points import RandomPoints
from keras_mmil.layers.random_pose import RandomPose
from keras_mmil.layers.text_bags import TextBags

__all__ = [
    "BagLayer",
    "BooleanEncoder",
    "CategoryEncoder",
    "ConcatDense",
    "Distinct",
    "DistinctBags",
    "DistinctRows",
    "EquivariantBagLayer",
    "FieldEncoder",
    "Gather",
    "InstanceWise",
    "KnownOutputs",
    "MemberDropout",
    "NumberEncoder",
    "RandomPoints",
    "RandomPose",
    "TextBags",
    "TextEncoder",
    "TimeEncoder",
    "aggregations",
    "bag_inputs",
]
