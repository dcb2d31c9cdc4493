"""The experiment "Plant Distribution Data"."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from keras_mmil import ragged
from keras_mmil._support.types import Ints, Tensors
from keras_mmil.bags import Bags, instances_of
from keras_mmil.builders.flora import Flora
from keras_mmil.datasets import plants, synthetic
from keras_mmil.metrics import held_out_labels
from keras_mmil.model import Model
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.explanation import Shows
from keras_mmil.rules.report.renderers import ByPath, Places, Plain, Renderer
from keras_mmil.training import cosine_decay, step_decay
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Page, RuleData, RunWriter, Split
from keras_mmil.zoo.plants import plants_mil, plants_mmil, plants_nearby

__all__ = ["plant_experiment"]

_N_VALID = 1000  # regions on which the rules are validated, in the paper
_SPECIES = "Vicia sativa"  # that the rules are about
_MASKED = 0.25  # probability that a species is left out
_LIKELY = _MASKED / (1 + _MASKED)  # output of `plants_nearby` for species of probability 1/2
_BUILDERS: Mapping[str, Callable[..., Model]] = {"mmil": plants_mmil, "mil": plants_mil}


def plant_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`, whose split is the per cent overlooked and perhaps a form."""
    percent, _, form = entry.split.removeprefix("P").partition("-")
    build = partial(_BUILDERS[entry.model], species_dropout=_MASKED if form == "masked" else 0.0)
    schedule = partial(step_decay, 1e-3, at=(0.8,))
    if form == "nearby":
        build = partial(plants_nearby, species_dropout=_MASKED)
        schedule = partial(cosine_decay, 1e-3)
    return Experiment(
        **vars(entry),
        build=build,
        load=partial(_load, percent=int(percent), form=form, model=entry.model),
        batch_size=64,
        metric="map",
        keeps_best=False,
        schedule=schedule,
        class_names=("absent", "present"),
    )


def _load(
    *,
    percent: int,
    form: str,
    model: str,
    seed: int = 0,
    limit: int | None = None,
    source: str = "afliber",
    unlabelled: bool = False,
) -> Data:
    """All regions, with the species seen for training, and those held out for test."""
    is_synthetic = source == "synthetic"
    whole = synthetic.load_flora(seed=seed) if is_synthetic else plants.load()
    seen = whole.incomplete(percent, seed)
    if form == "nearby":
        x: Tensors = {"species": seen.seen_species(), "nearby": seen.nearby_regions()}
    else:
        similar = Flora.similar_regions if is_synthetic else plants.similar_regions
        x = similar(seen, include_self=form == "self")
        if model == "mil":
            x = Bags.from_ragged(x.merge_dims(1, 2)).inputs
    y = seen.presence.astype(np.int8)
    y_test = held_out_labels(seen.presence, whole.presence)
    every = np.arange(len(y))[:limit]
    regions = np.random.default_rng(seed).permutation(len(y))
    n_valid = min(_N_VALID, len(y) // 5)
    valid, test, rest = (part[:limit] for part in np.split(regions, [n_valid, 2 * n_valid]))
    species = whole.species.index(_SPECIES) if _SPECIES in whole.species else 0

    def part(regions: Ints, labels: Ints) -> Split:
        return Split(ragged.take(x, regions), labels[regions])

    rule_test = part(test, whole.presence[:, species].astype(int))
    return Data(
        train=part(every, y),
        valid=part(valid, y),
        test=part(every, y_test),
        build_arguments={"dataset": seen},
        rule_data=lambda: RuleData(ragged.take(x, rest), ragged.take(x, valid)),
        rule_test=rule_test,
        explainer=_explainer(species, form),
        name_clusters=partial(_name_clusters, seen) if form == "nearby" else None,
        page=lambda: Page(*rule_test[:2], _renderer(rule_test.x, seen, test)),
        report=partial(_report, x, seen, np.concatenate([test, valid, rest])),
    )


def _explainer(species: int, form: str) -> dict[str, Any]:
    """Arguments of rules for whether the species is likelier present than not."""
    if form != "nearby":
        return {"target": species}
    # One-hot vectors of species are all equally far apart, except in their effects.
    return {"target": (species, _LIKELY), "metric": "sensitivity"}


def _name_clusters(seen: Flora, explainer: Explainer, x: Tensors) -> None:
    """Give examples of species, and call top-bags squares."""
    assert isinstance(x, dict)  # for type checkers
    species_at = ragged.lookup(x["species"])
    level = next(each.level for each in explainer.clusters_ if each.path == "species")
    explainer.exemplify(level, x, lambda position: seen.species[species_at(position)])
    explainer.rename(len(explainer.clusters_), word="square")


def _report(x: Tensors, seen: Flora, chosen: Ints, report: RunWriter) -> None:
    """Reports of the regions of the rules' test set first."""
    bags = ragged.take(x, chosen)
    show = _show(bags, seen, chosen)
    report.clusters(bags, show)
    report.explanations(bags, show)
    report.maps(
        bags,
        of_top_bags=seen.coordinates[chosen],
        of_instances=seen.coordinates,
        members="species" if isinstance(show, Mapping) else None,
    )


def _renderer(x: Tensors, seen: Flora, chosen: Ints) -> Renderer:
    show = _show(x, seen, chosen)
    if not isinstance(show, Mapping):
        return Places(x, seen.coordinates, show)
    plain = {path: Plain(x, each) for path, each in show.items()}
    assert isinstance(x, dict)  # for type checkers
    return ByPath(x, plain | {"nearby": Places(x["nearby"], seen.coordinates, show["nearby"])})


def _show(bags: Tensors, seen: Flora, chosen: Ints) -> Shows:
    """Regions by their names, sub-bags by species."""
    if isinstance(bags, dict) and "nearby" in bags:
        region_at, species_at = (ragged.lookup(bags[name]) for name in ("nearby", "species"))
        return {
            "": lambda position: seen.regions[chosen[position[0]]],
            "nearby": lambda position: seen.regions[region_at(position)],
            "species": lambda position: seen.species[species_at(position)],
        }
    members = instances_of(bags)
    region_at = ragged.lookup(members)

    def show(position: tuple[int, ...]) -> str:
        if len(position) == members.ragged_rank + 1:
            return seen.regions[region_at(position)]
        region = chosen[position[0]]
        if len(position) == 1:
            return seen.regions[region]
        return seen.species[np.flatnonzero(seen.presence[region])[position[1]]]

    return show
