"""Texts, explained by trained runs."""

import keras
import pytest

from keras_mmil import Explainer
from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")


@pytest.fixture(scope="module")
def review_runs(tmp_path_factory):
    """Folders of a run on texts as bags of sentences, and of one as bags of trigrams."""
    folders = []
    for variant in ("mmil", "mil"):
        folders.append(str(tmp_path_factory.mktemp("runs") / variant))
        command = ["run", "imdb", "--source", "opinions", "--model", variant, "--limit", "12"]
        command += ["--epochs", "1", "--max-clusters", "2", "--verbose", "0", "--out", folders[-1]]
        assert main(command) == 0
    return folders


TEXT = "The plot was <great>. And the cast is not good!"
METHODS = {"terminal": "to_text", "markdown": "to_markdown", "html": "to_html"}


def explainer_of(run):
    return Explainer.load(f"{run}/rules", keras.models.load_model(f"{run}/text_model.keras"))


@pytest.mark.slow
def test_explain(review_runs, capsys):
    other = "I saw it. It was awful."
    explainer = explainer_of(review_runs[0])
    explanations, labels = (f([TEXT, other]) for f in (explainer.explain, explainer.predict))
    assert [each.label for each in explanations] == list(labels)
    for form, method in METHODS.items():
        capsys.readouterr()
        command = ["explain", review_runs[0], "--format", form, "--text", TEXT, "--text", other]
        assert main(command) == 0
        printed = capsys.readouterr().out.rstrip("\n")
        for explanation in explanations:
            assert getattr(explanation, method)() in printed
        assert ("<table" in printed) == (form == "html")
        assert ("\\<" in printed) == (form == "markdown")
        assert printed.index("plot") < printed.index("awful")


@pytest.mark.slow
def test_explain_by_two_runs(review_runs, capsys):
    explanations = [explainer_of(run).explain([TEXT])[0] for run in review_runs]
    assert [each.top_bag.level for each in explanations] == [2, 1]
    for form, titles in {
        "terminal": ["--- imdb\n", "--- imdb-mil\n"],
        "markdown": ["### imdb\n", "### imdb-mil\n"],
        "html": ["<th>imdb</th>", "<th>imdb-mil</th>"],
    }.items():
        capsys.readouterr()
        assert main(["explain", *review_runs, "--format", form, "--text", TEXT]) == 0
        printed = capsys.readouterr().out
        assert [printed.count(title) for title in titles] == [1, 1]
        assert printed.index(titles[0]) < printed.index(titles[1])
        for explanation in explanations:
            assert getattr(explanation, METHODS[form])() in printed


@pytest.mark.slow
def test_runs_on_texts_tell_what_stands_for_their_clusters(review_runs):
    for run, words in zip(review_runs, (("phrase", "sentence"), ("phrase",)), strict=True):
        with open(f"{run}/clusters.md", encoding="utf-8") as file:
            table = file.read()
        assert table.count("Clusters of ") == len(words)
        assert all(f"Clusters of {word}s" in table for word in words)
        assert "plot" in table


def test_explain_needs_a_finished_run(tmp_path, capsys):
    assert main(["explain", str(tmp_path), "--text", "Good."]) == 2
    error = capsys.readouterr().err
    assert "Expected the folder of a finished run on texts" in error
    assert str(tmp_path) in error
