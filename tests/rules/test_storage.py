"""Saving and loading, also where a save was interrupted."""

import copy
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
from record_networks import churn_model
from seals import reseal
from trainable_networks import make_data, make_model, median_target

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer, NumberEncoder
from keras_mmil.rules import Explainer, storage
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.storage import difference


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
    assert loaded.rules_.text() == fitted.rules_.text()
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
    reseal(folder / "manifest.json", change)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m["fitted"].pop("levels"), "manifest.json.*damaged: fitted.levels is missing"),
        (lambda m: m.update(arrays=3), "damaged: arrays=3"),
        (lambda m: m["arrays"].update(sha256="0"), "arrays-.*damaged: its checksum differs"),
        (lambda m: m["fitted"]["levels"][0]["rules"].update(extra=1), "rules.extra=1"),
        (lambda m: m["fitted"].update(extra=1), "damaged: fitted.extra=1"),
        (lambda m: m["fitted"].pop("fidelity"), "damaged: fitted.fidelity is missing"),
        (lambda m: m["parameters"].update(extra=1), "damaged: its parameters are"),
    ],
)
def test_damaged_manifest(fitted, model, tmp_path, change, match):
    fitted.save(tmp_path)
    spoil(tmp_path, change)
    with pytest.raises(ValueError, match=match) as error:
        Explainer.load(tmp_path, model)
    assert str(tmp_path) in str(error.value)


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
    with pytest.raises(
        ValueError, match=r"'keras-mmil rules'. Received: .*manifest.json', damaged"
    ):
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


def changed(explainer, record, **changes):
    """The levels, with other clusters of the rows of one bag-layer, or other fields of records."""
    levels = []
    for level in explainer.levels_:
        bags, fields = level.space.bags, level.space.fields
        if "fields" in changes and level.record == record:
            fields = changes["fields"](fields)
        elif "fields" not in changes:
            bags = tuple(replace(b, **changes) if b.level == record else b for b in bags)
        levels.append(replace(level, space=replace(level.space, bags=bags, fields=fields)))
    return levels


def test_the_same_network(churn_explainer):
    assert difference(churn_explainer.levels_, churn_explainer._network) == ""
    assert difference(churn_explainer.levels_, Network(churn_model(compress=False))) == ""


@pytest.mark.parametrize(
    ("record", "changes", "expected"),
    [
        (3, {"path": "calls"}, "bag-layer 3 on 'visits' instead of 'calls'"),
        (
            2,
            {"fields": lambda fields: fields[:1]},
            "orders with days_late (number), note (text) instead of days_late (number)",
        ),
        (
            4,
            {"fields": lambda fields: (replace(fields[0], kind="text"), fields[1])},
            "top-bags with plan (category), since (time) instead of plan (text), since (time)",
        ),
        (
            1,
            {"fields": lambda fields: tuple(replace(f, name=f.name.upper()) for f in fields)},
            "instead of RETURNED (boolean), PRODUCT.KIND (category)",
        ),
    ],
)
def test_networks_of_other_records(churn_explainer, record, changes, expected):
    levels = changed(churn_explainer, record, **changes)
    assert expected in difference(levels, churn_explainer._network)


def test_another_tree_of_as_many_bag_layers(churn_explainer):
    """Visits in orders, not in the record."""
    *inner, top = churn_explainer.levels_
    orders, visits = top.space.bags
    (index,) = [i for i, level in enumerate(inner) if level.record == 2]
    space = inner[index].space
    inner[index] = replace(inner[index], space=replace(space, bags=(*space.bags, visits)))
    levels = (*inner, replace(top, space=replace(top.space, bags=(orders,))))
    assert difference(levels, churn_explainer._network) == (
        "bag-layer 3 in top-bags instead of orders"
    )


def chain(*units, fields=False):
    x = inputs = keras.Input((None,) * len(units) + (2,), ragged=True)
    for n in units:
        x = BagLayer(n)(x)
    if fields:
        age = keras.Input((), name="age")
        x = keras.layers.Concatenate()([x, NumberEncoder(field="age")(age)])
        inputs = [inputs, age]
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


@pytest.mark.parametrize(
    ("units", "fields", "expected"),
    [
        ((3, 5), False, "bag-layer 0 of 3 units instead of 4"),
        ((4, 6), False, "bag-layer 1 of 6 units instead of 5"),
        ((4,), False, "1 bag-layer instead of 2"),
        ((4, 5), True, "top-bags with age (number) instead of no fields"),
        ((4, 5), False, "other weights"),
    ],
)
def test_a_saved_explainer_names_what_differs(chain_explainer, tmp_path, units, fields, expected):
    explainer, model = chain_explainer
    explainer.save(tmp_path)
    assert Explainer.load(tmp_path, model).n_clusters_ == explainer.n_clusters_
    other = chain(*units, fields=fields)
    other.set_weights([weight + 1 for weight in other.get_weights()])
    with pytest.raises(ValueError, match="Expected the model whose rules were saved") as refusal:
        Explainer.load(tmp_path, other)
    assert f"with {expected}" in str(refusal.value)


@pytest.fixture(scope="module")
def chain_explainer():
    model = chain(4, 5)
    values = np.random.default_rng(0).normal(size=(90, 2)).astype("float32")
    x = ragged.from_flat(values, [[3] * 15, [2] * 45])
    median = float(np.median(model(x)))
    return Explainer(n_clusters=2, target=(0, median), n_init=1, verbose=0).fit(model, x), model


def test_equal_weights_but_other_fields(churn_explainer, tmp_path):
    """What a field is called is no weight."""
    other = copy.copy(churn_explainer)
    other.levels_ = changed(churn_explainer, 3, path="calls")
    other.save(tmp_path)
    with pytest.raises(ValueError, match="'visits' instead of 'calls'"):
        storage.read(tmp_path, churn_explainer._network, Explainer().get_params())
