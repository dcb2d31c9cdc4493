"""The networks of the paper's experiment "Plant Distribution Data"."""

from collections.abc import Sequence
from typing import Any, Literal

import keras
import numpy as np

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import LearningRate
from keras_mmil.layers import (
    BagLayer,
    Distinct,
    DistinctBags,
    DistinctRows,
    MaskKnownLabels,
    MemberDropout,
    bag_inputs,
)
from keras_mmil.losses import seen_crossentropy
from keras_mmil.metrics import HeldOutPrecision
from keras_mmil.model import Model, output_dtype
from keras_mmil.zoo._building import frozen_embedding
from keras_mmil.zoo._weights import Weights, stored_weights, with_weights

__all__ = ["plants_mil", "plants_mmil", "plants_nearby"]


def plants_mmil(
    dataset: Any,
    *,
    bag_units: Sequence[int] = (128, 128),
    dense_units: int = 128,
    known_by: Literal["species", "name"] = "species",
    species_dropout: float = 0.0,
    learning_rate: LearningRate = 0.001,
    name: str = "plants_mmil",
) -> Model:
    """Compiled network for regions as bags of species, which are bags of similar regions.

    A bag-layer of ReLU units for each level of bags, with maxima; a dense layer; and a sigmoid unit
    for each species. Each distinct region of a batch is computed once.

    Args:
        dataset: a `builders.flora.Flora`, or another object with `presence` [regions, species].
        bag_units: units of each bag-layer, from the instances upwards; one for each level of bags.
        dense_units: units of the dense layer.
        known_by: features of the regions in the bags: "species", those seen in them; or "name",
            one-hot vectors.
        species_dropout: probability of dropping a species of a top-bag in training, which is still
            to be predicted. 0 in the paper.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for numbers of regions [batch, (species), (regions)], plain or
        `Bags`, and labels [batch, species]: 1 for what was seen, else 0, or 2 for what is known to
        have been overlooked, which only the metric `map` (`HeldOutPrecision`) reads.

    Raises:
        ValueError: if `known_by` is neither.

    Source:
        Paper, section "Plant Distribution Data".

    Example:

    >>> flora = datasets.plants.load().incomplete(percent=5, seed=0)
    >>> model = zoo.plants_mmil(flora)
    >>> model.fit(flora.similar_regions(), flora.presence.astype(int), epochs=80, batch_size=64)
    """
    if known_by not in ("species", "name"):
        raise ValueError(f"Expected 'species' or 'name'. Received: known_by={known_by!r}")
    presence = np.asarray(dataset.presence)
    inputs = bag_inputs(depth=len(bag_units))
    x, *levels = Distinct(name="distinct")(inputs)
    if known_by == "species":
        x = frozen_embedding(presence, name="species_seen")(x)  # (regions, species)
    for level, (units, (members, counts)) in enumerate(
        zip(bag_units, levels, strict=True), start=1
    ):
        if level == len(bag_units) and species_dropout:
            counts = MemberDropout(species_dropout, name="species_dropout")(members, counts)
        one_hot = known_by == "name" and level == 1
        layer = BagLayer(
            units, vocabulary_size=len(presence) if one_hot else None, name=f"bag_layer_{level}"
        )
        x = layer(x, members, counts)
    x = _dense(dense_units)(x)
    return _compiled(Model(inputs, _labels(presence.shape[1])(x), name=name), learning_rate)


def plants_mil(
    dataset: Any,
    *,
    bag_units: Sequence[int] = (128,),
    name: str = "plants_mil",
    **arguments: Any,
) -> Model:
    """Same as `plants_mmil`, for regions as bags of all similar regions [batch, (regions)]."""
    return plants_mmil(dataset, bag_units=bag_units, name=name, **arguments)


def plants_nearby(
    dataset: Any = None,
    *,
    bag_units: int = 256,
    dense_units: int = 512,
    species_dropout: float = 0.25,
    dropout: float = 0.5,
    learning_rate: LearningRate = 0.001,
    weights: Weights = None,
    name: str = "plants_nearby",
) -> Model:
    """Compiled network for regions as two bags: of their species, and of the regions nearby.

    A bag-layer of ReLU units with means reads the species seen in regions nearby; those of the
    region itself are one-hot vectors. A dense layer, and a sigmoid unit for each species, follow.
    In training, some species are dropped, and the network learns only from these, and from those
    that were not seen.

    Args:
        dataset: a `builders.flora.Flora`, or another object with `presence` [regions, species];
            None for the pretrained network's.
        bag_units: units of the bag-layer for regions nearby.
        dense_units: units of the dense layer.
        species_dropout: probability r of dropping a species in training. An output above
            r / (1 + r) means that the species is likelier present than not; see `MaskKnownLabels`.
        dropout: rate after the dense layer.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weights: None for random ones, or "pretrained" for those of `zoo.load("plants")`, which
            replace `presence`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for a dict of `species`, numbers of those seen in a region
        [batch, (species)], and `nearby`, numbers of regions [batch, (regions)]; and for labels as
        in `plants_mmil`.

    Raises:
        ValueError: if there are no pretrained weights for these arguments.

    Example:

    >>> flora = datasets.plants.load().incomplete(percent=5, seed=0)
    >>> model = zoo.plants_nearby(flora)
    >>> x = {"species": flora.seen_species(), "nearby": flora.nearby_regions()}
    >>> model.fit(x, flora.presence.astype(int), epochs=40, batch_size=64)
    """
    presence = (
        stored_weights("a dataset", weights, "plants")[0]
        if dataset is None
        else np.asarray(dataset.presence)
    )
    inputs = {
        name: keras.Input((None,), dtype="int32", ragged=True, name=name)
        for name in ("species", "nearby")
    }
    regions, members, shares = _bag(inputs["nearby"], "nearby")
    x = frozen_embedding(presence, name="species_nearby")(regions)  # (regions, species)
    nearby = BagLayer(bag_units, aggregation="mean", name="bag_layer_nearby")(x, members, shares)
    species, members, counts = _bag(inputs["species"], "species")
    counts = MemberDropout(species_dropout, name="species_dropout")(members, counts)
    one_hot = frozen_embedding(np.eye(presence.shape[1]), name="one_hot")(species)
    told = BagLayer(None, aggregation="sum", empty="zeros", name="species_told")(
        one_hot, members, counts
    )  # (batch, species)
    x = keras.layers.Concatenate(name="region")([nearby, told])
    x = _dense(dense_units)(x)
    x = keras.layers.Dropout(dropout, name="dropout")(x)
    outputs = _labels(presence.shape[1])(x)
    outputs = MaskKnownLabels(dtype=output_dtype(), name="unknown")(outputs, told)
    model = _compiled(Model(inputs, outputs, name=name), learning_rate)
    return with_weights(model, weights, "plants")


def _bag(ids: keras.KerasTensor, field: str) -> tuple[keras.KerasTensor, ...]:
    """The distinct ids [rows] of bags; and the rows in each bag, with weights, [batch, (n)]."""
    rows, members = DistinctRows(name=f"{field}_rows")([ids])
    members, weights, _ = DistinctBags(compress=False, field=field, name=f"{field}_bags")(members)
    return rows, members, weights


def _dense(units: int) -> keras.layers.Dense:
    units = positive_int("dense_units", units)
    return keras.layers.Dense(units, activation="relu", name="dense")


def _labels(n_species: int) -> keras.layers.Dense:
    return keras.layers.Dense(n_species, activation="sigmoid", dtype=output_dtype(), name="label")


def _compiled(model: Model, learning_rate: LearningRate) -> Model:
    adam = keras.optimizers.Adam(learning_rate)
    model.compile(adam, seen_crossentropy, metrics=[HeldOutPrecision()])
    return model
