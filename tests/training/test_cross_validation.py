"""Cross-validation: against scikit-learn's, and after an interruption."""

import json
import sys

import cloudpickle
import keras
import numpy as np
import pytest
import tensorflow as tf
from other_process import holding
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

import keras_mmil
from keras_mmil import Bags, Explainer, io, ragged
from keras_mmil.batches import to_dataset
from keras_mmil.layers import BagLayer, Distinct, InstanceWise, bag_inputs
from keras_mmil.training import CrossValidation, cross_validate
from keras_mmil.training.cross_validation import FoldLog

SETTINGS = {"epochs": 2, "batch_size": 12, "folds": 2, "rounds": 2, "seed": 5, "verbose": 0}

# pytest imports this file from its path: no other process could import it by its name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def compiled(inputs, x, learning_rate=0.05):
    """A classifier; eager, as tracing takes longer than these trainings."""
    model = keras_mmil.Model(inputs, keras.layers.Dense(2, activation="softmax")(x))
    model.compile(
        keras.optimizers.Adam(learning_rate),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        run_eagerly=True,
    )
    return model


def build():
    bags = keras.Input((None, 2), ragged=True)
    return compiled(bags, BagLayer(4)(bags))


def data(n=30):
    rng = np.random.default_rng(0)
    x = ragged.from_flat(rng.normal(size=(3 * n, 2)).astype("float32"), (np.full(n, 3),))
    return x, (x.to_tensor().numpy()[..., 0].max(1) > 0.8).astype(int)


@pytest.fixture(scope="module")
def whole():
    """An undisturbed cross-validation."""
    return cross_validate(build, *data(), **SETTINGS)


@pytest.mark.slow
def test_figures_are_those_of_scikit_learn_where_the_model_is_the_same():
    """A model without anything random in it, trained until it is scikit-learn's."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(60, 2)).astype("float32")
    y = (points[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)

    def build_logistic():
        bags = keras.Input((None, 2), ragged=True)
        return compiled(bags, BagLayer(None, aggregation="mean", empty="zeros")(bags), 0.5)

    bags = ragged.from_flat(points, (np.ones(60, int),))
    found = cross_validate(
        build_logistic, bags, y, epochs=20, batch_size=60, folds=3, rounds=1, seed=0, verbose=0
    )
    seed = int(np.random.SeedSequence([0, 0]).generate_state(1)[0])
    splitter = StratifiedKFold(3, shuffle=True, random_state=seed)
    expected = cross_val_score(LogisticRegression(C=1e6), points, y, cv=splitter)
    np.testing.assert_allclose(found.scores["accuracy"][0], expected, atol=0.051)  # one of 20
    np.testing.assert_allclose(found.mean(), expected.mean(), atol=0.02)


@pytest.mark.slow
def test_every_top_bag_is_tested_once_a_round_and_never_trained_on_then():
    seen = []

    class SpyModel(keras_mmil.Model):
        def fit(self, x, y=None, **arguments):
            seen.append(set())
            for _, (batch, _) in zip(range(arguments["steps_per_epoch"]), x, strict=False):
                seen[-1] |= set(batch.flat_values[:, 0].numpy().astype(int))
            return super().fit(x, y, **arguments)

        def evaluate(self, x, y=None, **arguments):
            tested = set(x.flat_values[:, 0].numpy().astype(int))
            assert not tested & seen[-1]
            assert tested | seen[-1] == set(range(30))
            seen[-1] = tested
            return super().evaluate(x, y, **arguments)

    def build_spy():
        model = build()
        spy = SpyModel(model.inputs[0], model.outputs[0])
        spy.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
        return spy

    _, y = data()
    numbers = np.repeat(np.arange(30, dtype="float32")[:, None], 2, axis=1)
    cross_validate(build_spy, ragged.from_flat(numbers, (np.ones(30, int),)), y, **SETTINGS)
    for r in (seen[:2], seen[2:]):
        assert sorted(number for part in r for number in part) == list(range(30))
        for part in r:
            assert y[list(part)].sum() == pytest.approx(y.sum() / 2, abs=1)
    assert seen[:2] != seen[2:]


@pytest.mark.slow
def test_same_seed_same_figures_and_in_processes_too(whole):
    x, y = data()
    runs = [whole]
    for arguments in ({"n_jobs": 2}, {"seed": 6}):
        runs.append(cross_validate(build, x, y, **{**SETTINGS, **arguments}))
    losses = [run.scores["loss"] for run in runs]
    assert losses[0].shape == runs[0].seconds.shape == (2, 2)
    assert runs[0].majority == max(y.tolist().count(label) for label in set(y.tolist())) / len(y)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert np.abs(losses[2] - losses[0]).min() > 1e-4
    assert len(np.unique(losses[0])) == 4


def build_for_ids():
    inputs = bag_inputs(2)
    x, *levels = Distinct()(inputs)
    x = keras.layers.Embedding(5, 3)(x)
    for members, weights in levels:
        x = BagLayer(4)(x, members, weights)
    return compiled(inputs, x)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_compressed_and_dense_bags_are_as_plain_ones(n_jobs):
    rng = np.random.default_rng(0)
    words = ragged.from_flat(rng.integers(0, 5, 80), (np.full(20, 2), np.full(40, 2)))
    y, settings = np.arange(20) % 2, {**SETTINGS, "rounds": 1}
    losses = [
        cross_validate(build_for_ids, x, y, **settings, n_jobs=n_jobs).scores["loss"]
        for x in (words, Bags.from_ragged(words))
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    x, y = data()
    losses = [
        cross_validate(build, bags, y, **settings, n_jobs=n_jobs).scores["loss"]
        for bags in (x, x.to_tensor().numpy())
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)


class Killed(Exception):
    """Stands for a kill."""


def constant(epoch):
    return 0.05


@pytest.mark.slow
def test_schedule(whole, tmp_path):
    x, y = data()
    same = cross_validate(build, x, y, **SETTINGS, schedule=constant, n_jobs=2)
    np.testing.assert_allclose(same.scores["loss"], whole.scores["loss"], rtol=1e-5)
    arguments = {**SETTINGS, "rounds": 1, "folder": tmp_path}
    arguments["schedule"] = lambda epoch: 0.0 if epoch else 0.05
    other = cross_validate(build, x, y, **arguments)
    one_epoch = cross_validate(build, x, y, **{**SETTINGS, "rounds": 1, "epochs": 1})
    np.testing.assert_allclose(other.scores["loss"], one_epoch.scores["loss"], rtol=1e-5)
    with pytest.raises(ValueError, match="rates"):
        cross_validate(build, x, y, **{**arguments, "schedule": constant, "resume": True})


@pytest.mark.slow
def test_continues_after_an_interruption(whole, tmp_path, capsys):
    x, y = data()
    calls = []

    def build_until_killed():
        calls.append(0)
        if len(calls) == 1 + 4:  # one to tell it from other networks
            raise Killed
        return build()

    with pytest.raises(Killed):
        cross_validate(build_until_killed, x, y, folder=tmp_path, **SETTINGS)
    arguments = {**SETTINGS, "folder": tmp_path, "resume": True, "verbose": 1}
    resumed = cross_validate(build, x, y, **arguments)
    np.testing.assert_allclose(resumed.scores["loss"], whole.scores["loss"], rtol=1e-5)
    printed = capsys.readouterr().out.splitlines()
    assert [line[:15] for line in printed] == ["round 2, fold 2"]
    assert "0 folds left" in printed[-1]

    more = cross_validate(build, x, y, **{**arguments, "rounds": 3})
    np.testing.assert_array_equal(more.scores["loss"][:2], resumed.scores["loss"])
    again = cross_validate(build, x, y, **{**SETTINGS, "folder": tmp_path, "rounds": 1})
    assert len(json.loads((tmp_path / "cross_validation.json").read_text())["folds"]) == 2
    np.testing.assert_allclose(again.scores["loss"], whole.scores["loss"][:1], rtol=1e-5)


def test_a_folder_is_of_one_network(tmp_path):
    """Also where what it learned of the data is in its configuration; and of one process."""
    x, y = data()
    settings = {**SETTINGS, "rounds": 1, "epochs": 1, "folds": 2}

    def build_wider():
        bags = keras.Input((None, 2), ragged=True)
        return compiled(bags, BagLayer(5)(bags))

    def build_by_data(x, y):
        assert len(y) == 15  # the training part
        return build()

    class Plain(keras.layers.Layer):
        def call(self, x):
            return x

        def get_config(self):
            raise NotImplementedError

    def build_plain():
        bags = keras.Input((None, 2), ragged=True)
        return compiled(bags, Plain()(BagLayer(4)(bags)))

    log = tmp_path / "a" / "cross_validation.json"
    first = cross_validate(build, x, y, **settings, folder=tmp_path / "a")
    written = log.read_bytes()
    with pytest.raises(ValueError, match=r"cross_validation.json, .*Received: other model$"):
        cross_validate(build_wider, x, y, **settings, folder=tmp_path / "a", resume=True)
    changed = {**settings, "epochs": 2, "seed": 9, "folder": tmp_path / "a", "resume": True}
    told = r"Received: epochs=2 \(before: 1\), other model, seed=9 \(before: 5\)$"
    with pytest.raises(ValueError, match=told):
        cross_validate(build_wider, x, y, **changed)
    with pytest.raises(ValueError, match=r"Received: batch_size=4 \(before: 12\), other data$"):
        cross_validate(
            build,
            x,
            y[::-1].copy(),
            **{**settings, "batch_size": 4},
            folder=tmp_path / "a",
            resume=True,
        )
    for same in (build, build_by_data):
        again = cross_validate(same, x, y, **settings, folder=tmp_path / "a", resume=True)
        np.testing.assert_array_equal(again.scores["loss"], first.scores["loss"])
    cross_validate(build_plain, x, y, **settings, folder=tmp_path / "b", resume=True)
    with pytest.raises(ValueError, match="Keras can serialize"):
        cross_validate(build_plain, x, y, **settings, folder=tmp_path / "b", resume=True)
    with (
        holding(tmp_path / "a") as process,
        pytest.raises(BlockingIOError, match=f"in use by process {process}$"),
    ):
        cross_validate(build, x, y, **settings, folder=tmp_path / "a")
    assert log.read_bytes() == written


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"folds": 9}, r"from 2 to 8 folds, as class 0 has 8 members. Received: folds=9"),
        ({"folds": 1}, "Received: folds=1"),
        ({"rounds": 0}, "rounds=0"),
        ({"epochs": 0}, "epochs=0"),
        ({"y": np.zeros((30, 1), int)}, r"shape \(30, 1\)"),
        ({"y": np.zeros(30)}, "y of float64"),
        ({"y": np.zeros(29, int)}, r"30 top-bags. Received: y of int64, shape \(29,\)"),
    ],
)
def test_bad_input(arguments, match):
    x, _ = data()
    y = (np.arange(30) >= 8).astype(int)
    with pytest.raises(ValueError, match=match):
        cross_validate(build, x, **{"y": y, **SETTINGS, **arguments})


KERNEL = np.array([[1.0, -1.0], [-0.5, 0.5]], "float32")


def untrained(scale):
    """A model that stays as it is, behind a layer that scales; compiled by TensorFlow."""
    bags = keras.Input((None, 2), ragged=True)
    x = BagLayer(None, aggregation="mean", empty="zeros")(InstanceWise(scale)(bags))
    outputs = keras.layers.Dense(2, "softmax", kernel_initializer=lambda *_, **__: KERNEL)(x)
    model = keras_mmil.Model(bags, outputs)
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    return model


def expected_loss(points, y):
    """The loss of that model on scaled points [top-bags, 3, 2]."""
    logits = points.mean(axis=1) @ KERNEL
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return -np.log(probabilities[np.arange(len(y)), y]).mean()


def folds_of(y, folds, seed, r=0):
    seed = int(np.random.SeedSequence([seed, r]).generate_state(1)[0])
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y))


@pytest.mark.slow
def test_scales_are_learned_on_the_training_part_of_each_fold():
    """What was compiled for one fold must not be used for the next: it holds the scale."""
    x, y = data()
    seen = []

    def build_scaled(x, y):
        seen.append((x.to_tensor().numpy(), y))
        scale = keras.layers.Normalization()
        scale.adapt(x.flat_values)
        return untrained(scale)

    settings = {"epochs": 1, "folds": 2, "rounds": 1, "seed": 3, "verbose": 0}
    found = cross_validate(build_scaled, x, y, **settings).scores["loss"][0]
    points = x.to_tensor().numpy()
    for (train, test), (x_seen, y_seen), loss in zip(folds_of(y, 2, 3), seen, found, strict=True):
        np.testing.assert_array_equal(x_seen, points[train])
        np.testing.assert_array_equal(y_seen, y[train])
        mean, std = points[train].mean((0, 1)), points[train].std((0, 1))
        np.testing.assert_allclose(
            loss, expected_loss((points[test] - mean) / std, y[test]), rtol=1e-4
        )


@pytest.mark.slow
def test_models_that_are_not_alike_are_not_compiled_once():
    x, y = data()
    scales = iter((1.0, 3.0))
    settings = {"epochs": 1, "folds": 2, "rounds": 1, "seed": 3, "verbose": 0}
    found = cross_validate(
        lambda: untrained(keras.layers.Rescaling(next(scales))), x, y, **settings
    )
    points = x.to_tensor().numpy()
    expected = [
        expected_loss(scale * points[test], y[test])
        for scale, (_, test) in zip((1.0, 3.0), folds_of(y, 2, 3), strict=True)
    ]
    np.testing.assert_allclose(found.scores["loss"][0], expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("bad", "received"),
    [
        (lambda x: build(), r"build with arguments \(x\)"),
        (lambda x, y, z: build(), r"\(x, y, z\)"),
        (lambda *, x, y: build(), r"\(\*, x, y\)"),
    ],
)
def test_build_takes_both_or_nothing(bad, received):
    with pytest.raises(ValueError, match=f"no arguments, or x and y.*{received}"):
        cross_validate(bad, *data(), **SETTINGS)


@pytest.mark.slow
def test_arguments_with_defaults_are_the_functions_own():
    x, y = data()
    settings = {**SETTINGS, "rounds": 1, "epochs": 1}
    own = cross_validate(build, x, y, **settings).scores["loss"]
    same = cross_validate(lambda x=None, units=4, *_, **__: build(), x, y, **settings)
    np.testing.assert_array_equal(same.scores["loss"], own)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The rules put every")
def test_rules_of_each_fold(tmp_path):
    """Against a training and a reading by hand; after a kill; and in processes."""
    x, y = data(60)
    explainer = Explainer(max_clusters=3, verbose=0)
    settings = {"epochs": 3, "batch_size": 15, "folds": 2, "rounds": 1, "seed": 5, "verbose": 0}
    plain = cross_validate(build, x, y, **settings)
    assert plain.rules is None
    calls = []

    def build_until_killed():
        calls.append(0)
        if len(calls) == 1 + 2:
            raise Killed
        return build()

    settings |= {"explainer": explainer, "folder": tmp_path}
    with pytest.raises(Killed):
        cross_validate(build_until_killed, x, y, **settings)
    for further in ({"explainer": None}, {"explainer": Explainer(max_clusters=4, verbose=0)}):
        with pytest.raises(ValueError, match="data and settings"):
            cross_validate(build, x, y, **{**settings, **further}, resume=True)
    found = cross_validate(build, x, y, **settings, resume=True)
    assert not hasattr(explainer, "levels_")  # it was copied
    np.testing.assert_array_equal(found.scores["loss"], plain.scores["loss"])
    for fold, (train, test) in enumerate(folds_of(y, 2, 5)):
        seed = int(np.random.SeedSequence([5, 0, fold]).generate_state(1)[0])
        keras.utils.set_random_seed(seed)
        model = build()
        batched = to_dataset(ragged.take(x, train), y[train], 15, seed=seed, first_epoch=0)
        steps = -(-len(train) // 15)
        model.fit(batched, steps_per_epoch=steps, epochs=3, shuffle=False, verbose=0)
        by_hand = Explainer(max_clusters=3, verbose=0).fit(model, ragged.take(x, train))
        x_test = ragged.take(x, test)
        by_network = model.predict(x_test, verbose=0).argmax(axis=1)
        by_rules = by_hand.predict(x_test)
        expected = {
            "fidelity": np.mean(by_rules == by_network),
            "fidelity_majority": np.bincount(by_network).max() / len(test),
            "rule_accuracy": np.mean(by_rules == y[test]),
            "rule_accuracy_majority": np.bincount(y[test]).max() / len(test),
        }
        scores = {metric: values[0, fold] for metric, values in found.scores.items()}
        assert {metric: scores[metric] for metric in expected} == expected
        assert found.rules[0][fold] == str(by_hand.rules_)
    assert "rule_accuracy 0." in str(found) or "rule_accuracy 1." in str(found)
    side_by_side = cross_validate(build, x, y, **{**settings, "folder": None}, n_jobs=2)
    assert side_by_side.rules == found.rules


@pytest.mark.parametrize("explainer", [{"max_clusters": 3}, Explainer, LogisticRegression()])
def test_only_explainers_read_rules(explainer):
    with pytest.raises(TypeError, match="Expected an Explainer"):
        cross_validate(build, *data(), **SETTINGS, explainer=explainer)


@pytest.mark.parametrize("form", [to_dataset, lambda x, y: (part for part in x)])
def test_streams_are_refused(form):
    x, y = data()
    with pytest.raises(TypeError, match="to be divided into folds"):
        cross_validate(build, form(x, y), y, **SETTINGS)


@pytest.mark.slow
def test_texts(tmp_path):
    def build_for_texts():
        texts = keras.Input((1,), dtype="string")
        return compiled(texts, keras.layers.Hashing(5, output_mode="multi_hot")(texts))

    x, y = tf.constant([["a"], ["b"], ["c"], ["dd"]] * 6), np.arange(24) % 2
    settings = {**SETTINGS, "rounds": 1, "epochs": 1, "folder": tmp_path}
    found = cross_validate(build_for_texts, x, y, **settings)
    same = cross_validate(build_for_texts, x, y, **settings, resume=True)
    np.testing.assert_array_equal(found.scores["loss"], same.scores["loss"])
    with pytest.raises(ValueError, match="data and settings"):
        cross_validate(build_for_texts, tf.strings.upper(x), y, **settings, resume=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The rules put")  # after two epochs
@pytest.mark.parametrize("format", ["parquet", pytest.param("tfrecord", marks=pytest.mark.nightly)])
def test_top_bags_in_files_are_trained_and_tested_on_as_those_in_memory(format, tmp_path):
    """With all of a training part in each batch, so that its order makes no difference."""
    x, y = data()
    io.write(tmp_path, x, y, format=format, top_bags_per_file=7, verbose=0)
    settings = {**SETTINGS, "batch_size": len(y), "rounds": 1}
    seen = []

    def build_by_data(x, y):
        part = ragged.concat(list(x)) if isinstance(x, tf.data.Dataset) else x
        seen.append((part.flat_values.numpy().tolist(), y.tolist()))
        return build()

    one, other = (
        cross_validate(build_by_data, *given, **settings, explainer=EXPLAINER)
        for given in ([x, y], [tmp_path])
    )
    assert seen[:2] == seen[2:]
    for metric in ("loss", "accuracy"):
        np.testing.assert_allclose(one.scores[metric], other.scores[metric], atol=1e-5)
    assert one.majority == other.majority
    assert ((other.scores["fidelity"] > 0) & (other.scores["fidelity"] <= 1)).all()
    assert all(map(all, other.rules))


EXPLAINER = Explainer(n_clusters=2, validation_fraction=0.3, verbose=0)


@pytest.mark.slow
def test_folds_of_files_are_resumed_with_the_same_files_only(tmp_path):
    x, y = data()
    for name, labels in (("one", y), ("other", 1 - y)):
        io.write(tmp_path / name, x, labels, verbose=0)
    arguments = {"build": build, "folder": tmp_path / "log", **SETTINGS, "rounds": 1}
    first = cross_validate(x=tmp_path / "one", **arguments)
    again = cross_validate(x=str(tmp_path / "one"), resume=True, **arguments)
    assert (first.scores["loss"] == again.scores["loss"]).all()
    assert (first.seconds == again.seconds).all()  # nothing was trained again
    with pytest.raises(ValueError, match="Expected the data and settings"):
        cross_validate(x=tmp_path / "other", resume=True, **arguments)


def test_files_without_one_class_for_each_top_bag_are_refused(tmp_path):
    x, y = data()
    for name, labels in (
        ("bare", [x]),
        ("weighted", [x, y, np.ones(len(y))]),
        ("real", [x, y / 2]),
    ):
        io.write(tmp_path / name, *labels, verbose=0)
        with pytest.raises(ValueError, match=r"with labels, and|Expected the class"):
            cross_validate(build, tmp_path / name, **SETTINGS)
    with pytest.raises(ValueError, match="Expected y=None"):
        cross_validate(build, tmp_path / "bare", y, **SETTINGS)
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        cross_validate(build, tmp_path / "nothing", **SETTINGS)


@pytest.mark.slow
def test_folds_of_files_are_trained_in_processes(tmp_path):
    io.write(tmp_path, *data(), verbose=0)
    settings = {**SETTINGS, "rounds": 1}
    one, two = (cross_validate(build, tmp_path, **settings, n_jobs=n) for n in (1, 2))
    np.testing.assert_allclose(one.scores["loss"], two.scores["loss"], atol=1e-5)


# Figures ----------------------------------------------------------------------------------------


def test_mean_and_standard_deviation():
    scores = np.array([[0.5, 0.7], [0.9, 0.7]])
    result = CrossValidation({"accuracy": scores}, np.full((2, 2), 60.0), majority=0.5)
    assert result.mean() == pytest.approx(0.7)
    assert result.std() == pytest.approx(np.std([0.6, 0.8], ddof=1))  # of the rounds
    figures = "accuracy 0.7000 ± 0.1414; most frequent class 0.5000"
    assert str(result) == f"{figures} (2 x 2 folds, 4 min of training)"
    one_round = CrossValidation({"accuracy": scores[:1]}, np.ones((1, 2)), majority=0.5)
    assert one_round.std() == pytest.approx(np.std([0.5, 0.7], ddof=1))  # of the folds


@pytest.mark.parametrize(
    "folds",
    [
        None,
        "all",
        [3],
        [{"round": 0, "fold": "x", "seconds": 1.0}],
        [{"round": 0, "fold": 2, "seconds": 1.0}],
        [{"round": 0, "fold": 0, "seconds": None}],
        [{"round": 0, "fold": 0}],
        [{"round": 0, "fold": 0, "seconds": 1.0}] * 2,
        [{"round": 0, "fold": i, "seconds": 1.0, f"score{i}": 1.0} for i in range(2)],
    ],
)
def test_folds_that_are_none(tmp_path, folds):
    path = tmp_path / "cross_validation.json"
    path.write_text(json.dumps({"settings": {}} | ({} if folds is None else {"folds": folds})))
    with pytest.raises(ValueError, match=r"finished folds.*cross_validation\.json"):
        FoldLog(tmp_path, {}, 1, 2).read()


def test_a_score_that_is_no_number_is_null_on_disk(tmp_path):
    def no_constants(name):
        raise ValueError(name)

    log = FoldLog(tmp_path, {}, 1, 2, verbose=0)
    assert not log.read()
    for fold, loss in enumerate([np.nan, 0.5]):
        log.add((0, fold), {"seconds": 1.0, "loss": loss, "accuracy": 1.0})
    text = (tmp_path / "cross_validation.json").read_text()
    found = json.loads(text, parse_constant=no_constants)["folds"]
    assert [each["loss"] for each in found] == [None, 0.5]
    again = FoldLog(tmp_path, {}, 1, 2)
    assert again.read()
    np.testing.assert_array_equal(again.result(0.5).scores["loss"], [[np.nan, 0.5]])
    (tmp_path / "cross_validation.json").write_text(
        text.replace('"seconds": 1.0', '"seconds": null')
    )
    with pytest.raises(ValueError, match="finished folds"):
        FoldLog(tmp_path, {}, 1, 2).read()
