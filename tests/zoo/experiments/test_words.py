"""What experiments call their clusters and what these are made of."""

import re

import keras
import pytest
import tensorflow as tf

from keras_mmil import Explainer, zoo
from keras_mmil.zoo.experiments.experiment import put_in_words


def in_words(key, source, n_clusters):
    """An experiment's data, and the rules of an untrained network in words."""
    keras.utils.set_random_seed(0)
    experiment = zoo.registry[key]
    data = experiment.load(seed=1, source=source, limit=60)
    model = experiment.build(**data.build_arguments)
    arguments = {**data.explainer, "n_clusters": n_clusters, "random_state": 0, "verbose": 0}
    x, x_valid = data.for_rules()
    explainer = Explainer(**arguments).fit(model, x, x_valid)
    put_in_words(explainer, experiment, data, x)
    return data, explainer


pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*one class:UserWarning", "ignore:.*distinct:UserWarning"),
]


def check_names(described, majority_names):
    """Clusters have the name of the label of at least half of their rows, or else none."""
    named = 0
    for name, share, majority in zip(described.names, described.share, majority_names, strict=True):
        if share >= 0.5:
            assert re.sub(r" \(\d+\)$", "", name) == majority
            named += 1
        else:
            assert re.fullmatch(r"[uv]\d+", name)
    assert named


def test_clusters_of_papers_are_named_by_their_subjects():
    data, explainer = in_words("cora-mmil-mean-random", "synthetic", (4, 6))
    network = data.build_arguments["dataset"]
    train, valid, _ = network.split("random", seed=1)
    seen = [*train, *valid]
    bags, _ = network.bags(valid[:60], seen)
    subjects = bags.with_values(tf.gather(network.labels, bags.values))
    words = tf.gather(network.words, bags)
    described = explainer.describe(words, sub_bag_labels=subjects)[1]
    check_names(described, [network.class_names[label] for label in described.majority])
    assert [each.word for each in explainer.clusters_] == ["word", "neighbour"]


def test_clusters_of_images_are_named_by_their_digits():
    data, explainer = in_words("mnist", "digits", (20, 2))
    described = explainer.describe(data.valid.x, data.valid.instance_labels)[0]
    check_names(described, list(map(str, described.majority)))


def test_clusters_of_neighbours_have_degrees_as_examples():
    data, explainer = in_words("imdb-binary", "synthetic", 3)
    degrees = set(data.whole.x.bags.flat_values.numpy().tolist())
    shown = {name for each in explainer.clusters_[0].examples for name in each}
    assert shown
    assert shown <= {f"degree {degree}" for degree in degrees}
    assert [each.word for each in explainer.clusters_] == ["neighbour", "member"]


def test_clusters_of_species_have_examples():
    data, explainer = in_words("plants-mil-P10-nearby", "synthetic", 3)
    of_species = next(each for each in explainer.clusters_ if each.path == "species")
    shown = {name for each in of_species.examples for name in each}
    assert shown
    assert shown <= set(data.build_arguments["dataset"].species)
    assert explainer.levels_[-1].word == "square"
