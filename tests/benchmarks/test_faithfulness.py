"""Rankings of instances, and the curves by which they are compared."""

import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import ragged, zoo
from keras_mmil.cli.options import RunOptions
from keras_mmil.cli.run import run

LISTS = [[[1, 7], [2], [3, 4, 5]], [[6]], [[8, 9], [7]]]


@pytest.fixture
def some_top_bags():
    return ragged.from_nested_lists(LISTS)


def without(top_bag, gone):
    """A top-bag, as lists, without the instances of some numbers, and without empty bags."""
    numbers = iter(range(100))
    bags = [[x for x in bag if next(numbers) not in gone] for bag in top_bag]
    return [bag for bag in bags if bag]


def test_instances_are_removed_and_empty_bags_with_them(load_benchmark, some_top_bags):
    curves = load_benchmark("removal_curves")
    rng, which = np.random.default_rng(0), [0, 2, 0, 1, 1, 0]
    stay = [rng.random(sum(map(len, LISTS[i]))) < 0.5 for i in which]
    stay[3][:], stay[5][:] = False, True
    found = curves.kept(some_top_bags, which, stay).to_list()
    pairs = zip(which, stay, strict=True)
    assert found == [without(LISTS[i], set(np.flatnonzero(~each))) for i, each in pairs]
    assert found[3] == []
    assert curves.sizes(some_top_bags).tolist() == [6, 1, 3]


@pytest.mark.parametrize("n_steps", [None, 3])
def test_areas_of_a_classifier_that_looks_for_a_seven(load_benchmark, some_top_bags, n_steps):
    def probability(x):  # 0.9 with a seven, and 0.2 without
        return np.array([0.9 if any(7 in bag for bag in bags) else 0.2 for bags in x.to_list()])

    curves = load_benchmark("removal_curves").curves
    scores = [np.array([0, 9, 1, 2, 3, 4]), np.zeros(1), np.array([3.0, 2, 1])]
    found = curves(probability, some_top_bags, scores, n_steps)
    step = 1 / (n_steps or 6)
    assert found.is_positive.tolist() == [True, False, True]
    # The seven is the first of six: only in the first step the curve falls, or rises.
    assert found.deletion[0] == pytest.approx(0.2 + 0.7 * step / 2)
    assert found.insertion[0] == pytest.approx(0.9 - 0.7 * step / 2)
    # It is the last of three.
    assert found.deletion[2] == pytest.approx(0.9 - 0.7 / 3 / 2)
    assert found.insertion[2] == pytest.approx(0.2 + 0.7 / 3 / 2)
    # That there is none does not depend on the instances.
    assert (found.deletion[1], found.insertion[1]) == pytest.approx((0.8, 0.8))
    np.testing.assert_allclose(found.full, [0.9, 0.8, 0.9])
    np.testing.assert_allclose(found.empty, [0.2, 0.8, 0.2])
    full, empty = 2.6 / 3, 1.2 / 3
    expected = (found.deletion - empty) / (full - empty)
    np.testing.assert_allclose(found.scale.areas(found.deletion), expected)


# Integrated gradients ----------------------------------------------------------------------------


def small_images(**arguments):
    return zoo.mnist_mmil(
        (8, 8), filters=(4,), dense_units=6, bag_units=(5, 5), translation=0, **arguments
    )


def small_texts(**arguments):
    vectors = np.random.default_rng(0).normal(size=(30, 7)).astype("float32")
    return zoo.imdb_mmil(vectors, filters=5, bag_units=(8, 8), **arguments)


def images(n=5):
    rng = np.random.default_rng(1)
    lists = [[rng.integers(0, 256, (m, 8, 8)) for m in rng.integers(1, 4, 3)] for _ in range(n)]
    return ragged.from_nested_lists(lists, inner_shape=(8, 8), depth=2, dtype="uint8")


def trigrams(n=5):
    rng = np.random.default_rng(1)
    lists = [[rng.integers(0, 30, (m, 3)) for m in rng.integers(1, 5, 3)] for _ in range(n)]
    return ragged.from_nested_lists(lists, inner_shape=(3,), depth=2, dtype="int32")


def with_random_weights(model):
    rng = np.random.default_rng(2)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / np.sqrt(weight.shape[0]))
    return model


CASES = [(small_images, images), (small_texts, trigrams)]


@pytest.fixture(
    params=[CASES[0], pytest.param(CASES[1], marks=[pytest.mark.slow, pytest.mark.nightly])],
    ids=["images", "trigrams"],
)
def case(request):
    return request.param


@pytest.fixture
def network(case):
    return with_random_weights(case[0]())


@pytest.fixture
def top_bags(case):
    return case[1]()


@pytest.mark.slow
def test_gradients_of_a_linear_function_are_its_terms(load_benchmark):
    x = ragged.from_nested_lists([[[1.0, 2.0], [3.0]], [[-4.0]]])
    weights = np.array([1.0, -2.0, 3.0, 4.0], "float32")

    def logits(values, x):  # a top-bag's number matters, too
        terms = tf.RaggedTensor.from_nested_row_splits(values * weights, x.nested_row_splits)
        return tf.reduce_sum(terms, axis=[1, 2]) + 7.0

    gradients = load_benchmark("instance_scores").Gradients(lambda x: x.flat_values, logits)
    found, errors = gradients(x)
    np.testing.assert_allclose(found[0], [1, -4, 9], rtol=1e-5)
    np.testing.assert_allclose(found[1], [16], rtol=1e-5)  # for the class: the odds are below 1
    np.testing.assert_allclose(errors, 0, atol=1e-5)


def test_logits_are_those_of_the_network(load_benchmark, network, top_bags):
    features, logits = load_benchmark("instance_scores").logits_of(network)
    values = tf.cast(features(top_bags), "float32")
    odds = 1 / (1 + np.exp(-logits(values, top_bags).numpy()))
    np.testing.assert_allclose(odds, network.predict(top_bags, verbose=0)[:, 0], atol=1e-5)


@pytest.mark.slow
def test_gradients_add_up_to_the_difference_to_the_baseline(load_benchmark, network, top_bags):
    scores = load_benchmark("instance_scores")
    features, logits = scores.logits_of(network)
    values = tf.cast(features(top_bags), "float32")
    whole, empty = (logits(each, top_bags).numpy() for each in (values, 0 * values))
    found, errors = scores.Gradients(features, logits, steps=100)(top_bags)
    expected = np.sign(whole) * (whole - empty)
    np.testing.assert_allclose([each.sum() for each in found], expected, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(
        errors, abs([each.sum() for each in found] - expected) / abs(expected), atol=1e-4
    )


# Attention ---------------------------------------------------------------------------------------


def softmax(scores):
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


def gated(layer, rows):
    """The attention of one bag of representations."""
    (each,) = layer.aggregations
    content, gate, query = (w.numpy() for w in (each.content, each.gate, each.query))
    return softmax((np.tanh(rows @ content) / (1 + np.exp(-(rows @ gate))) @ query)[:, 0])


def test_attention_is_the_product_along_the_path(load_benchmark, case, top_bags):
    model, x = with_random_weights(case[0](aggregation="gated_attention")), top_bags
    first, second = (model.get_layer(f"bag_layer_{level}") for level in (1, 2))
    found = load_benchmark("instance_scores").attention(model, x)
    for scores, top_bag in zip(found, list(x), strict=True):
        within, vectors = [], []
        for bag in top_bag:  # by hand, a bag at a time
            if "instances" in {layer.name for layer in model.layers}:
                rows = model.get_layer("instances").layer(bag)
            else:
                rows = model.get_layer("words")(model.get_layer("word_vectors")(bag))
                rows = tf.reshape(rows, [len(bag), -1])
            rows = np.maximum(rows @ first.kernel + first.bias, 0)
            within.append(gated(first, rows))
            vectors.append(within[-1] @ rows)
        bags = np.maximum(np.stack(vectors) @ second.kernel.numpy() + second.bias.numpy(), 0)
        expected = np.concatenate(
            [share * each for share, each in zip(gated(second, bags), within, strict=True)]
        )
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
        assert scores.sum() == pytest.approx(1, abs=1e-5)


def test_the_twin_differs_in_its_aggregation_only(load_benchmark):
    experiment = zoo.registry["mnist"]
    twin = load_benchmark("attention_twin").twin_of(experiment)
    other = {"aggregation", "build", "paper"}
    for name, value in vars(experiment).items():
        assert name in other or vars(twin)[name] is value
    models = [each.build() for each in (experiment, twin)]
    ours, theirs = (
        {w.path.split("/", 1)[-1]: tuple(w.shape) for w in model.weights if "bag_layer" in w.path}
        for model in models
    )
    layers = [[type(layer) for layer in model.layers] for model in models]
    assert layers[0] == layers[1]
    optimizers = [{**model.optimizer.get_config(), "name": ""} for model in models]
    assert optimizers[0] == optimizers[1]
    encoders = [model.get_layer("instances").layer for model in models]
    shapes = [
        [(type(each), [w.shape for w in each.weights]) for each in e.layers] for e in encoders
    ]
    assert shapes[0] == shapes[1]
    more = {"content", "gate", "query"}
    assert {path.rsplit("/", 1)[-1] for path in theirs.keys() - ours.keys()} == more
    assert ours.keys() <= theirs.keys()


# From runs to records ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The rules put every:UserWarning")
@pytest.mark.nightly
def test_measured_from_folders(load_benchmark, tmp_path):
    faithfulness = load_benchmark("faithfulness")
    options = {"source": "digits", "limit": 20, "epochs": 1, "verbose": 0}
    ours, twin = tmp_path / "run", tmp_path / "twin"
    run(zoo.registry["mnist"], RunOptions(out=str(ours), max_clusters=2, **options))
    load_benchmark("attention_twin").train("mnist", out=str(twin), **options)
    records = faithfulness.measured(faithfulness.Case.of(ours, twin, 12, "test"))
    areas = [record for record in records if record["metric"] == "deletion_area"]
    assert {record["model"] for record in areas} == {
        *("rules", "integrated-gradients", "attention", "random", "random, attention network"),
    }
    assert sum(r["top_bags"] for r in areas if r["model"] == "rules" and r["variant"]) == 12
    assert "| rules |  | deletion area |" in load_benchmark("report").table(records)[-1]
    with pytest.raises(ValueError, match="a twin with"):
        faithfulness.Case.of(ours, ours, 12, "test")
