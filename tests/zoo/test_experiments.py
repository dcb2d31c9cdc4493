"""Every registered experiment is tested because it is registered."""

import warnings
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import builders, datasets, ragged, zoo
from keras_mmil.datasets import citations, social
from keras_mmil.testing import predict_in_fresh_process
from keras_mmil.zoo.experiments import digits


def different_models():
    """One experiment for each model: on embedded data, those of one model differ in their split."""
    first = {}
    for experiment in zoo.registry.values():
        build = getattr(experiment.build, "func", experiment.build)
        first.setdefault((build, experiment.model_name), experiment.key)
    return list(first.values())


def test_every_experiment_says_what_it_is():
    for key, experiment in zoo.registry.items():
        assert experiment.key == key
        assert experiment.title
        assert experiment.epochs > 0
        assert experiment.batch_size > 0
        assert all(0 < figure < 1 for figure in experiment.paper.values())
    assert (
        len(different_models()) == 3 + 4 + 1 + 2 + 2
    )  # digits and texts, papers, people, clouds, plants


@pytest.mark.parametrize("split", ["random", "transductive", "temporal"])
@pytest.mark.parametrize("model", ["mmil", "mil"])
def test_splits_of_papers(model, split):
    experiment = zoo.registry[f"citeseer-{model}-mean-{split}"]
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
            around = {papers[i], *(may & set(network.links[[papers[i]]].indices))}
            words = [sorted(network.words[paper].numpy()) for paper in around]
            found = x[i : i + 1].to_ragged().to_list()[0]
            if model == "mil":
                assert sorted(found) == sorted(word for paper in words for word in paper)
            else:
                assert sorted(map(sorted, found)) == sorted(words)


@pytest.mark.parametrize("split", ["random", "transductive"])
def test_rules_about_papers_are_read_on_all_but_test_papers(split):
    """And on ten copies of each that miss neighbours and words."""
    experiment = zoo.registry[f"cora-mmil-mean-{split}"]
    data = experiment.load(seed=1, source="synthetic")
    network = data.build_arguments["dataset"]
    train, valid, test = network.split(split, seed=1)
    known = np.setdiff1d(np.arange(400), test) if split == "transductive" else [*train, *valid]
    seen = None if split == "transductive" else known
    x, x_valid = data.read_on().x, data.read_on().x_valid
    n_valid = -(-len(known) // 10)
    n = len(known) - n_valid
    assert (len(x_valid), len(x)) == (n_valid, 11 * n)
    assert sorted(words_of(x[:n]) + words_of(x_valid)) == sorted(
        words_of(network.word_bags(known, seen))
    )
    whole = words_of(x[:n])
    words = {tuple(paper) for bag in whole for paper in bag}
    for copy in np.split(np.arange(n, len(x)), 10):
        fewer = [len(a) < len(b) for a, b in zip(words_of(x[copy]), whole, strict=True)]
        assert 0.3 < np.mean(fewer) < 1
        as_they_are = {tuple(paper) for bag in words_of(x[copy]) for paper in bag} <= words
        assert as_they_are == (split == "transductive")


def words_of(bags):
    return [sorted(map(sorted, bag)) for bag in bags.to_ragged().to_list()]


def test_clouds_and_their_rotations():
    """All clouds are for training; rules are chosen on some of them, and learned on the others."""
    clouds = zoo.registry["modelnet-mil-P100"].load(seed=1, source="synthetic")
    bags = zoo.registry["modelnet-P100"].load(seed=1, source="synthetic")
    flat = zoo.registry["modelnet-mil-P100-rotations"].load(seed=1, source="synthetic")
    assert [len(part[1]) for part in (clouds.train, clouds.valid, clouds.test)] == [400, 80, 200]
    for part in ("train", "valid", "test"):
        (x, y, _), (x_bags, y_bags, _), (x_flat, y_flat, _) = (
            getattr(data, part) for data in (clouds, bags, flat)
        )
        turned = builders.clouds.rotations(x.to_tensor().numpy(), 5)
        np.testing.assert_array_equal(x_bags.to_tensor(), turned)
        np.testing.assert_array_equal(x_flat.to_tensor(), turned.reshape(-1, *turned.shape[2:]))
        np.testing.assert_array_equal(y_bags, y)
        np.testing.assert_array_equal(y_flat, np.repeat(y, 5))
    of_train = {cloud.numpy().tobytes() for cloud in clouds.train[0].to_tensor()}
    assert {cloud.numpy().tobytes() for cloud in clouds.valid[0].to_tensor()} < of_train
    assert not {cloud.numpy().tobytes() for cloud in clouds.test[0].to_tensor()} & of_train
    for data in (clouds, bags, flat):
        read_on = data.read_on()
        assert read_on.x_valid is data.valid[0]
        joined = ragged.concat([read_on.x_valid, read_on.x])
        np.testing.assert_array_equal(joined.to_tensor(), data.train[0].to_tensor())
        assert read_on.test is None
    shown = bags.shown()
    kinds = shown.label_names["sub-bag"]
    assert shown.show((3,)) == f"cloud 3 ({kinds[bags.test[1][3]]})"
    assert shown.show((3, 2)) == f"cloud 3 ({kinds[bags.test[1][3]]}), rotation 2"
    point = bags.test[0][3, 2, 7].numpy()
    assert shown.show((3, 2, 7)) == "({:.2f}, {:.2f}, {:.2f})".format(*point)
    assert shown.sub_bag_labels[3].numpy().tolist() == [bags.test[1][3]] * 5


def test_forms_of_floras():
    """Regions among their own similar ones; species left out of the bags in training."""
    data = zoo.registry["plants-P10-self"].load(source="synthetic")
    seen = data.build_arguments["dataset"]
    assert data.train[0].to_list() == seen.similar_regions(include_self=True).to_list()
    for form, rate in (("", None), ("-self", None), ("-masked", 0.25)):
        model = zoo.registry[f"plants-P10{form}"].build(dataset=seen)
        rates = [x.rate for x in model.layers if isinstance(x, keras_mmil.layers.MemberDropout)]
        assert rates == ([] if rate is None else [rate])


@pytest.mark.parametrize("model", ["mmil", "mil"])
def test_floras(model):
    """A network learns what was seen, is tested on what was overlooked, and read elsewhere."""
    experiment = zoo.registry["plants-P10" if model == "mmil" else "plants-mil-P10"]
    data = experiment.load(seed=2, source="synthetic")
    whole = datasets.plants.synthetic(seed=2)
    seen = data.build_arguments["dataset"]
    np.testing.assert_array_equal(seen.presence, whole.incomplete(10, seed=2).presence)
    (x, y, _), (_, y_valid, _), (x_test, labels, _) = data.train, data.valid, data.test
    np.testing.assert_array_equal(y, seen.presence)
    np.testing.assert_array_equal(labels == 1, seen.presence)
    np.testing.assert_array_equal(labels > 0, whole.presence)
    similar = seen.similar_regions()
    if model == "mmil":
        assert x.to_list() == x_test.to_list() == similar.to_list()
    else:
        found = keras_mmil.Bags(x["bags"], x["counts"], (), ()).to_ragged().to_list()
        merged = similar.merge_dims(1, 2).to_list()
        assert [sorted(bag) for bag in found] == [sorted(bag) for bag in merged]
    assert len(y_valid) == 60
    read_on = data.read_on()
    assert [ragged.n_top_bags(part) for part in (read_on.x, read_on.x_valid)] == [180, 60]
    x_judge, truth = read_on.test
    assert ragged.n_top_bags(x_judge) == len(truth) == 60
    species = data.explainer["target"]
    assert 0.5 < truth.mean() / max(whole.presence[:, species].mean(), 1e-9) < 2
    shown = data.shown()
    show = shown.show
    row = seen.regions.index(show((0,)))
    np.testing.assert_array_equal(shown.places[0][0], seen.coordinates[row])
    np.testing.assert_array_equal(shown.places[1], seen.coordinates)
    assert ragged.n_top_bags(shown.x) == len(shown.places[0]) == 300
    species = [seen.species[i] for i in np.flatnonzero(seen.presence[row])]
    if model == "mmil":
        assert [show((0, i)) for i in range(len(species))] == species
        assert show((0, 1, 2)) == seen.regions[similar[row][1][2]]


@pytest.mark.graphs
@pytest.mark.parametrize("name", different_models())
def test_experiment(name, tmp_path):
    experiment = zoo.registry[name]
    source = experiment.sources[-1]  # the embedded one
    data = experiment.load(seed=0, limit=30, source=source)
    (x, y, z), (x_valid, y_valid, _), (x_test, y_test, _) = data.train, data.valid, data.test
    assert len(y) == len(y_test) == 30
    assert len(y_valid) == (6 if name.startswith("modelnet") else 30)  # those are a part of `x`
    assert z is None or z.shape[0] == 30
    assert (data.whole is not None) == bool(experiment.folds)
    if data.whole is not None:
        assert [len(part) for part in data.whole] == [90, 90]
    model = experiment.build(**data.build_arguments)
    assert isinstance(model, keras_mmil.Model)
    before = [w.numpy() for w in model.trainable_weights]
    arguments = {**experiment.explainer, **data.explainer, "n_clusters": None, "verbose": 0}
    arguments["max_clusters"] = 3
    extractor = keras_mmil.RuleExtractor(x, validation_data=(x_valid, y_valid), **arguments)
    with warnings.catch_warnings():
        # One epoch may leave the network, and so the rules, with a single class.
        warnings.filterwarnings("ignore", message=".*one class")
        model.fit(
            x,
            y,
            batch_size=experiment.batch_size,
            validation_data=(x_valid, y_valid),
            callbacks=[extractor],
            verbose=0,
        )
    tf.config.run_functions_eagerly(True)  # what is trained has shown that it can be traced
    assert any((a != b.numpy()).any() for a, b in zip(before, model.trainable_weights, strict=True))
    explainer = extractor.explainer_
    assert 0 <= explainer.fidelity(x_test) <= 1
    assert explainer.rules_.to_dict()

    expected = model.predict(x_test, verbose=0)
    model.save(tmp_path / "model.keras")
    explainer.save(tmp_path / "rules")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x_test, verbose=0), expected)
    np.testing.assert_allclose(predict_in_fresh_process(model, x_test), expected, atol=1e-6)
    again = keras_mmil.Explainer.load(tmp_path / "rules", loaded)
    np.testing.assert_array_equal(again.predict(x_test), explainer.predict(x_test))


def test_mnist_arguments():
    model = zoo.mnist_mmil(
        input_shape=(20, 20),
        filters=(2, 3),
        strides=1,
        padding="valid",
        dense_units=4,
        bag_units=(5, 6, 7),
        name="small",
    )
    assert model.name == "small"
    assert model.input_shape == (None, None, None, None, 20, 20)
    assert [layer.units for layer in model.layers if hasattr(layer, "aggregations")] == [5, 6, 7]


def test_mnist_network_is_that_of_the_papers_table():
    encoder = zoo.mnist_mmil(translation=0).get_layer("instances").layer
    block = ["Conv2D", "BatchNormalization", "ReLU", "MaxPooling2D", "Dropout"]
    names = [type(layer).__name__ for layer in encoder.layers]
    assert names == ["Reshape", "Rescaling", *block, *block, "Flatten", "Dense", "Dropout"]
    first, second = (layer for layer in encoder.layers if type(layer).__name__ == "Conv2D")
    assert (first.filters, second.filters) == (32, 64)
    assert first.kernel_size == second.kernel_size == (5, 5)


def test_mnist_images_are_shifted_in_training_only():
    model = zoo.mnist_mmil(translation=1)
    (shift,) = (
        layer
        for layer in model.get_layer("instances").layer.layers
        if isinstance(layer, keras.layers.RandomTranslation)
    )
    dots = np.zeros((200, 28, 28, 1), "float32")
    dots[:, 10, 20] = 1
    shifted = shift(dots, training=True).numpy()
    np.testing.assert_allclose(shifted.sum((1, 2, 3)), 1, rtol=1e-4)  # nothing is lost on the way
    grid = np.arange(28)
    rows = (shifted.sum((2, 3)) * grid).sum(1) - 10  # where the middle of each dot went
    columns = (shifted.sum((1, 3)) * grid).sum(1) - 20
    for offsets in (rows, columns):
        assert -1.001 < offsets.min() < -0.8
        assert 0.8 < offsets.max() < 1.001


def explainer_of(majority, sub_bag_rule, top_bag_rule, n_sub_bag_clusters=2):
    """What `matches_generating_rule` sees of an explainer with given rules."""
    occurrence = SimpleNamespace(name="occurrence")
    sizes_and_rules = ((len(majority), sub_bag_rule), (n_sub_bag_clusters, top_bag_rule))
    levels = [
        SimpleNamespace(feature=occurrence, n_clusters=n, rules=SimpleNamespace(predict=rule))
        for n, rule in sizes_and_rules
    ]
    description = [SimpleNamespace(majority=np.array(majority))]
    return SimpleNamespace(levels_=levels, describe=lambda x, instance_labels: description)


def holds_7_and_no_3(sets):  # clusters: another digit, 7, 3, 7
    return ((sets[:, 1] + sets[:, 3] > 0) & (sets[:, 2] == 0)).astype(int)


def holds_second(sets):
    return sets[:, 1].astype(int)


@pytest.mark.parametrize(
    ("majority", "sub_bag_rule", "top_bag_rule", "expected"),
    [
        ([0, 7, 3, 7], holds_7_and_no_3, holds_second, True),
        # The names of the clusters do not matter, if the level above knows them.
        (
            [0, 7, 3, 7],
            lambda sets: 1 - holds_7_and_no_3(sets),
            lambda sets: sets[:, 0].astype(int),
            True,
        ),
        ([0, 7, 3, 7], lambda sets: 1 - holds_7_and_no_3(sets), holds_second, False),
        ([0, 7, 3, 7], lambda sets: (sets[:, 1] > 0).astype(int), holds_second, False),
        ([0, 7, 3, 7], holds_7_and_no_3, lambda sets: np.zeros(len(sets), int), False),
        # Rules that know no 7 never say positive, and there is nothing to be positive: no match.
        ([0, 1, 3, 2], lambda sets: np.zeros(len(sets), int), holds_second, False),
        ([0, 7, 7, 7], lambda sets: (sets[:, 1:].max(1) > 0).astype(int), holds_second, False),
    ],
)
def test_truth_table(majority, sub_bag_rule, top_bag_rule, expected):
    explainer = explainer_of(majority, sub_bag_rule, top_bag_rule)
    assert digits.matches_generating_rule(explainer, None, None) is expected


def test_truth_table_with_more_clusters_of_sub_bags_than_labels():
    def two_kinds_of_negative(sets):
        return np.where(holds_7_and_no_3(sets) == 1, 2, sets[:, 2].astype(int))

    explainer = explainer_of(
        [0, 7, 3, 7], two_kinds_of_negative, lambda sets: sets[:, 2].astype(int), 3
    )
    assert digits.matches_generating_rule(explainer, None, None)


def test_social_networks_with_dropout():
    """That of IMDB-MULTI; it has the same weights."""
    data = zoo.registry["imdb-multi"].load(source="synthetic", limit=4)
    model = zoo.registry["imdb-multi"].build(**data.build_arguments)
    plain = zoo.registry["imdb-binary"].build(**data.build_arguments)
    rates = [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
    assert rates == [0.5, 0.5]
    assert not any(isinstance(layer, keras.layers.Dropout) for layer in plain.layers)
    plain.set_weights(model.get_weights())
    x = data.train[0]
    np.testing.assert_allclose(plain.predict(x, verbose=0), model.predict(x, verbose=0))
    assert zoo.registry["imdb-multi"].schedule(100)(50) == pytest.approx(0.0005)


def test_social_network_is_the_papers():
    networks = social.synthetic(6)
    model = zoo.social_mmil(networks)
    assert type(model.get_layer("degrees")).__name__ == "Dense"
    assert model.get_layer("degrees").units == 500
    bag_layers = [layer for layer in model.layers if hasattr(layer, "aggregations")]
    for layer in bag_layers:
        assert layer.units == 500
        assert [each.name.partition("_")[0] for each in layer.aggregations] == ["max", "mean"]
    assert len(bag_layers) == 2
    assert model.output_shape == (None, 2)
    assert model.layers[-1].activation is keras.activations.linear
    # A star of four, and two nodes that are linked: by hand, in one number for each bag.
    degrees = ragged.from_nested_lists([[[3, 1, 1, 1], [1, 3], [1, 3], [1, 3]], [[1, 1], [1, 1]]])
    table = keras_mmil.builders.graphs.degree_features(int(networks.degrees.max()))
    np.testing.assert_array_equal(model.get_layer("degree_features").get_weights()[0], table)

    def by_hand(graph):
        dense, first, second, last = (model.get_layer(n) for n in LAYERS)
        relu = lambda layer, x: np.maximum(x @ layer.kernel.numpy() + layer.bias.numpy(), 0)  # noqa: E731
        pool = lambda x: np.concatenate([x[:, :250].max(0), x[:, 250:].mean(0)])  # noqa: E731
        nodes = [pool(relu(first, relu(dense, table[bag]))) for bag in graph]
        return pool(relu(second, np.stack(nodes))) @ last.kernel.numpy() + last.bias.numpy()

    expected = [by_hand(graph) for graph in degrees.to_list()]
    np.testing.assert_allclose(model.predict(degrees, verbose=0), expected, atol=1e-5)


LAYERS = ("degrees", "bag_layer_1", "bag_layer_2", "label")


def test_citation_arguments():
    network = citations.synthetic(n_papers=60)
    model = zoo.citation_mmil(network, aggregation="mean", bag_units=(5, 6), l2=0.5, dropout=0.25)
    names = ["bag_layer_1", "bag_layer_2", "label"]
    kernels = [model.get_layer(name).kernel for name in names]
    assert [tuple(kernel.shape) for kernel in kernels] == [(60, 5), (5, 6), (6, 3)]
    expected = 0.5 * sum(float((kernel.numpy() ** 2).sum()) for kernel in kernels)
    np.testing.assert_allclose(float(sum(model.losses)), expected, rtol=1e-5)
    assert {model.get_layer(f"dropout_{level}").rate for level in (1, 2)} == {0.25}
    assert zoo.citation_mil(network).get_layer("bag_layer_1").units == 250


@pytest.mark.parametrize("builder", [zoo.pointcloud_mil, zoo.pointcloud_mmil])
@pytest.mark.parametrize(
    "policy", [pytest.param("mixed_float16", marks=pytest.mark.graphs), "mixed_bfloat16"]
)
def test_networks_for_clouds_in_mixed_precision(builder, policy):
    x, y = builders.clouds.synthetic(24, n_points=20, seed=0)
    bags = tf.RaggedTensor.from_tensor(x)
    if builder is zoo.pointcloud_mmil:
        bags = tf.RaggedTensor.from_tensor(builders.clouds.rotations(x, 3), ragged_rank=2)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        keras.utils.set_random_seed(0)
        small = {"equivariant_units": (16, 16), "dense_units": 16, "dropout": 0.0}
        model = builder(4, **small, learning_rate=0.01)
    finally:
        keras.config.set_dtype_policy(before)
    assert model.get_layer("equivariant_1").compute_dtype == policy.removeprefix("mixed_")
    losses = model.fit(bags, y, epochs=15, batch_size=8, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
