"""Saving and loading, the callback, and the pictures."""

import csv
import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.exceptions import NotFittedError

import keras_mmil
from keras_mmil import batches, ragged, zoo
from keras_mmil.builders import clouds
from keras_mmil.datasets import synthetic
from keras_mmil.interpretation import (
    Explainer,
    RuleExtractor,
    plot_clouds,
    plot_correspondence,
    plot_grid,
)
from keras_mmil.interpretation.fitting.search import GridPoint
from keras_mmil.interpretation.plots.plots import wrap_clause
from keras_mmil.interpretation.readout.describe import LevelDescription
from keras_mmil.interpretation.readout.explanation import Explanation, Part
from keras_mmil.interpretation.rules.rules import Condition, Rule
from keras_mmil.layers import BagLayer


def make_model(depth=1):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((None,) * depth + (2,), ragged=True)
    x = inputs
    for _ in range(depth):
        x = BagLayer(4)(x)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    return model


def make_data(n=40, depth=1, seed=0):
    """Positive iff the first feature of some instance is above 1."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(1, 4, n)]
    for _ in range(depth - 1):
        sizes.append(rng.integers(1, 3, sizes[-1].sum()))
    values = rng.normal(size=(sizes[-1].sum(), 2)).astype(np.float32)
    x = ragged.from_flat(values, sizes)
    first = x.with_flat_values(values[:, 0])
    while first.shape.rank > 1:
        first = tf.reduce_max(first, axis=-1)
    return x, (first.numpy() > 0.7).astype(float)


def median_target(model, x):
    return 0, float(np.median(model(x)))


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def x():
    return make_data()[0]


@pytest.fixture(scope="module")
def fitted(model, x):
    target = median_target(model, x)
    return Explainer(max_clusters=4, target=target, verbose=0).fit(model, x)


# Storage ----------------------------------------------------------------------------------------


def test_saved_and_loaded(fitted, model, x, tmp_path):
    folder = tmp_path / "deep" / "rules"
    fitted.save(folder)
    assert {path.suffix for path in folder.iterdir()} == {".json", ".npz"}
    loaded = Explainer.load(folder, model)
    assert loaded.get_params() == fitted.get_params()
    assert loaded.grid_ == fitted.grid_
    assert loaded.n_clusters_ == fitted.n_clusters_
    assert loaded.fidelity_ == fitted.fidelity_
    assert loaded.majority_ == fitted.majority_
    assert loaded.classes_ == fitted.classes_
    assert list(loaded.rules_) == list(fitted.rules_)
    assert str(loaded.rules_) == str(fitted.rules_)
    assert str(loaded.describe(x)) == str(fitted.describe(x))
    np.testing.assert_array_equal(loaded.predict(x), fitted.predict(x))
    assert [str(e) for e in loaded.explain(x)] == [str(e) for e in fitted.explain(x)]
    for data in (folder / "manifest.json").read_text(encoding="utf-8"), fitted.rules_.to_json():
        json.loads(data, parse_constant=pytest.fail)


@pytest.mark.parametrize("changed", [{"aggregation": "mean"}, {"activation": "tanh"}])
def test_a_model_that_has_only_the_weights_is_another(fitted, model, tmp_path, changed):
    fitted.save(tmp_path)
    inputs = keras.Input((None, 2), ragged=True)
    outputs = keras.layers.Dense(1, activation="sigmoid")(BagLayer(4, **changed)(inputs))
    other = keras_mmil.Model(inputs, outputs)
    other.set_weights(model.get_weights())
    with pytest.raises(ValueError, match="Expected the model whose rules were saved"):
        Explainer.load(tmp_path, other)


def test_saving_replaces_saved_rules_only(fitted, model, x, tmp_path):
    folder = tmp_path / "rules"
    other = Explainer(n_clusters=2, target=fitted.target, verbose=0).fit(model, x)
    other.save(folder)
    (folder / "notes.txt").write_text("mine")
    fitted.save(folder)
    assert Explainer.load(folder, model).n_clusters_ == fitted.n_clusters_
    assert len(list(folder.iterdir())) == 3
    assert (folder / "notes.txt").read_text() == "mine"
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match=r"new or empty folder.*foreign"):
        fitted.save(foreign)
    (foreign / "manifest.json").write_text('{"format": "another"}')
    with pytest.raises(ValueError, match="foreign"):
        fitted.save(foreign)
    with pytest.raises(ValueError, match=r"a folder. Received: .*thesis.tex', a file"):
        fitted.save(foreign / "thesis.tex")


class Killed(BaseException):
    pass


def save_and_be_killed(explainer, folder, n_files):
    """A save that is killed when so many files are whole, and the next one is half written."""
    replace, n_replaced = os.replace, iter(range(10))

    def replace_or_die(source, target):
        if next(n_replaced) == n_files:
            content = Path(source).read_bytes()
            Path(source).write_bytes(content[: len(content) // 2])
            raise Killed
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace_or_die)
        patch.setattr(Path, "unlink", lambda path, missing_ok=False: None)  # the dead do not tidy
        with pytest.raises(Killed):
            explainer.save(folder)


def make_older(folder):
    """As if six hours had passed."""
    for path in folder.iterdir():
        os.utime(path, (path.stat().st_mtime - 6.1 * 3600,) * 2)


@pytest.fixture(scope="module")
def fitted_before(fitted, model, x):
    return Explainer(n_clusters=2, target=fitted.target, verbose=0).fit(model, x)


@pytest.mark.parametrize("n_files", [0, 1])
def test_a_killed_first_save_is_no_obstacle(fitted, fitted_before, model, x, tmp_path, n_files):
    save_and_be_killed(fitted_before, tmp_path, n_files)
    assert len(list(tmp_path.iterdir())) == n_files + 1
    with pytest.raises(FileNotFoundError, match=r"manifest.json"):
        Explainer.load(tmp_path, model)
    fitted.save(tmp_path)
    np.testing.assert_array_equal(Explainer.load(tmp_path, model).predict(x), fitted.predict(x))
    make_older(tmp_path)
    fitted.save(tmp_path)  # what is left is removed when nobody can be at work on it
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".npz"}
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("n_files", [0, 1])
def test_a_killed_save_leaves_the_older_rules(fitted, fitted_before, model, tmp_path, n_files):
    fitted_before.save(tmp_path)
    save_and_be_killed(fitted, tmp_path, n_files)
    assert Explainer.load(tmp_path, model).n_clusters_ == fitted_before.n_clusters_
    fitted.save(tmp_path)
    assert Explainer.load(tmp_path, model).n_clusters_ == fitted.n_clusters_


@pytest.mark.parametrize(
    "name",
    [
        "arrays-of-mine.npz",
        "arrays-0123456789abcdef.npz",  # not the checksum of its content
        "part-1.txt",
        "part-0123456789abcdef-thesis.tex",
        "part-0123456789abcdef-arrays-of-mine.npz",
    ],
)
def test_files_of_the_user_are_kept(fitted, fitted_before, model, tmp_path, name):
    mine, folder = tmp_path / name, tmp_path / "rules"
    np.savez(mine.with_suffix(".npz"), mine=[1, 2])
    mine.with_suffix(".npz").rename(mine)
    content = mine.read_bytes()
    with pytest.raises(ValueError, match=r"new or empty folder"):
        fitted.save(tmp_path)
    fitted_before.save(folder)
    mine = mine.rename(folder / name)
    fitted.save(folder)
    assert mine.read_bytes() == content
    assert len(list(folder.iterdir())) == 3
    # Nor is it removed where a manifest was edited to name it as its own.
    spoil(folder, lambda manifest: manifest["arrays"].update(file=f"../{folder.name}/{name}"))
    fitted_before.save(folder)
    assert mine.read_bytes() == content
    assert Explainer.load(folder, model).n_clusters_ == fitted_before.n_clusters_


def test_a_save_leaves_what_another_is_about_to_name(fitted, fitted_before, model, tmp_path):
    save_and_be_killed(fitted_before, tmp_path, 1)  # but only delayed, say
    arrays = next(tmp_path.glob("arrays-*.npz"))
    assert arrays.stem == f"arrays-{hashlib.sha256(arrays.read_bytes()).hexdigest()[:16]}"
    fitted.save(tmp_path)
    assert arrays.exists()


def test_rules_of_another_model(fitted, tmp_path):
    fitted.save(tmp_path)
    other = make_model()
    other.set_weights([w + 1e-6 for w in other.get_weights()])
    with pytest.raises(
        ValueError, match=f"the weights it had then. Received: model='{other.name}'"
    ):
        Explainer.load(tmp_path, other)


def test_missing_rules(model, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere/manifest.json"):
        Explainer.load(tmp_path / "nowhere", model)


def spoil(folder, change):
    """Change a manifest, and its checksum, too."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    head = {name: manifest.pop(name) for name in ("format", "version", "sha256")}
    change(manifest)
    content = json.dumps(manifest, sort_keys=True).encode()
    head["sha256"] = hashlib.sha256(content).hexdigest()
    path.write_text(json.dumps(head | manifest), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m["fitted"].pop("levels"), "manifest.json.*damaged: KeyError.*levels"),
        (lambda m: m.update(arrays=3), "damaged: TypeError"),
        (lambda m: m["arrays"].update(sha256="0"), "arrays-.*damaged: its checksum differs"),
        (lambda m: m["fitted"]["levels"][0]["rules"][0].update(extra=1), "damaged: TypeError"),
        (lambda m: m["fitted"].update(extra=1), "damaged: TypeError"),
        (lambda m: m["fitted"].pop("fidelity"), "damaged: TypeError.*fidelity"),
        (lambda m: m["parameters"].update(extra=1), "damaged: ValueError.*its parameters are"),
    ],
)
def test_damaged_manifest(fitted, model, tmp_path, change, match):
    fitted.save(tmp_path)
    spoil(tmp_path, change)
    with pytest.raises(ValueError, match=match) as error:
        Explainer.load(tmp_path, model)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"version": 2}, r"version 3.*again. Received: version=2 in .*manifest.json"),
        ({"format": "other"}, "a manifest of saved rules"),
        ({"sha256": "0"}, "manifest.json', damaged: its checksum differs"),
        ({"library": "0.0"}, "manifest.json', damaged: its checksum differs"),
    ],
)
def test_changed_manifest(fitted, model, tmp_path, change, match):
    fitted.save(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change))
    with pytest.raises(ValueError, match=match):
        Explainer.load(tmp_path, model)


def test_damaged_files(fitted, model, tmp_path):
    fitted.save(tmp_path)
    arrays = next(tmp_path.glob("*.npz"))
    content = arrays.read_bytes()
    arrays.write_bytes(content[:-10])
    with pytest.raises(ValueError, match="damaged: its checksum differs"):
        Explainer.load(tmp_path, model)
    arrays.unlink()
    with pytest.raises(FileNotFoundError, match=arrays.name):
        Explainer.load(tmp_path, model)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match=r"manifest.json', damaged"):
        Explainer.load(tmp_path, model)


def test_function_as_target_is_not_saved(model, x, tmp_path):
    middle = median_target(model, x)[1]

    def target(outputs):
        return (outputs[:, 0] > middle).astype(int)

    fit = Explainer(max_clusters=3, target=target, verbose=0).fit(model, x)
    fit.save(tmp_path)
    with pytest.raises(ValueError, match=r"not saved.*Received: target=None"):
        Explainer.load(tmp_path, model)
    loaded = Explainer.load(tmp_path, model, target=target)
    assert loaded.fidelity(x) == fit.fidelity(x)
    assert loaded.target is target


# Callback ---------------------------------------------------------------------------------------


def low(outputs):
    """A target for networks that are hardly trained: the lower half of the outputs."""
    return (outputs[:, 0] < np.median(outputs)).astype(int)


def test_extraction_at_the_end_of_training():
    (x, y), model = make_data(), make_model()
    extractor = RuleExtractor(x, validation_data=(x, y), max_clusters=3, target=low, verbose=0)
    with pytest.raises(NotFittedError, match="Received: explainer_=None"):
        _ = extractor.explainer_
    history = model.fit(x, y, epochs=1, verbose=0, callbacks=[extractor])
    assert "val_fidelity" not in history.history
    first = extractor.explainer_
    assert first.fidelity(x) == first.fidelity_
    model.fit(x, y, epochs=1, verbose=0, callbacks=[extractor])
    assert extractor.explainer_ is not first
    assert extractor.explainer_.fidelity(x) > 0.5


def test_extraction_every_few_epochs(tmp_path):
    (x, y), model = make_data(), make_model()
    extractor = RuleExtractor(x, x, every=2, n_clusters=3, target=low, verbose=0)
    log = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    callbacks = [extractor, log]
    logs = model.fit(x, y, epochs=4, verbose=0, callbacks=callbacks).history
    history = logs["val_fidelity"]
    np.testing.assert_array_equal(np.isnan(history), [True, False, True, False])
    assert history[3] == extractor.explainer_.fidelity_
    by_network = low(model.predict(x, verbose=0))
    assert logs["val_fidelity_majority"][3] == max(by_network.mean(), 1 - by_network.mean())
    with open(tmp_path / "log.csv", encoding="utf-8") as file:
        logged = [float(row["val_fidelity"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(logged, history)


def test_training_is_the_same_with_extraction(x):
    y = make_data()[1]
    target = median_target(make_model(), x)
    extractor = RuleExtractor(x, x, every=1, n_clusters=3, target=target, verbose=0)
    weights = []
    for callbacks in ([], [extractor]):
        model = make_model()
        model.fit(x, y, epochs=2, verbose=0, callbacks=callbacks)
        weights.append([v.numpy() for v in (*model.variables, *model.optimizer.variables)])
    for plain, extracted in zip(*weights, strict=True):
        np.testing.assert_array_equal(plain, extracted)


def test_extraction_on_its_own(model, x):
    extractor = RuleExtractor(x, x, max_clusters=3, target=median_target(model, x), verbose=0)
    assert extractor.extract(model) is extractor.explainer_


def test_wrong_arguments_are_found_before_training(x):
    with pytest.raises(ValueError, match="Received: every=0"):
        RuleExtractor(x, every=0)
    with pytest.raises(TypeError, match="max_cluster"):
        RuleExtractor(x, max_cluster=3)
    for wrong in ({"n_init": 0}, {"metric": "cosine"}, {"max_rows": 1.5}, {"n_jobs": 0}):
        with pytest.raises(ValueError, match=f"Received: {next(iter(wrong))}="):
            RuleExtractor(x, **wrong)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_clusters": (3, 3)}, r"each of 1 bag-layers.*n_clusters=\(3, 3\)"),
        ({"n_clusters": 500}, "at least 500 rows to cluster at level 'u'. Received: "),
        ({"features": "presence"}, "features='presence'"),
        ({"features": ("count", "count")}, "each of 1 bag-layers"),
        ({"class_names": ("a", "b", "c"), "target": (0, 0.5)}, "2 classes. Received: class_names="),
        ({"target": 3}, "target=3"),
        ({"target": lambda outputs: outputs}, "integer labels"),
        ({"target": None, "x": make_data(depth=2)[0]}, "nesting of the model's input.*x.shape"),
        ({"validation_data": make_data(depth=2)}, r"Received: x_valid.shape=\(40"),
        ({"validation_data": None, "x": make_data(1)[0]}, "validation_fraction=0.2"),
        ({"validation_data": None, "x": "stream"}, "x_valid where x is a Dataset"),
        ({"validation_data": "stream of others"}, "Received: a batch of x_valid.shape"),
    ],
)
def test_what_does_not_fit_is_found_before_training(arguments, match, x):
    """Not after the last epoch, when the history would be lost."""
    model = make_model()
    weights = model.get_weights()
    y = make_data()[1]
    streams = {
        "stream": batches.to_dataset(x, batch_size=9, shuffle=False),
        "stream of others": batches.to_dataset(make_data(depth=2)[0], batch_size=9, shuffle=False),
    }
    settings = {"x": x, "validation_data": (x, y), "target": low, "verbose": 0, **arguments}
    for name in ("x", "validation_data"):
        if isinstance(settings[name], str):
            settings[name] = streams[settings[name]]
    with pytest.raises(ValueError, match=match):
        model.fit(x, y, epochs=2, verbose=0, callbacks=[RuleExtractor(**settings)])
    assert int(model.optimizer.iterations) == 0
    for now, before in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(now, before)


class Diverged(keras.callbacks.Callback):
    """Makes the weights NaN after some epochs, and sound ones again after the others."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def on_epoch_end(self, epoch, logs=None):
        bad = np.nan if epoch in self.epochs else 0.5
        self.model.set_weights([np.full_like(w, bad) for w in self.model.get_weights()])


def test_an_extraction_that_fails_does_not_lose_the_training(x):
    y, model = make_data()[1], make_model()
    extractor = RuleExtractor(x, x, n_clusters=2, target=low, verbose=0)
    with pytest.warns(UserWarning, match="No rules were extracted.*ValueError: .*NaN"):
        history = model.fit(x, y, epochs=2, verbose=0, callbacks=[Diverged([1]), extractor])
    assert history.epoch == [0, 1]
    with pytest.raises(RuntimeError, match=r"`extract\(model\)` tries again.*NaN") as raised:
        _ = extractor.explainer_
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="NaN"):
        extractor.extract(model)
    sound = make_model()
    assert extractor.extract(sound) is extractor.explainer_


def test_an_extraction_that_fails_is_tried_again(x):
    y, model = make_data()[1], make_model()
    extractor = RuleExtractor(x, x, every=1, n_clusters=2, target=low, verbose=0)
    with pytest.warns(UserWarning, match="No rules were extracted") as warned:
        history = model.fit(x, y, epochs=3, verbose=0, callbacks=[Diverged([0, 1]), extractor])
    logged = history.history["val_fidelity"]
    np.testing.assert_array_equal(np.isnan(logged), [True, True, False])
    assert logged[2] == extractor.explainer_.fidelity_
    assert sum("No rules were extracted" in str(each.message) for each in warned) == 2


# Pictures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_grid_picture(depth, tmp_path):
    x, _ = make_data(60, depth)
    model = make_model(depth)
    fit = Explainer(max_clusters=3, ccp_alpha=0, verbose=0, target=median_target(model, x))
    fit.fit(model, x)
    figure = plot_grid(fit, tmp_path / "grid.png")
    assert (tmp_path / "grid.png").stat().st_size > 1000
    figures = f"{100 * fit.fidelity_:.2f} %; most frequent class: {100 * fit.majority_:.2f} %"
    assert f"(chosen: {figures})" in figure.get_suptitle()
    panels = [ax for ax in figure.axes if ax.get_xlabel()]
    assert len(panels) == max(1, depth - 1)
    if depth == 2:
        shown = {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text()
                 for t in panels[0].texts}  # fmt: skip
        for point in fit.grid_:
            column, row = (k - 2 for k in point.n_clusters)
            assert shown[column, row] == f"{100 * point.fidelity:.1f}"


def test_grid_picture_of_some_combinations():
    """Those that were not tried are left blank."""
    fidelities = {(2, 2): 0.5, (2, 9): 0.625, (9, 2): 0.75, (4, 3): 0.9}
    grid = tuple(GridPoint(ks, fidelity, 5) for ks, fidelity in fidelities.items())
    fit = SimpleNamespace(grid_=grid, n_clusters_=(4, 3), fidelity_=0.9, majority_=0.5)
    panel = plot_grid(fit).axes[0]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["2", "4", "9"]
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["2", "3", "9"]
    shown = {text.get_position(): text.get_text() for text in panel.texts}
    assert shown == {(0, 0): "50.0", (0, 2): "62.5", (2, 0): "75.0", (1, 1): "90.0"}


@pytest.mark.parametrize("depth", [1, 2])
def test_grid_picture_of_many_combinations(depth):
    """Numbers on the axes do not overlap."""
    grid = tuple(GridPoint((k,) * depth, k / 100, 5) for k in range(2, 51))
    fit = SimpleNamespace(grid_=grid, n_clusters_=(50,) * depth, fidelity_=0.5, majority_=0.5)
    panel = plot_grid(fit).axes[0]
    for axis in (panel.xaxis, panel.yaxis)[:depth]:
        names = [tick.get_text() for tick in axis.get_ticklabels()]
        assert names == [str(k) for k in range(2, 51, 3)]


@pytest.mark.parametrize("form", ["bags", "clouds"])
def test_pictures_of_clouds(form, tmp_path):
    """Green are the points that decide; and what has to be absent is where others have it."""
    x, y = synthetic.load_clouds(60, 20, seed=1)
    model = (zoo.pointcloud_mmil if form == "bags" else zoo.pointcloud_mil)(
        4, equivariant_units=(8, 8), dense_units=8
    )
    bags = tf.RaggedTensor.from_tensor(x)
    if form == "bags":
        bags = tf.RaggedTensor.from_tensor(clouds.rotations(x, 2), ragged_rank=2)
    model.fit(bags, y, epochs=4, batch_size=20, verbose=0)
    median = np.median(model.predict(bags, verbose=0)[:, 0])
    fit = Explainer(n_clusters=6, features="frequency", target=(0, median), verbose=0)
    fit.fit(model, bags)
    figure = plot_clouds(fit, bags[:5], bags, titles=list("abcde"), path=tmp_path / "clouds.png")
    assert (tmp_path / "clouds.png").stat().st_size > 1000
    labels = fit.labels(bags)[0]
    for i, explanation in enumerate(fit.explain(bags[:5])):
        part, reasons = explanation.top_bag, [explanation.top_bag.clause]
        if form == "bags":
            for role in ("decides", "limited", "checked"):
                of_role = [child for child in part.children if child.role == role]
                if of_role:
                    part = of_role[0]
                    reasons.append(f"sub-bag {part.position[-1]} ({role}): {part.clause}")
                    break
        title = figure.subfigs[i].get_suptitle()
        assert title.split() == " ".join(["abcde"[i], *reasons]).split()
        assert max(map(len, title.splitlines())) <= 50
        absent, idle, deciding = (
            np.stack(dots._offsets3d, axis=1) for dots in figure.axes[i].collections
        )
        points, wanted = bags[part.position].numpy(), [child.deciding for child in part.children]
        np.testing.assert_array_equal(deciding, points[wanted])
        np.testing.assert_array_equal(idle, points[np.logical_not(wanted)])
        unwanted = np.isin(labels.flat_values, [int(name[1:]) - 1 for name in part.absent])
        places = bags.flat_values.numpy()[unwanted].tolist()
        assert all(place in places for place in absent.tolist())
        assert len(absent) == 0 if not part.absent else len(absent) >= min(60, len(places))
    with pytest.raises(ValueError, match="points in space"):
        plot_clouds(fit, tf.ragged.constant([[[1.0, 2.0]]], inner_shape=(2,)), bags)


def test_reason_in_a_picture_of_clouds_is_the_rule_and_not_what_is_there():
    """A rule that only wants kinds of clouds to be absent; and a top-bag without clouds."""
    clouds_of = [[[0.0, 0, 0], [1, 1, 1]], [[2.0, 0, 0]]], []
    x = tf.ragged.constant(clouds_of, ragged_rank=2, inner_shape=(3,), dtype=tf.float32)
    few = Rule(1, 1, (Condition("count", 1, high=0.5), Condition("count", 2, high=1.5)), 1, 1, 1)
    some = Rule(0, 0, (Condition("occurrence", 0, low=0.5),), 1, 1, 1)
    names = ("u1", "u2"), ("v1", "v2", "v3"), ("chair", "table")

    def part(level, position, label, role, rule=None, children=()):
        clause = rule and rule.clause(names[level - 1], names[level])
        own = level, ("instance", "sub-bag", "top-bag")[level], position, label
        about = {"rule": rule, "clause": clause, "children": children, "title": str(position[-1])}
        return Part(*own, names[level][label], None, 1.0, role, **about)

    clouds_ = (
        part(1, (0, 0), 0, "checked", some, (part(0, (0, 0, 0), 0, "decides"),) * 2),
        part(1, (0, 1), 2, "limited", some, (part(0, (0, 1, 0), 0, "decides"),)),
    )
    explanations = [
        Explanation(part(2, (i,), 1, None, few, children), 1, "table")
        for i, children in enumerate((clouds_, ()))
    ]
    fit = SimpleNamespace(
        explain=lambda _: explanations,
        labels=lambda _: [tf.ragged.constant([[[0, 0], [0]], []], ragged_rank=2)],
        levels_=[SimpleNamespace(rules=SimpleNamespace(member_names=names[0]))],
    )
    figure = plot_clouds(fit, x, x)
    of_clouds, of_nothing = (panel.get_suptitle().replace("\xa0", " ") for panel in figure.subfigs)
    assert of_clouds == "0\ntable ← c_v2 ≤ 0, c_v3 ≤ 1.\nsub-bag 1 (limited): v1 ← o_u1=1."
    assert of_nothing == "1\ntable ← c_v2 ≤ 0, c_v3 ≤ 1."
    drawn = [np.stack(dots._offsets3d, axis=1).tolist() for dots in figure.axes[0].collections]
    assert drawn == [[], [], [[2, 0, 0]]]
    assert not figure.axes[1].collections


def test_clauses_are_wrapped_between_conditions():
    clause = "v1 ← f_u9 ∈ (1.653, 11.22] %, f_u10 ≤ 12.7 %, o_in front=0."
    wrapped = [line.replace("\xa0", " ") for line in wrap_clause(clause, 12).splitlines()]
    conditions = ["f_u9 ∈ (1.653, 11.22] %,", "f_u10 ≤ 12.7 %,", "o_in front=0."]
    assert wrapped == ["v1 ←", *conditions]
    assert wrap_clause(clause, 80).replace("\xa0", " ") == clause


@pytest.mark.parametrize("names", [("low", "high"), ("0", "1")])
def test_correspondence_picture(fitted, x, tmp_path, names):
    """Bars lie beside long names."""
    signs = x.with_values((x.values[:, 0] > 0).numpy().astype(int))
    description = fitted.describe(x, instance_labels=signs, label_names={"instance": names})[0]
    figure = plot_correspondence(description, tmp_path / "labels.png")
    assert (tmp_path / "labels.png").exists()
    ax, lying = figure.axes[0], names[0] == "low"
    ticks = ax.get_yticklabels() if lying else ax.get_xticklabels()
    assert [tick.get_text() for tick in ticks] == list(names)
    sizes = [bar.get_width() if lying else bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(sizes, 100 * description.table[0] / description.table[0].sum())
    assert description.names[0] in figure.axes[0].get_title()
    with pytest.raises(ValueError, match="instances without a table"):
        plot_correspondence(fitted.describe(x)[0])


def test_correspondence_of_many_clusters_is_a_map(tmp_path):
    """Rows are the clusters, sorted by their most frequent label."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 50, (30, 20))
    table[7] = 0  # a cluster without rows
    names, labels = tuple(f"u{i + 1}" for i in range(30)), tuple(f"kind {i}" for i in range(20))
    needed = (False, *[True] * 29)
    description = LevelDescription(0, "instance", names, np.full(30, 1 / 30), needed, table, labels)
    figure = plot_correspondence(description, tmp_path / "labels.png")
    assert (tmp_path / "labels.png").exists()
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(labels)
    order = [names.index(tick.get_text().split()[0]) for tick in ax.get_yticklabels()]
    assert sorted(order) == list(range(30))
    majority = np.maximum(description.majority, 0)[order]
    assert (np.diff(majority) >= 0).all()
    expected = 100 * table[order] / np.maximum(table[order].sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(ax.images[0].get_array(), expected)
    numbers = [text.get_text() for text in ax.texts]
    assert numbers == [f"{share:.0f}" for share in expected[expected >= 10]]
    colours = {label.get_text().split()[0]: label.get_color() for label in ax.get_yticklabels()}
    assert colours["u1"] != colours["u2"] == "black"


@pytest.mark.parametrize(
    ("package", "call"),
    [("matplotlib.figure", plot_grid), ("pandas", lambda fit: fit.to_dataframe())],
)
def test_missing_extra(fitted, monkeypatch, package, call):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ImportError, match=r"keras-mmil\[report\]"):
        call(fitted)
