"""Saved explainers that were damaged or forged: refused, or the same as before."""

import copy
import dataclasses
import functools
import hashlib
import io
import json
import warnings
from dataclasses import replace

import keras
import numpy as np
import pytest
from record_networks import read as read_customers
from seals import reseal

import keras_mmil
from keras_mmil import ragged
from keras_mmil.layers import BagLayer
from keras_mmil.rules import Explainer, storage
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.trees.level import all_clusters

CLASSES = ("cold", "mild", "hot")


DEFAULTS = Explainer().get_params()


def classes(outputs):
    """Three classes of equal size."""
    return np.searchsorted(np.quantile(outputs[:, 0], [1 / 3, 2 / 3]), outputs[:, 0])


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((None, None, 2), ragged=True)
    x = BagLayer(3)(BagLayer(4)(inputs))
    return keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 4, 40)]
    sizes.append(rng.integers(1, 4, sizes[0].sum()))
    return ragged.from_flat(rng.normal(size=(sizes[1].sum(), 2)).astype(np.float32), sizes)


@pytest.fixture(scope="module")
def fitted(model, x):
    return Explainer(n_clusters=3, target=classes, class_names=CLASSES, verbose=0).fit(model, x)


@pytest.fixture
def folder(fitted, tmp_path):
    fitted.save(tmp_path)
    return tmp_path


open_network = functools.cache(Network)


def read(folder, model, target=classes):
    return storage.read(folder, open_network(model), DEFAULTS, target)


def read_or_refuse(folder, model, target=classes):
    """What is read; None where it is refused, with the name of the file or folder."""
    try:
        return read(folder, model, target).fitted
    except (ValueError, FileNotFoundError) as error:
        refusal = str(error)
    assert str(folder) in refusal
    return None


def content(explainer_or_fitted):
    """All that was learned, as one text to compare."""
    levels = getattr(explainer_or_fitted, "levels", None) or explainer_or_fitted.levels_
    arrays = [
        values.tobytes()
        for part in (*all_clusters(levels), *(level.tree for level in levels))
        for values in (getattr(part, field.name) for field in dataclasses.fields(part))
        if isinstance(values, np.ndarray)
    ]
    return str([*map(str, levels), arrays])


def files_of(folder):
    """The paths of the manifest and of the arrays."""
    return folder / "manifest.json", next(folder.glob("arrays-*.npz"))


def rewrite(folder, change_manifest=None, change_arrays=None):
    """Change what is saved, and make all checksums fit."""
    path, arrays_path = files_of(folder)

    def change(manifest):
        if change_arrays:
            arrays = dict(np.load(arrays_path))
            change_arrays(arrays)
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)
            arrays_path.write_bytes(buffer.getvalue())
            manifest["arrays"]["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
        if change_manifest:
            change_manifest(manifest)

    reseal(path, change)


def test_what_is_saved_is_what_was_learned(fitted, model, folder):
    saved = read(folder, model)
    assert content(saved.fitted) == content(fitted)
    assert saved.parameters == fitted.get_params()


def test_projections_are_saved(model, x, tmp_path):
    fit = Explainer(n_clusters=3, target=(0, 0.5), metric="sensitivity", verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all of one class, perhaps
        fit.fit(model, x).save(tmp_path)
    assert all(clusters.projection is not None for clusters in fit.clusters_)
    loaded = Explainer.load(tmp_path, model)
    assert content(loaded) == content(fit)
    np.testing.assert_array_equal(loaded.predict(x), fit.predict(x))


def test_arguments_as_arrays_are_saved_as_tuples(fitted, model, tmp_path):
    fit = copy.copy(fitted).set_params(class_names=np.array(CLASSES))
    fit.save(tmp_path)
    assert read(tmp_path, model).parameters["class_names"] == CLASSES
    fit.set_params(verbose=model)
    with pytest.raises(ValueError, match=r"JSON can hold. Received: parameters.verbose=<Model"):
        fit.save(tmp_path)
    assert read(tmp_path, model).parameters["class_names"] == CLASSES


def damage(data, rng):
    """Flip bits, drop, double or swap bytes somewhere in a file."""
    start, other = sorted(rng.integers(0, len(data) - 20, 2))
    n = int(rng.integers(1, 20))
    kind = rng.integers(5)
    if kind == 0:
        return data[:start] + bytes([data[start] ^ int(rng.integers(1, 256))]) + data[start + 1 :]
    if kind == 1:
        return data[:start]
    if kind == 2:
        return data[:start] + data[start + n :]
    if kind == 3:
        return data[:start] + data[start : start + n] + data[start:]
    n = min(n, other - start)
    return (
        data[:start]
        + data[other : other + n]
        + data[start + n : other]
        + data[start : start + n]
        + data[other + n :]
    )


@pytest.mark.parametrize("which", [0, 1])
def test_damaged_bytes_are_refused_or_harmless(fitted, model, folder, which):
    path, rng = files_of(folder)[which], np.random.default_rng(which)
    data, refused = path.read_bytes(), 0
    for _ in range(300):
        damaged = damage(data, rng)
        path.write_bytes(damaged)
        loaded = read_or_refuse(folder, model)
        refused += loaded is None
        assert loaded is None or content(loaded) == content(fitted)
    assert refused > 200


def leaves(data, path=()):
    """The paths of all entries in JSON."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))


def parent_of(data, path):
    for key in path[:-1]:
        data = data[key]
    return data


def test_swapped_entries_are_refused(model, folder):
    """Class names, rules, conditions: any two entries of the manifest that differ."""
    path, rng = files_of(folder)[0], np.random.default_rng(2)
    text = path.read_text(encoding="utf-8")
    paths = list(leaves(json.loads(text)))
    for _ in range(200):
        manifest = json.loads(text)
        one, other = (paths[i] for i in rng.choice(len(paths), 2))
        if one == other[: len(one)] or other == one[: len(other)]:
            continue
        a, b = parent_of(manifest, one), parent_of(manifest, other)
        a[one[-1]], b[other[-1]] = b[other[-1]], a[one[-1]]
        if manifest == json.loads(text):
            continue
        path.write_text(json.dumps(manifest), encoding="utf-8")
        assert read_or_refuse(folder, model) is None


def forge_each(folder, paths, seed=3):
    """Put something wrong at each path in the manifest of a folder in turn, and yield the path."""
    path, rng = files_of(folder)[0], np.random.default_rng(seed)
    text = path.read_text(encoding="utf-8")
    for p in paths:
        wrong = WRONG[rng.integers(len(WRONG))]

        def change(manifest, p=p, wrong=wrong):
            parent_of(manifest, p)[p[-1]] = wrong

        path.write_text(text, encoding="utf-8")
        rewrite(folder, change)
        yield p


def paths_of(folder):
    """The paths of all entries of a manifest."""
    return list(leaves(json.loads(files_of(folder)[0].read_text(encoding="utf-8"))))


WRONG = (None, -1, 0, 3, 10**12, 0.5, -1e300, True, "v1", "count", [], [1, 2], {}, {"a": 1})


def test_a_forged_manifest_is_refused_or_can_be_used(model, x, folder):
    """Checksums fit here: nothing else than ValueError comes of any entry, on whatever line."""
    paths = [p for p in paths_of(folder) if p[0] not in ("format", "version", "sha256")]
    accepted = set()
    for p in forge_each(folder, paths):
        if read_or_refuse(folder, model):
            accepted.add(p[0])
    # What no other part depends on.
    assert accepted <= {"library", "parameters", "fitted"}


@pytest.mark.parametrize("name", ["feature", "threshold", "children", "label"])
def test_a_forged_tree_is_refused_or_can_be_used(fitted, model, folder, name):
    """No entry of a tree makes it loop for ever, or reach beyond the arrays."""
    rng, arrays_path = np.random.default_rng(4), files_of(folder)[1]
    saved = arrays_path.read_bytes()
    bags = np.abs(rng.normal(size=(50, 3))).astype(np.float32)
    for _ in range(40):
        arrays_path.write_bytes(saved)

        def change(arrays):
            values = arrays[f"fitted.levels[{rng.integers(2)}].tree.{name}"]
            at = tuple(rng.integers(values.shape))
            values[at] = rng.choice([-2, -1, 0, 1, 2, 3, 1000, *values.ravel().tolist()])

        rewrite(folder, change_arrays=change)
        loaded = read_or_refuse(folder, model)
        for level in loaded.levels if loaded else ():
            assert set(level.tree.predict(bags)) <= set(range(3))


def of_tree(level, name):
    return f"fitted.levels[{level}].tree.{name}"


def of_clusters(level, name):
    return f"fitted.levels[{level}].space.bags[0].{name}"


def cycle(arrays):
    arrays[of_tree(0, "children")][0] = 0


def dtype(arrays):
    arrays[of_tree(1, "label")] = arrays[of_tree(1, "label")].astype(np.float64)


def shape(arrays):
    arrays[of_clusters(0, "centroids")] = arrays[of_clusters(0, "centroids")][:2]


def empty(arrays):
    arrays |= {name: values[:0] for name, values in arrays.items() if ".tree." in name}


def not_finite(arrays):
    arrays[of_clusters(1, "centroids")][0, 0] = np.nan


def shared_child(arrays):
    arrays[of_tree(1, "children")][0] = arrays[of_tree(1, "children")][0, 0]


def missing(arrays):
    del arrays[of_clusters(0, "sizes")]


def superfluous(arrays):
    arrays["more"] = arrays[of_clusters(0, "sizes")]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (cycle, "level 0: children of the tree do not come after their parents"),
        (dtype, r"level 1: label of the tree is of shape \(\d+,\) and dtype float64"),
        (shape, "level 0: sizes is of shape"),
        (empty, r"feature of the tree is of shape \(0,\)"),
        (not_finite, "level 1: centroids is not finite"),
        (shared_child, "level 1: nodes of the tree have no parent, or several"),
        (missing, r"bags\[0\].sizes=.*sizes"),
        (superfluous, "nothing has the arrays .*more"),
    ],
)
def test_forged_arrays(model, folder, change, match):
    rewrite(folder, change_arrays=change)
    with pytest.raises(ValueError, match=f"manifest.json', damaged: .*{match}"):
        read(folder, model)


# Trees of bag-layers, with fields


@pytest.fixture
def saved_records(churn_explainer, tmp_path):
    churn_explainer.save(tmp_path)
    return tmp_path


def read_records(folder, explainer):
    return read(folder, explainer._network.model, None)


@pytest.mark.slow
def test_records_are_saved(churn_explainer, customers, saved_records):
    model = churn_explainer._network.model
    loaded, x = Explainer.load(saved_records, model), read_customers(customers[:40])
    assert content(loaded) == content(churn_explainer)
    kinds = {field.kind for level in loaded.levels_ for field in level.space.fields}
    assert kinds == {"number", "boolean", "category", "text", "time"}
    for ours, theirs in zip(loaded.levels_, churn_explainer.levels_, strict=True):
        assert ours.space.fields == theirs.space.fields
        assert ours.space.columns == theirs.space.columns == ours.rules.columns
        assert (ours.record, ours.word, ours.path) == (theirs.record, theirs.word, theirs.path)
        for bag, other in zip(ours.clusters, theirs.clusters, strict=True):
            assert (bag.level, bag.words, bag.path) == (other.level, other.words, other.path)
    assert loaded.rules_.text(all=True) == churn_explainer.rules_.text(all=True)
    assert loaded.fidelity_by_instances_ == churn_explainer.fidelity_by_instances_
    np.testing.assert_array_equal(loaded.predict(x), churn_explainer.predict(x))
    assert [str(e) for e in loaded.explain(x)] == [str(e) for e in churn_explainer.explain(x)]
    loaded.rename("orders", {"bad": "wrong"})
    assert "positive ← some orders are wrong" in loaded.rules_.text()


def test_values_of_fields_that_are_ints_stay_so(churn_explainer, tmp_path):
    """JSON knows ints and texts, and a category may be either."""
    fit = copy.copy(churn_explainer)
    top = fit.levels_[-1]
    plan, since = top.space.fields
    space = replace(top.space, fields=(replace(plan, values=(7, -1)), since))
    rules = replace(top.rules, columns=space.columns)
    fit.levels_ = (*fit.levels_[:-1], replace(top, space=space, rules=rules))
    fit.save(tmp_path)
    loaded = read_records(tmp_path, churn_explainer).fitted.levels[-1]
    assert loaded.space.fields[0].values == (7, -1)
    assert loaded.space.columns == space.columns


def forged(*path):
    """Sets what is at a path in the levels of a manifest."""
    *path, key, value = path

    def change(manifest):
        parent_of(manifest["fitted"]["levels"], [*path, key])[key] = value

    return change


FIELD = ("space", "fields", 0)
CONDITION = ("rules", "rules", 0, "conditions", 0)


def without_top_bags(manifest):
    del manifest["fitted"]["levels"][-1]


def levels_turned_round(manifest):
    manifest["fitted"]["levels"].reverse()


def one_field_less(manifest):
    del manifest["fitted"]["levels"][1]["space"]["fields"][-1]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (forged(0, *FIELD, "kind", "colour"), "a field is of kind 'colour'"),
        (forged(0, *FIELD, "name", 3), r"levels\[0\].space.fields\[0\].name=3"),
        (forged(0, *FIELD, "values", [1.5]), r"fields\[0\].values\[0\]=1.5"),
        (forged(0, *FIELD, "values", ["a", "a"]), r"values of a field are \('a', 'a'\)"),
        (forged(0, *FIELD, "is_optional", 1), "is_optional=1"),
        (forged(0, *FIELD, "more", 1), "more=1"),
        (forged(-1, "space", "bags", 1, "level", 2), r"bag-layers \[0, 1, 2, 2\]"),
        (forged(-1, "space", "bags", []), "arrays"),
        (forged(1, "space", "bags", 0, "level", 9), "bag-layers"),
        (forged(0, "record", 7), r"rules are of records \[7, 1, 2, 3, 4\]"),
        (forged(0, "record", 1), r"rules are of records \[1, 1, 2, 3, 4\]"),
        (forged(0, "record", -1), r"rules are of records \[-1, 1, 2, 3, 4\]"),
        (without_top_bags, "arrays"),
        (levels_turned_round, r"levels\[0\].*='fitted.levels\[4\]"),
        (one_field_less, "level 1: rules are about"),
        (forged(-1, "rules", "columns", 0, "name", "x"), "level 4: rules are about"),
        (forged(-1, "tree", "n_features", 99), "level 4: a tree is of 99 columns"),
        (forged(-1, *CONDITION, "column", 99), "level 4: a rule has"),
        (forged(-1, *CONDITION, "column", -1), "level 4: a rule has"),
        (forged(2, "space", "bags", 0, "members", 1), "members=1"),
        (forged(2, "space", "bags", 0, "feature", "colour"), "feature='colour'"),
        (forged(2, "word", None), r"levels\[2\].word=None"),
    ],
)
def test_forged_records(churn_explainer, saved_records, change, match):
    rewrite(saved_records, change)
    with pytest.raises(ValueError, match=f"manifest.json', damaged: .*({match})"):
        read_records(saved_records, churn_explainer)


@pytest.mark.slow
def test_any_forged_entry_of_records_is_refused_or_can_be_used(churn_explainer, saved_records):
    paths = [p for p in paths_of(saved_records) if p[:2] == ("fitted", "levels")]
    chosen = np.random.default_rng(3).choice(len(paths), 150, replace=False)
    for _ in forge_each(saved_records, [paths[i] for i in chosen]):
        loaded = read_or_refuse(saved_records, churn_explainer._network.model, None)
        for level in loaded.levels if loaded else ():
            assert level.text(all=True)


# Definitions of clusters


@pytest.fixture(scope="module")
def defined(model, x):
    target = (0, float(np.median(model(x))))
    names = ("width", "height")
    return Explainer(n_clusters=3, target=target, verbose=0, feature_names=names).fit(model, x)


TABLES = [of_clusters(level, "definition.table") for level in range(2)]


def of_definition(*path):
    """Sets what is at a path in the definition of the instances' clusters."""
    return forged(0, "space", "bags", 0, "definition", *path)


def of_sub_bags_too(manifest):
    """Which rules label."""
    lower, upper = manifest["fitted"]["levels"]
    definition = lower["space"]["bags"][0]["definition"] | {"table": TABLES[1]}
    upper["space"]["bags"][0]["definition"] = definition


def one_case_less(manifest):
    del manifest["fitted"]["levels"][0]["space"]["bags"][0]["definition"]["cases"][0]


def without_definition(manifest):
    manifest["fitted"]["levels"][0]["space"]["bags"][0]["definition"] = None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (of_definition("fields", 0, "kind", "colour"), "a field is of kind 'colour'"),
        (of_definition("fields", 1, "name", 2), r"fields\[1\].name=2"),
        (of_definition("cases", [[], [], []]), "there are no definitions"),
        (
            of_definition("cases", 0, [[{"column": 2, "low": 0.0, "high": 1.0}]]),
            "a definition has Cond",
        ),
        (
            of_definition("cases", 0, [[{"column": 0, "low": 2.0, "high": 1.0}]]),
            "a definition has Cond",
        ),
        (of_definition("cases", 0, [[{"column": "x", "low": 0, "high": 1}]]), "column='x'"),
        (of_definition("cases", 0, [3]), r"cases\[0\]\[0\]=3"),
        (of_definition("more", 3), "more=3"),
        (one_case_less, "there are not definitions for each cluster"),
        (without_definition, "nothing has the arrays .*definition.table"),
        (of_sub_bags_too, r"levels\[1\].*definition.table="),
    ],
)
def test_forged_definitions(defined, model, tmp_path, change, match):
    defined.save(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(ValueError, match=f"manifest.json', damaged: .*({match})"):
        read(tmp_path, model, None)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda table: table[:2], r"the table of definitions is of shape \(2, 3\)"),
        (lambda table: table.astype(np.float32), "and dtype float32"),
        (lambda table: table * np.nan, "the table of definitions is not finite"),
        (lambda table: -table, "the table of definitions has weights below 0"),
    ],
)
def test_forged_tables_of_definitions(defined, model, tmp_path, change, match):
    defined.save(tmp_path)

    def changed(arrays):
        arrays[TABLES[0]] = change(arrays[TABLES[0]])

    rewrite(tmp_path, change_arrays=changed)
    with pytest.raises(ValueError, match=f"manifest.json', damaged: .*({match})"):
        read(tmp_path, model, None)


def test_definitions_of_what_rules_label_are_refused(defined, model, tmp_path):
    defined.save(tmp_path)

    def change_arrays(arrays):
        arrays[TABLES[1]] = arrays[TABLES[0]]

    rewrite(tmp_path, of_sub_bags_too, change_arrays)
    with pytest.raises(ValueError, match=r"both rules and definitions are of rows \[0, 1\]"):
        read(tmp_path, model, None)


def test_any_forged_entry_of_definitions_is_refused_or_can_be_used(defined, model, tmp_path):
    defined.save(tmp_path)
    paths = [p for p in paths_of(tmp_path) if "definition" in p]
    assert len(paths) > 20
    for _ in forge_each(tmp_path, paths):
        loaded = read_or_refuse(tmp_path, model, None)
        for level in loaded.levels if loaded else ():
            assert level.text(all=True)
