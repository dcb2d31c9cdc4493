"""The experiments "Citation Datasets" and "Social Network Datasets"."""

from functools import partial

import numpy as np
from sklearn.model_selection import train_test_split

from keras_mmil.bags import Bags
from keras_mmil.datasets import citations, social
from keras_mmil.zoo.citations import citation_mil, citation_mmil
from keras_mmil.zoo.experiment import Data, Experiment
from keras_mmil.zoo.social import social_mmil

__all__ = ["EXPERIMENTS"]


# Papers -----------------------------------------------------------------------------------------


def _load_papers(name, split, depth, seed=0, limit=None, source="planetoid", unlabelled=False):
    network = citations.synthetic(seed=seed) if source == "synthetic" else citations.load(name)
    parts = network.parts(split, seed, depth, limit)
    triples = ((x, y, None) for x, y in parts)
    return Data(*triples, {"dataset": network}, class_names=network.class_names)


def _citation_experiment(name, model, aggregation, split):
    builder, depth = {"mmil": (citation_mmil, 2), "mil": (citation_mil, 1)}[model]
    settings, training = _CITATION_SETTINGS[model, aggregation, split == "transductive"]
    accuracy = _CITATION_FIGURES.get(f"{model}-{aggregation}", {}).get((name, split))
    bags = "bags of papers, which are bags of words" if depth == 2 else "bags of words"
    return Experiment(
        name=name,
        title=f"papers as {bags}: their subject",
        model=model,
        aggregation=aggregation,
        split=split,
        build=partial(builder, aggregation=aggregation, **settings),
        load=partial(_load_papers, name, split, depth),
        sources=("planetoid", "synthetic"),
        schedule=None,
        paper={} if accuracy is None else {"test_accuracy": accuracy},
        **training,
    )


# Chosen on validation papers; see docs/graphs.md.
_CITATION_SETTINGS = {
    (model, aggregation, transductive): (
        {},
        {"epochs": 100, "batch_size": 20 if transductive else 128, "patience": 15},
    )
    for model in ("mmil", "mil")
    for aggregation in ("max", "mean")
    for transductive in (True, False)
}

_COLUMNS = [
    (name, split)
    for split in ("temporal", "random", "transductive")
    for name in ("cora", "citeseer", "pubmed")
]
_CITATION_FIGURES = {
    model: dict(zip(_COLUMNS, accuracies, strict=True))
    for model, accuracies in {
        "mmil-max": (0.836, 0.701, 0.790, 0.841, 0.750, 0.850, 0.779, 0.666, 0.734),
        "mmil-mean": (0.830, 0.713, 0.824, 0.833, 0.745, 0.860, 0.821, 0.697, 0.781),
        "mil-max": (0.813, 0.687, 0.792, 0.838, 0.750, 0.847, 0.757, 0.668, 0.731),
        "mil-mean": (0.810, 0.702, 0.801, 0.840, 0.755, 0.862, 0.785, 0.668, 0.771),
    }.items()
}


# Networks of people -----------------------------------------------------------------------------


def _load_networks(name, seed=0, limit=None, source="tu", unlabelled=False):
    """All graphs, and eight, one and one tenths of them."""
    networks = social.synthetic(seed=seed) if source == "synthetic" else social.load(name)
    bags = Bags.from_ragged(networks.bags())
    y = networks.labels
    tenth = len(y) // 10
    rest, test = train_test_split(np.arange(len(y)), test_size=tenth, random_state=seed, stratify=y)
    train, valid = train_test_split(rest, test_size=tenth, random_state=seed, stratify=y[rest])
    parts = [part[:limit] for part in (train, valid, test)]
    triples = ((bags[part], y[part], None) for part in parts)
    chosen = slice(None) if limit is None else np.concatenate(parts)
    return Data(*triples, {"dataset": networks}, whole=(bags[chosen], y[chosen]))


def _social_experiment(name, accuracy, title):
    return Experiment(
        name=name.lower(),
        title=f"{title}, as bags of neighbourhoods of nodes known by degree",
        build=social_mmil,
        load=partial(_load_networks, name),
        sources=("tu", "synthetic"),
        epochs=100,
        batch_size=20,
        folds=10,
        rounds=10,
        schedule=None,
        paper={"test_accuracy": accuracy},
        class_names=None,
    )


EXPERIMENTS = (
    *(
        _citation_experiment(name, model, aggregation, split)
        for name in citations.NAMES
        for model in ("mmil", "mil")
        for aggregation in ("max", "mean")
        for split in ("random", "transductive", "temporal")
    ),
    _social_experiment("IMDB-BINARY", 0.7262, "casts of actors: their genre, of two"),
    _social_experiment("IMDB-MULTI", 0.4942, "casts of actors: their genre, of three"),
    _social_experiment("COLLAB", 0.7946, "co-authors of physicists: their field, of three"),
    _social_experiment("REDDIT-BINARY", 0.8654, "discussions: their kind of forum, of two"),
    _social_experiment("REDDIT-MULTI-5K", 0.5342, "discussions: their forum, of five"),
    _social_experiment("REDDIT-MULTI-12K", 0.4525, "discussions: their forum, of eleven"),
)
