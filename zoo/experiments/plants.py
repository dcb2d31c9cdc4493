"""The experiment "Plant Distribution Data"."""

import math
from functools import partial

import numpy as np

from keras_mmil import ragged
from keras_mmil.bags import Bags, instances_of
from keras_mmil.datasets import plants, synthetic
from keras_mmil.metrics import overlooked_labels
from keras_mmil.training import piecewise_constant
from keras_mmil.zoo.experiments.experiment import Data, Experiment, ReadOn, Shown
from keras_mmil.zoo.plants import plants_mil, plants_mmil

__all__ = ["plant_experiment"]

_N_VALID = 1000  # regions on which the rules are chosen, in the paper
_SPECIES = "Vicia sativa"  # that the rules are about
_MASKED = 0.25  # probability that a species is left out


def _load_plants(
    percent, depth, include_self, seed=0, limit=None, source="afliber", unlabelled=False
):
    """All regions, for training with what was seen in them, for test with what was overlooked."""
    is_synthetic = source == "synthetic"
    whole = synthetic.load_flora(seed=seed) if is_synthetic else plants.load()
    seen = whole.incomplete(percent, seed)
    if is_synthetic:
        x = seen.similar_regions(include_self=include_self)
    else:
        x = plants.similar_regions(seen, include_self=include_self)
    if depth == 1:
        x = Bags.from_ragged(x.merge_dims(1, 2)).inputs
    labels = overlooked_labels(seen.presence, whole.presence)
    every = np.arange(len(labels))[:limit]
    regions = np.random.default_rng(seed).permutation(len(labels))
    n_valid = min(_N_VALID, len(labels) // 5)
    parts = np.split(regions, [n_valid, 2 * n_valid])
    valid, test, rest = (part[:limit] for part in parts)
    species = whole.species.index(_SPECIES) if _SPECIES in whole.species else 0

    def example(regions, labels):
        return ragged.take(x, regions), labels[regions]

    def read_on():
        truth = whole.presence[:, species].astype(int)
        return ReadOn(*(ragged.take(x, part) for part in (rest, valid)), example(test, truth))

    return Data(
        *((*example(part, seen.presence.astype(np.int8)), None) for part in (every, valid)),
        (*example(every, labels), None),
        {"dataset": seen},
        shown=partial(_shown_regions, x, seen, np.concatenate([test, valid, rest])),
        read_on=read_on,
        explainer={"target": species},
    )


def _shown_regions(x, seen, chosen):
    """Regions by their names, those first on which rules are judged; sub-bags by their species."""
    bags = ragged.take(x, chosen)
    members = instances_of(bags)
    region_at = ragged.lookup(members)

    def show(position):
        if len(position) == members.ragged_rank + 1:
            return seen.regions[region_at(position)]
        region = chosen[position[0]]
        if len(position) == 1:
            return seen.regions[region]
        return seen.species[np.flatnonzero(seen.presence[region])[position[1]]]

    return Shown(bags, show, places=(seen.coordinates[chosen], seen.coordinates))


def plant_experiment(entry):
    """The `Experiment` of an `Entry`, whose split is the per cent overlooked and perhaps a form."""
    percent, _, form = entry.split.removeprefix("P").partition("-")
    builder, depth = {"mmil": (plants_mmil, 2), "mil": (plants_mil, 1)}[entry.model]
    return Experiment(
        **vars(entry),
        build=partial(builder, species_dropout=_MASKED if form == "masked" else 0.0),
        load=partial(_load_plants, int(percent), depth, form == "self"),
        batch_size=64,
        metric="map",
        keeps_best=False,
        schedule=_cut_once,
        class_names=("absent", "present"),
    )


def _cut_once(epochs):
    """A tenth of the rate after four fifths of the epochs."""
    return piecewise_constant({0: 1e-3, math.ceil(0.8 * epochs): 1e-4})
