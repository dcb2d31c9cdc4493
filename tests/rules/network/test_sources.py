"""Top-bags in memory, one of them, and in Datasets, all with the same rules."""

import re
import weakref

import numpy as np
import pytest
import tensorflow as tf
from bag_forms import (
    BATCH,
    FORMS,
    N,
    compressed_model,
    ids,
    new_explainer,
    packed,
    plain_model,
    text_model,
    texts,
    vectors,
)

from keras_mmil import batches, ragged
from keras_mmil.rules import Maps, RuleExtractor
from keras_mmil.rules.network.capture import Network


def labels_of(x):
    return np.random.default_rng(5).integers(0, 2, len(x) if hasattr(x, "__len__") else x.nrows())


def stream(x, *labels):
    """A Dataset of the batches in which an explainer reads arrays."""
    if isinstance(x, np.ndarray) and x.dtype == object:
        x = tf.constant(list(x))
    return batches.to_dataset(x, labels or None, batch_size=BATCH, shuffle=False)


def unknown(dataset):
    """The same, of an unknown number of batches."""
    return dataset.filter(lambda *_: True)


def assert_equal_labels(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.flat_values, b.flat_values)
        for split, other in zip(a.nested_row_splits, b.nested_row_splits, strict=True):
            np.testing.assert_array_equal(split, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(
            form, marks=[pytest.mark.nightly] * (form in ("one level", "dense", "ids", "texts"))
        )
        for form in FORMS
    ],
)
def test_datasets_are_read_as_arrays_are(form):
    make_model, make_data = FORMS[form]
    model, x, x_valid = make_model(), make_data(), make_data(seed=1)
    y = labels_of(x)
    theirs = new_explainer(model, x).fit(model, x, x_valid)
    of_x, of_x_valid = unknown(stream(x)), stream(x_valid, y)
    ours = new_explainer(model, x).fit(model, of_x, of_x_valid)
    assert (ours.grid_, ours.n_clusters_) == (theirs.grid_, theirs.n_clusters_)
    assert ours.rules_.text() == theirs.rules_.text()
    for a, b in zip(ours.clusters_, theirs.clusters_, strict=True):
        np.testing.assert_array_equal(a.centroids, b.centroids)
    np.testing.assert_array_equal(ours.predict(of_x), theirs.predict(x))
    assert ours.fidelity(of_x) == theirs.fidelity(x)
    for labels in ((y,), (y, np.ones(N, np.float32)), (y[:, None],)):
        assert ours.score(stream(x, *labels)) == theirs.score(x, y)
    assert [str(each) for each in ours.explain(of_x)] == [str(each) for each in theirs.explain(x)]
    assert_equal_labels(ours.labels(of_x), theirs.labels(x))
    assert str(ours.describe(of_x)) == str(theirs.describe(x))
    assert ours.representatives(of_x, 0, 0) == theirs.representatives(x, 0, 0)
    assert str(ours.cluster_table(of_x)) == str(theirs.cluster_table(x))


@pytest.mark.slow
def test_maps_of_datasets():
    model, x = compressed_model(), packed()
    fit = new_explainer(model, x).fit(model, x)
    ours, theirs = (Maps(fit, form) for form in (stream(x), x))
    for a, b in (
        (ours.instances(9), theirs.instances(9)),
        (ours.members(), theirs.members()),
        (ours.rules("positive")[1], theirs.rules("positive")[1]),
    ):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_array_equal(a[key], b[key])


@pytest.mark.slow
def test_sensitivity_of_datasets(monkeypatch):
    """Of many top-bags, the sample is the same."""
    model, x = plain_model(), vectors()
    for at_most in (1000, 20):
        monkeypatch.setattr("keras_mmil.rules.network.sensitivity._AT_MOST", at_most)
        theirs, ours = (
            new_explainer(model, x, metric="sensitivity").fit(model, form, x)
            for form in (x, unknown(stream(x)))
        )
        for a, b in zip(ours.clusters_, theirs.clusters_, strict=True):
            np.testing.assert_allclose(a.projection, b.projection, atol=1e-6)
        assert ours.rules_.text() == theirs.rules_.text()


@pytest.mark.slow
def test_extraction_from_datasets():
    model, x = plain_model(), vectors()
    model.compile("adam", "mse")
    y = labels_of(x).astype(np.float32)
    arguments = {"max_clusters": 3, "target": (0, 0.0), "verbose": 0, "batch_size": BATCH}
    ours = RuleExtractor(stream(x), stream(x, y), **arguments)
    theirs = RuleExtractor(x, x, **arguments)
    model.fit(stream(x, y), epochs=1, shuffle=False, verbose=0, callbacks=[ours, theirs])
    assert ours.explainer_.rules_.text() == theirs.explainer_.rules_.text()


@pytest.mark.slow
def test_a_stream_is_never_in_memory(monkeypatch):
    """Of the batches' inputs and representations no more than two live at a time."""
    model, x = plain_model(), vectors(n=20 * BATCH)
    alive, peak = set(), []
    observe = Network._observe

    def spy(network, batch, in_order):
        observation = observe(network, batch, in_order)
        for each in (batch.flat_values, *observation.representations):
            alive.add(key := id(each))
            weakref.finalize(each, alive.discard, key)
        peak.append(len(alive))
        return observation

    monkeypatch.setattr(Network, "_observe", spy)
    dataset = unknown(stream(x, labels_of(x)))
    fit = new_explainer(model, x, max_rows=50).fit(model, dataset, dataset)
    for read in (fit.predict, fit.score, fit.labels, fit.cluster_table):
        read(dataset)
    assert len(peak) >= 7 * 20
    assert max(peak) <= 2 * 3


@pytest.mark.slow
@pytest.mark.parametrize("form", [stream, lambda x: unknown(stream(x))])
def test_progress_of_batches(form, capsys):
    model, x = plain_model(), vectors()
    new_explainer(model, x, verbose=1).fit(model, form(x), x)
    shown = [int(n) for n in re.findall(r"(\d+)/100", capsys.readouterr().out)]
    assert shown == sorted(shown)
    assert shown[-1] == 100


@pytest.mark.slow
def test_of_many_top_bags_a_sample_is_used():
    """The same one of a Dataset as of an array; no others are used, even in a sample of it."""
    model, x = plain_model(), vectors()
    fits = [
        new_explainer(model, x, max_top_bags=N // 2).fit(model, form, form)
        for form in (x, stream(x))
    ]
    chosen = np.sort(np.random.default_rng(0).permutation(N)[: N // 2])
    few = ragged.take(x, chosen)
    apart = new_explainer(model, x).fit(model, few, few)
    for fit in fits:
        assert fit.grid_ == apart.grid_
        assert fit.rules_.text() == apart.rules_.text()
        assert fit.certify(ragged.concat([few[:2], x])).n_used == N // 2 + 2
    sampled = apart.top_bags(stream(x)).sample(N // 2, seed=0).sample(3, seed=1)
    found = apart.hashes(ragged.concat(list(sampled.batches())))
    assert len(found) == 3
    assert set(found) <= set(apart.hashes(few))


def endless(x):
    return stream(x).repeat()


def test_datasets_that_cannot_be_read():
    model, x = plain_model(), vectors()
    new = new_explainer(model, x)
    fit = new_explainer(model, x).fit(model, x)
    with pytest.raises(ValueError, match=r"Expected x_valid where x is a Dataset.*x_valid=None"):
        new.fit(model, stream(x))
    for data, match in (
        (endless(x), "finite Dataset. Received: {}, which has no end"),
        (stream(x).take(0), "at least one top-bag. Received: {}, a Dataset without batches"),
        (stream(x).filter(lambda *_: False), "Received: {}, a Dataset without batches"),
        (stream(vectors(3)), r"nesting of the model's input.*Received: a batch of {}.shape"),
        (stream(x).unbatch(), r"single one as x\[:1\].*a batch of {} with the axes of one"),
    ):
        with pytest.raises(ValueError, match=match.format("x")):
            new.fit(model, data, x)
        with pytest.raises(ValueError, match=match.format("x_valid")):
            new.fit(model, x, data)
        with pytest.raises(ValueError, match=match.format("x")):
            fit.predict(data)
    once = (batch for batch in stream(x))
    for data in (iter(stream(x)), once, iter([x])):
        with pytest.raises(TypeError, match=r"several times.*from_generator.*Received: x, an iter"):
            new.fit(model, data, x)
        with pytest.raises(TypeError, match="Received: x_valid, an iterator of type"):
            new.fit(model, x, data)
        with pytest.raises(TypeError, match="Received: x, an iterator of type"):
            fit.fidelity(data)


def test_labels_of_datasets():
    model, x = plain_model(), vectors()
    fit = new_explainer(model, x).fit(model, x)
    with pytest.raises(ValueError, match=r"Expected batches \(x, y\). Received: x without labels"):
        fit.score(stream(x))
    with pytest.raises(ValueError, match=r"no labels beside a Dataset.*y of type ndarray"):
        fit.score(stream(x, labels_of(x)), labels_of(x))
    with pytest.raises(ValueError, match=r"where x is not a Dataset. Received: y=None"):
        fit.score(x)


def changing(change):
    """Makes Datasets whose batches, a list, are changed by a function of the number of the pass."""

    def make(x):
        passes = iter(range(100))
        return tf.data.Dataset.from_generator(
            lambda: change(list(stream(x)), next(passes)),
            output_signature=stream(x).element_spec,
        )

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda x: batches.to_dataset(x, batch_size=BATCH),
        changing(lambda batches, n: batches[n:]),
        changing(lambda batches, n: batches + batches[:n]),
        changing(lambda batches, n: [*batches[:-1], batches[-1] + 1e-6 * n]),
    ],
    ids=["reshuffled", "shorter", "longer", "other values"],
)
@pytest.mark.parametrize("argument", ["x", "x_valid"])
def test_datasets_that_change(make, argument):
    """Labels that were put together from two passes would be of different top-bags."""
    model, x = plain_model(), vectors()
    data = {"x": x, "x_valid": x, argument: make(x)}
    # Many numbers of clusters are tried in several passes.
    new = new_explainer(model, x, max_clusters=25, max_rows=60)
    match = f"reshuffle_each_iteration=False.*Received: {argument}, of which batch . is not what"
    with pytest.raises(ValueError, match=match):
        new.fit(model, **data)


@pytest.mark.slow
def test_texts_that_change_are_not_explained():
    model, x = text_model(), texts()
    fit = new_explainer(model, x).fit(model, x)
    with pytest.raises(ValueError, match="reshuffle_each_iteration=False"):
        fit.explain(batches.to_dataset(tf.constant(list(x)), batch_size=BATCH))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_single_top_bag_is_explained(form):
    make_model, make_data = FORMS[form]
    model, x = make_model(), make_data()
    fit = new_explainer(model, x).fit(model, x)
    (found,) = fit.explain(x[3])
    (expected,) = fit.explain(x[3:4])
    assert str(found) == str(expected)
    assert found.to_dict() == expected.to_dict()
    if form != "compressed":  # Bags[0] are Bags
        with pytest.raises((ValueError, TypeError), match=r"x\[:1\].*Received: x with"):
            fit.predict(x[0])


def test_a_single_top_bag_of_several_inputs():
    model, x = compressed_model(), packed()
    fit = new_explainer(model, x).fit(model, x)
    inputs = x.inputs
    one = {name: part[1] for name, part in inputs.items()}
    assert str(fit.explain(one)[0]) == str(fit.explain(x[1:2])[0])
    assert str(fit.explain(ids()[1])[0]) == str(fit.explain(ids()[1:2])[0])
    with pytest.raises(ValueError, match=r"Expected .*x\[:1\].*Received: x with"):
        fit.predict(one)


def test_a_single_empty_top_bag():
    model = plain_model(1)
    x = ragged.from_flat(vectors(1).flat_values[:5], [[2, 0, 3]])
    fit = new_explainer(model, x).fit(model, x, x)
    assert str(fit.explain(x[1])[0]) == str(fit.explain(x[1:2])[0])
