"""The trained networks in the package: small, as their cards say, and there in a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keras_mmil
from keras_mmil import zoo
from keras_mmil.builders.corpus import look_up
from keras_mmil.cli.own_data import at_random
from keras_mmil.cli.results import METRICS
from keras_mmil.datasets import molecules
from keras_mmil.zoo import _weights

ROOT = Path(__file__).resolve().parents[2]
NAMES = _weights.names()  # those in the package
RECORDS = "mutagenicity"  # from `keras-mmil train`; the others are experiments
NIGHTLY = pytest.mark.nightly
MOST_BYTES = 16e6


def test_the_package_has_files_and_they_are_small():
    names = {"cora", "imdb", "mnist", "modelnet-p100", "mutagenicity", "plants"}
    assert set(NAMES) == names
    files = [
        path for path in _weights.FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
    assert {path.suffix for path in files} == {".json", ".md", ".npz", ".py"}


@pytest.mark.parametrize("name", NAMES)
def test_cards_of_the_package(name, load_benchmark):
    card = zoo.card(name)
    assert card.text == load_benchmark("cards").render(card.facts)  # else: pretrain.py --cards
    if name != RECORDS:
        assert card.facts["settings"]["limit"] is None
        experiment = zoo.registry[card.facts["experiment"]]
        assert card.facts["settings"]["source"] == experiment.sources[0]
    for section in ("Data", "Training", "Figures", "Rules", "Limits", "Not for"):
        assert f"\n## {section}\n" in card.text


# Preparing all reviews and their word vectors takes a quarter of an hour, the rotations of 1,024
# points of each object take gigabytes, and all test images a minute. Papers answer below.
TAKES_LONG = {name: [NIGHTLY] for name in ("imdb", "modelnet-p100", "mnist", "plants", "cora")}


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=TAKES_LONG.get(name, ())) for name in NAMES if name != RECORDS],
)
def test_figures_are_those_of_the_card(name, data_dir):
    found = zoo.load(name)
    settings = found.card.facts["settings"]
    experiment = zoo.registry[settings["experiment"]]
    data = experiment.load(seed=settings["seed"], source=settings["source"])
    tests = [data.test, data.for_testing_rules()]
    model, explainer = found.model, found.explainer
    if data.words is not None:  # the data have ids, not texts, of a larger vocabulary
        model = zoo.imdb_mmil(weights="pretrained")
        explainer = keras_mmil.Explainer.load(_weights.FOLDER / name / "rules", model)
        tokens = [token.encode() for token in data.words.vocabulary]
        new_ids = look_up(tokens, found.model.get_layer("to_bags").vocabulary)
        tests = [t._replace(x=t.x.with_flat_values(new_ids[t.x.flat_values])) for t in tests]
    figures = found.card.figures
    evaluated = model.evaluate(tests[0].x, tests[0].y, verbose=0, return_dict=True)
    assert evaluated[experiment.metric] == pytest.approx(
        figures[METRICS[experiment.metric]], abs=0.002
    )
    rules = explainer.evaluate(tests[1].x, tests[1].y)
    assert rules["accuracy"] == pytest.approx(figures["rule_accuracy"], abs=0.002)
    assert rules["fidelity"] == pytest.approx(figures["fidelity"], abs=0.002)


@pytest.mark.data
@pytest.mark.slow
def test_figures_on_records_are_those_of_the_card(data_dir):
    found, records = zoo.load(RECORDS), molecules.load("Mutagenicity")
    labels = np.array([record[molecules.TARGET] for record in records])
    _, classes = np.unique(labels, return_inverse=True)
    test = at_random(classes, found.card.facts["settings"]["seed"]).test
    outputs = found.predict([records[i] for i in test])
    names = np.array(found.explainer.classes_)
    predicted = names[(outputs[:, 0] > 0.5).astype(int)]
    accuracy = (predicted == labels[test]).mean()
    assert accuracy == pytest.approx(found.card.figures["test_accuracy"], abs=0.002)


@pytest.mark.slow
@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(n, marks=NIGHTLY) for n in NAMES[1:])])
def test_a_fresh_process_answers(name, tmp_path, load_benchmark):
    code = load_benchmark("first_answers").asking(name)  # the benchmark measures how soon
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr
    assert "because" in result.stdout
