"""The networks of the paper's experiment "Plant Distribution Data"."""

import keras
import numpy as np

from keras_mmil._support.checks import positive_int
from keras_mmil.layers import BagLayer, Distinct, MemberDropout, bag_inputs
from keras_mmil.losses import seen_crossentropy
from keras_mmil.metrics import OverlookedPrecision
from keras_mmil.model import Model
from keras_mmil.zoo._frozen import frozen_embedding

__all__ = ["plants_mil", "plants_mmil"]


def plants_mmil(
    dataset,
    bag_units=(128, 128),
    dense_units=128,
    known_by="species",
    species_dropout=0.0,
    learning_rate=0.001,
    name="plants_mmil",
):
    """Network for regions as bags of species, which are bags of similar regions, compiled.

    A bag-layer of ReLU units for each level of bags, with maxima; a dense layer; and a sigmoid unit
    for each species. Each region is computed once in a batch, however many bags hold it.

    Args:
        dataset: a `builders.flora.Flora`, or another object with `presence` [regions, species].
        bag_units: units of each bag-layer, from the instances upwards: so also the nesting depth.
        dense_units: units of the dense layer.
        known_by: what the network knows of the regions in the bags: "species", those seen in them;
            or "name", one-hot vectors.
        species_dropout: probability that a member is left out of a top-bag in training, though it
            is still to be predicted. 0 in the paper.
        learning_rate: of Adam, or a `keras.optimizers.schedules.LearningRateSchedule`.
        name: of the model.

    Returns:
        A compiled `keras_mmil.Model` for numbers of regions [batch, (species), (regions)], plain or
        `Bags`, and labels [batch, species]: 1 for what was seen, else 0, or 2 for what is known to
        have been overlooked, which only the metric `map` (`OverlookedPrecision`) looks at.

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
    first = {"vocabulary_size": len(presence)}
    if known_by == "species":
        x, first = frozen_embedding(presence, name="species_seen")(x), {}  # (regions, species)
    for level, (units, (members, weights)) in enumerate(
        zip(bag_units, levels, strict=True), start=1
    ):
        if level == len(bag_units) and species_dropout:
            weights = MemberDropout(species_dropout, name="species_dropout")(members, weights)
        settings = first if level == 1 else {}
        x = BagLayer(units, name=f"bag_layer_{level}", **settings)(x, members, weights)
    x = keras.layers.Dense(
        positive_int("dense_units", dense_units), activation="relu", name="dense"
    )(x)
    outputs = keras.layers.Dense(presence.shape[1], activation="sigmoid", name="label")(x)
    model = Model(inputs, outputs, name=name)
    adam = keras.optimizers.Adam(learning_rate)
    model.compile(adam, seen_crossentropy, metrics=[OverlookedPrecision()])
    return model


def plants_mil(dataset, bag_units=(128,), name="plants_mil", **arguments):
    """The same for regions as bags of all the similar regions [batch, (regions)].

    Args:
        dataset, bag_units, name: as for `plants_mmil`.
        arguments: the others.
    """
    return plants_mmil(dataset, bag_units=bag_units, name=name, **arguments)
