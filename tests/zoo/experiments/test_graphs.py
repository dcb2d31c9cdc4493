"""The experiments on citations and on social networks."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from pairs import pairs

from keras_mmil import zoo
from keras_mmil.datasets import citations


@pytest.mark.parametrize("split", ["random", "transductive", "scarce", "temporal"])
@pytest.mark.parametrize("model", ["mmil", "mil"])
def test_splits_of_papers(model, split):
    experiment = zoo.registry[f"citeseer-{model}-max-{split}"]
    data = experiment.load(seed=1, source="synthetic")
    network = data.build_arguments["dataset"]
    parts = network.split(split, seed=1)
    for papers, seen, (x, y, z) in zip(
        parts, citations.visible(split, parts), (data.train, data.valid, data.test), strict=True
    ):
        assert z is None
        np.testing.assert_array_equal(y, network.labels[papers])
        may = set(range(400)) if seen is None else set(seen)
        for i in (0, 7):
            around = {papers[i], *(may & set(network.edges[[papers[i]]].indices))}
            words = [sorted(network.words[paper].numpy()) for paper in around]
            found = x[i : i + 1].to_ragged().to_list()[0]
            if model == "mil":
                assert sorted(found) == sorted(word for paper in words for word in paper)
            else:
                assert sorted(map(sorted, found)) == sorted(words)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "split"), pairs(["mmil", "mil"], ["transductive", "scarce"]))
def test_means_of_few_labels_are_over_the_papers_where_walks_end(model, split):
    depth = 2 if model == "mmil" else 1
    data = zoo.registry[f"cora-{model}-mean-{split}"].load(seed=1, source="synthetic")
    network = data.build_arguments["dataset"]
    walk = {"restart": 0.1, "steps": 8, "max_members": 64}
    parts = network.split(split, seed=1)
    for papers, part in zip(parts, (data.train, data.valid, data.test), strict=True):
        expected = network.word_bags(papers, depth=depth, walk=walk)
        for name, tensor in part.x.inputs.items():
            both = tensor, expected.inputs[name]
            tensors = (tf.nest.flatten(each, expand_composites=True) for each in both)
            for a, b in zip(*tensors, strict=True):
                np.testing.assert_array_equal(a, b, name)
    known = network.word_bags(np.setdiff1d(np.arange(400), parts[-1]), depth=depth, walk=walk)
    x_valid = data.rule_data().x_valid.bags.to_list()
    assert len(x_valid) == -(-len(known) // 10)
    assert set(map(str, x_valid)) <= set(map(str, known.bags.to_list()))


@pytest.mark.slow
@pytest.mark.parametrize(("split", "limit"), pairs(["transductive", "scarce", "random"], [None, 5]))
def test_papers_without_labels(split, limit):
    """All others where all are known, and none where training papers are all that is known."""
    experiment = zoo.registry[f"cora-mmil-max-{split}"]
    data = experiment.load(seed=1, source="synthetic", unlabelled=True, limit=limit)
    network = data.build_arguments["dataset"]
    labelled = network.split(split, seed=1)[0]
    others = np.setdiff1d(np.arange(400), labelled)[: limit and 2 * limit]
    papers = labelled[:limit] if split == "random" else [*labelled[:limit], *others]
    seen = labelled if split == "random" else None
    assert words_of(data.train.x) == words_of(network.word_bags(papers, seen))
    n = len(labelled[:limit])
    np.testing.assert_array_equal(data.train.y[:n], network.labels[labelled[:limit]])
    assert (data.train.y[n:] == -1).all()


def words_of(bags):
    return [sorted(map(sorted, bag)) for bag in bags.to_ragged().to_list()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "split", ["random", pytest.param("transductive", marks=pytest.mark.nightly), "scarce"]
)
def test_rules_about_papers_are_fitted_to_all_but_test_papers(split):
    """And on ten copies of each that miss neighbours and words."""
    experiment = zoo.registry[f"cora-mmil-max-{split}"]
    data = experiment.load(seed=1, source="synthetic")
    network = data.build_arguments["dataset"]
    train, valid, test = network.split(split, seed=1)
    known = np.setdiff1d(np.arange(400), test) if split != "random" else [*train, *valid]
    seen = None if split != "random" else known
    of_rules = data.rule_data()
    x, x_valid = of_rules.x, of_rules.x_valid
    n_valid = -(-len(known) // 10)
    n = len(known) - n_valid
    assert (len(x_valid), len(x)) == (n_valid, 11 * n)
    whole, *copies = (words_of(x[i * n : (i + 1) * n]) for i in (0, 1, 10))  # one copy is as all
    assert sorted(whole + words_of(x_valid)) == sorted(words_of(network.word_bags(known, seen)))
    words = {tuple(paper) for bag in whole for paper in bag}
    for copy in copies:
        fewer = [len(a) < len(b) for a, b in zip(copy, whole, strict=True)]
        assert 0.3 < np.mean(fewer) < 1
        as_they_are = {tuple(paper) for bag in copy for paper in bag} <= words
        assert as_they_are == (split != "random")


@pytest.mark.parametrize("model", ["mmil", "mil"])
def test_what_is_reported_of_papers(model, reported):
    data = zoo.registry[f"cora-{model}-mean-random"].load(seed=1, limit=5, source="synthetic")
    network = data.build_arguments["dataset"]
    papers = network.split("random", seed=1)[2][:5]
    report = reported(data)
    words, show = report.clusters.call_args.args
    assert report.explanations.call_args.args == (words, show)
    subject = network.class_names[network.labels[papers[3]]]
    assert show((3,)) == f"paper {papers[3]} ({subject})"
    if model == "mil":
        assert show((3, 0)) == f"word {words[3, 0]}"
        report.sub_bags.assert_not_called()
        return
    assert show((3, 1, 0)) == f"word {words[3, 1, 0]}"
    around, labels, names = report.sub_bags.call_args.args
    assert around is words
    assert labels.row_lengths().numpy().tolist() == words.row_lengths().numpy().tolist()
    for i in range(words[3].nrows()):
        _, paper, subject = re.fullmatch(r"(paper (\d+) )\((.*)\)", show((3, i))).groups()
        assert subject == names[labels[3, i]] == names[network.labels[int(paper)]]


@pytest.mark.parametrize("name", ["imdb-binary", "imdb-multi"])
def test_social_networks_with_dropout(name):
    """Those of casts; they have the same weights."""
    data = zoo.registry[name].load(source="synthetic", limit=4)
    model = zoo.registry[name].build(**data.build_arguments)
    plain = zoo.registry["collab"].build(**data.build_arguments)
    rates = [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
    assert rates == [0.5, 0.5]
    assert not any(isinstance(layer, keras.layers.Dropout) for layer in plain.layers)
    plain.set_weights(model.get_weights())
    x = data.train[0]
    np.testing.assert_allclose(plain.predict(x, verbose=0), model.predict(x, verbose=0))
    assert zoo.registry[name].schedule(100)(50) == pytest.approx(0.0005)


def test_what_is_reported_of_social_networks(reported):
    data = zoo.registry["imdb-binary"].load(source="synthetic", limit=4)
    report = reported(data)
    x, show = report.clusters.call_args.args
    assert report.explanations.call_args.args == (x, show)
    degrees, counts = (part[2].to_list()[0] for part in (x.bags, x.counts))
    written = [f"{d} (×{n:g})" if n > 1 else f"{d}" for d, n in zip(degrees, counts, strict=True)]
    more = ", …" if len(written) > 6 else ""
    assert show((2, 0)) == f"with degrees {', '.join(written[:6])}{more}"
    assert show((2, 0, 0)) == f"degree {degrees[0]}"
    assert show((2,)).startswith("graph ")
