"""The experiments "Citation Datasets" and "Social Network Datasets"."""

from functools import partial

import numpy as np
import tensorflow as tf
from sklearn.model_selection import train_test_split

from keras_mmil import ragged
from keras_mmil.bags import Bags
from keras_mmil.datasets import citations, social, synthetic
from keras_mmil.training import cosine_decay
from keras_mmil.zoo.citations import citation_mil, citation_mmil
from keras_mmil.zoo.experiments.experiment import Data, Experiment, ReadOn, Shown
from keras_mmil.zoo.social import social_mmil

__all__ = ["citation_experiment", "social_experiment"]


# Papers -----------------------------------------------------------------------------------------


def _load_papers(name, split, depth, seed=0, limit=None, source="planetoid", unlabelled=False):
    is_synthetic = source == "synthetic"
    network = synthetic.load_citations(seed=seed) if is_synthetic else citations.load(name)
    triples = ((x, y, None) for x, y in network.parts(split, seed, depth, limit))
    shown, read_on = (
        partial(make, network, split, seed, depth, limit)
        for make in (_shown_papers, _papers_to_read_rules_on)
    )
    names = network.class_names
    return Data(*triples, {"dataset": network}, class_names=names, shown=shown, read_on=read_on)


def _papers_to_read_rules_on(network, split, seed, depth, limit):
    """Papers to learn rules on, and a tenth as many to validate them.

    They are those of training and validation, as no labels are needed; in the transductive split
    all but those of test. A network is surer of the papers that it was trained on than of others:
    there are copies of them besides that miss neighbours and words at random.
    """
    parts = network.split(split, seed)
    papers = np.concatenate(parts[:2])
    if split == "transductive":
        papers = np.setdiff1d(np.arange(len(network.labels)), parts[-1])
    papers = np.random.default_rng(seed).permutation(papers)[:limit]
    seen = citations.visible(split, parts)[1]
    x_valid, x = (
        network.word_bags(some, seen, depth) for some in np.split(papers, [-(-len(papers) // 10)])
    )
    rates = _MISSING[split == "transductive"][-depth:]
    copies = range(min(10, 20_000 // len(x)))
    return ReadOn(Bags.concat([x, *(x.subsample(rates, seed=(seed, i)) for i in copies)]), x_valid)


# How many papers and how many of their words, where all papers' words are known and where not.
_MISSING = (0.3, 0.3), (0.3, 0.0)


def _shown_papers(network, split, seed, depth, limit):
    """Test papers by their numbers and subjects, words by their ids."""
    parts = network.split(split, seed)
    papers, visible = parts[-1][:limit], citations.visible(split, parts)[-1]
    names = list(network.class_names)
    if (network.labels < 0).any():
        names.append("unknown")  # where -1 points to
    bags = network.bags(papers, visible)
    words = tf.gather(network.words, bags)
    if depth == 1:
        words = words.merge_dims(1, 2)
    word_at, paper_at = ragged.lookup(words), ragged.lookup(bags)

    def show(position):
        if len(position) == depth + 1:
            return f"word {word_at(position)}"
        paper = papers[position[0]] if len(position) == 1 else paper_at(position)
        return f"paper {paper} ({names[network.labels[paper]]})"

    if depth == 1:
        return Shown(words, show)
    labels = network.labels[bags.values.numpy()]
    labels = bags.with_values(tf.constant(np.where(labels < 0, network.n_classes, labels)))
    return Shown(words, show, labels, {"sub-bag": tuple(names)})


def citation_experiment(entry):
    """The `Experiment` of an `Entry`."""
    builder, depth, n_clusters = {
        "mmil": (citation_mmil, 2, (24, 14)),
        "mil": (citation_mil, 1, (16,)),
    }[entry.model]
    settings, training = _citation_settings(entry)
    return Experiment(
        **vars(entry),
        build=partial(builder, aggregation=entry.aggregation, **settings),
        load=partial(_load_papers, entry.name, entry.split, depth),
        schedule=None,
        explainer={"n_clusters": n_clusters, "ccp_alpha": 2e-4},
        **training,
    )


# Arguments of the model and of the training, chosen on validation papers; see docs/graphs.md.
_INDUCTIVE = {"batch_size": 128, "patience": 15}
# With batches of 128, 100 epochs are too short for a single bag-layer.
_INDUCTIVE_MIL = {**_INDUCTIVE, "batch_size": 32}
# With 20 labels a class, all papers of training are one batch, and every epoch is one step.
_FEW_LABELS = {"batch_size": 140, "patience": 80}
_TRANSDUCTIVE = {
    ("mmil", "mean"): {
        "word_dropout": 0.5,
        "neighbour_dropout": 0.5,
        "dropout": 0.85,
        "l2": 5e-4,
        "initial_std": 0.1,
    },
    ("mmil", "max"): {
        "word_dropout": 0.5,
        "neighbour_dropout": 0.3,
        "dropout": 0.5,
        "l2": 1e-3,
        "initial_std": 0.03,
    },
    ("mil", "mean"): {"word_dropout": 0.8, "dropout": 0.8, "l2": 1e-3, "initial_std": 0.3},
    ("mil", "max"): {"word_dropout": 0.5, "dropout": 0.8, "l2": 5e-4, "initial_std": 0.1},
}


# What is different for one network of papers, by whether the split is the transductive one.
_OF_ONE_NETWORK = {
    ("citeseer", "mmil", "max", False): {"l2": 5e-4},
    ("citeseer", "mil", "max", True): {"word_dropout": 0.0, "initial_std": 0.01},
}


def _citation_settings(entry):
    """Arguments of the model, and of the training."""
    is_transductive = entry.split == "transductive"
    model = entry.model, entry.aggregation
    own = _OF_ONE_NETWORK.get((entry.name, *model, is_transductive), {})
    if is_transductive:
        return {**_TRANSDUCTIVE[model], "learning_rate": 0.005, **own}, _FEW_LABELS
    return own, _INDUCTIVE_MIL if entry.model == "mil" else _INDUCTIVE


# Networks of people -----------------------------------------------------------------------------


_SHOWN_DEGREES = 6


def _load_networks(name, seed=0, limit=None, source="tu", unlabelled=False):
    """All graphs, and eight, one and one tenths of them."""
    is_synthetic = source == "synthetic"
    networks = synthetic.load_networks(seed=seed) if is_synthetic else social.load(name)
    bags = Bags.from_ragged(networks.bags())
    y = networks.labels
    tenth = len(y) // 10
    rest, test = train_test_split(np.arange(len(y)), test_size=tenth, random_state=seed, stratify=y)
    train, valid = train_test_split(rest, test_size=tenth, random_state=seed, stratify=y[rest])
    parts = [part[:limit] for part in (train, valid, test)]
    triples = ((bags[part], y[part], None) for part in parts)
    shown = partial(_shown_networks, bags, parts[-1])
    chosen = slice(None) if limit is None else np.concatenate(parts)
    whole = bags[chosen], y[chosen]
    return Data(*triples, {"dataset": networks}, whole=whole, shown=shown)


def _shown_networks(bags, graphs):
    """Nodes by their degrees, and neighbourhoods by those in them."""
    x = bags[graphs]
    degree_at, count_at = ragged.lookup(x.bags), ragged.lookup(x.counts)

    def show(position):
        if len(position) == 1:
            return f"graph {graphs[position[0]]}"
        if len(position) == 3:
            return f"degree {degree_at(position)}"
        members = zip(degree_at(position), count_at(position), strict=True)
        degrees = [
            f"{degree} (×{count:g})" if count > 1 else f"{degree}" for degree, count in members
        ]
        more = ", …" if len(degrees) > _SHOWN_DEGREES else ""
        return f"with degrees {', '.join(degrees[:_SHOWN_DEGREES])}{more}"

    return Shown(x, show)


# Where the paper's settings, a constant rate and no dropout, stay below its figure: chosen on parts
# of the training folds, see docs/graphs.md.
_REGULARISED = {
    "imdb-multi": {
        "build": partial(social_mmil, dropout=0.5),
        "schedule": partial(cosine_decay, 0.001),
    }
}


def social_experiment(entry):
    """The `Experiment` of an `Entry`, whose name is that of the data in lower case."""
    chosen = _REGULARISED.get(entry.name, {"build": social_mmil, "schedule": None})
    return Experiment(
        **vars(entry),
        **chosen,
        load=partial(_load_networks, entry.name.upper()),
        batch_size=20,
        class_names=None,
    )
