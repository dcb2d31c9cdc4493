"""Experiments on records: who is in which part, and what the schema has seen."""

import pytest

from keras_mmil import zoo
from keras_mmil.datasets import molecules, mutagenesis, recipes

KEYS = [
    "mutagenesis-first-100",
    "mutagenesis-folds",
    "recipes",
    "trains",
    "mutag",
    "mutagenicity",
    "nci1",
    "churn-with-orders",
    "churn-some-without",
]


@pytest.mark.parametrize("key", KEYS)
def test_made_up_customers_for_all(key):
    data = zoo.registry[key].load(seed=1, limit=20, source="synthetic")
    assert [len(part.y) for part in (data.train, data.valid, data.test)] == [20] * 3
    assert not data.explainer or key.startswith("churn")
    assert data.class_names == ("False", "True")
    assert "orders.items.price" in data.train.x
    assert "churned" not in data.train.x
    assert data.build_arguments["schema"].n_records == 20


def many_molecules(n):
    """Molecules that are told from each other by a number."""
    return [
        {"ind1": 0, "inda": 1, "logp": 1.5, "lumo": float(i), "mutagenic": i % 2, "atoms": []}
        for i in range(n)
    ]


def numbers(part):
    return part.x["lumo"].numpy().astype(int).tolist()


def test_the_first_100_and_the_last_88(monkeypatch):
    monkeypatch.setattr(mutagenesis, "load", lambda: many_molecules(188))
    experiment = zoo.registry["mutagenesis-first-100"]
    seen = []
    for seed in (0, 1):
        data = experiment.load(seed=seed)
        train, valid, test = (numbers(part) for part in (data.train, data.valid, data.test))
        assert test == list(range(100, 188))
        assert sorted(train) == list(range(100))
        assert len(valid) == 20
        rule_data = data.rule_data()
        of_rules = rule_data.x["lumo"].numpy().astype(int).tolist()
        assert sorted([*of_rules, *valid]) == list(range(100))  # nothing in both
        assert rule_data.x_valid["lumo"].numpy().astype(int).tolist() == valid
        assert data.test.y.tolist() == [i % 2 for i in test]
        seen.append(valid)
    assert set(seen[0]) != set(seen[1])


def test_folds(monkeypatch):
    monkeypatch.setattr(mutagenesis, "load", lambda: many_molecules(60))
    experiment = zoo.registry["mutagenesis-folds"]
    tests = []
    for seed in range(10):
        data = experiment.load(seed=seed)
        train, valid, test = (set(numbers(part)) for part in (data.train, data.valid, data.test))
        assert len(test) == 6
        assert not test & (train | valid)
        assert train | valid | test == set(range(60))
        tests += test
    assert sorted(tests) == list(range(60))  # each once
    assert set(numbers(experiment.load(seed=10).test)) != set(tests[:6])


def test_no_schema_has_seen_the_test_records(monkeypatch):
    found = [
        {"id": i, "ingredients": ["salt", f"spice {i}"], "cuisine": "ab"[i % 2]} for i in range(40)
    ]
    monkeypatch.setattr(recipes, "load", lambda: found)
    data = zoo.registry["recipes"].load()
    schema = data.build_arguments["schema"]
    assert len(data.test.y) == 20  # half of so few
    known = set(schema["ingredients[]"].seen.counts)
    assert not known & {f"spice {i}" for i in range(20, 40)}
    assert schema["ingredients[]"].kind == "text"
    assert "salt" in known


def test_molecules_are_split_at_random(monkeypatch):
    atoms = [{"element": "C", "bonds": []}, {"element": "O", "bonds": []}]
    found = [{"label": "ab"[i % 2], "atoms": atoms[: i % 3]} for i in range(50)]
    monkeypatch.setattr(molecules, "load", lambda name, radius: found)
    data = zoo.registry["mutag"].load()
    assert [len(part.y) for part in (data.train, data.valid, data.test)] == [32, 8, 10]
    assert data.test.y.sum() == 5
    assert data.class_names == ("a", "b")


@pytest.mark.data
def test_trains_are_all_in_every_part(data_dir):
    data = zoo.registry["trains"].load()
    for part in (data.train, data.valid, data.test):
        assert part.y.tolist() == [0] * 10 + [1] * 10
    assert data.class_names == ("east", "west")
    assert "cars.train_id" not in data.train.x


@pytest.mark.parametrize("key", ["churn-with-orders", "churn-some-without"])
def test_customers(key):
    experiment = zoo.registry[key]
    data = experiment.load()
    assert len(data.test.y) == 1000
    assert len(data.train.y) + len(data.valid.y) == 4000
    sizes = data.train.x["orders.channel"].row_lengths().numpy()
    share = (sizes == 0).mean()
    assert share == pytest.approx(0.3 if "without" in key else 0, abs=0.03)
    other = experiment.load(seed=1)
    assert (other.test.y != data.test.y).any()
