"""The benchmarked programs compute the same, also where instances and sub-bags repeat."""

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from keras_mmil.datasets import synthetic
from keras_mmil.zoo.experiments.catalogue import catalogue

FOLDER = Path(__file__).parents[2] / "benchmarks"
COMPETITORS = ["ours", "flat", "naive_ragged", "padded"]


def first_top_bags(workload, n=3):
    """The workload with one small batch."""
    batch = workload.batches[0]
    sub_bags = batch.top_splits[n]
    batch = dataclasses.replace(
        batch,
        instances=batch.instances[: batch.sub_splits[sub_bags]],
        sub_splits=batch.sub_splits[: sub_bags + 1],
        top_splits=batch.top_splits[: n + 1],
        y=batch.y[:n],
    )
    return dataclasses.replace(workload, batches=[batch])


# The padded competitor's masks matter to normalisation, and not to what follows.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Layer 'max_pooling2d.*mask")
@pytest.mark.parametrize(
    "name",
    [
        "ego",
        pytest.param("mnist", marks=pytest.mark.nightly),
        pytest.param("text", marks=pytest.mark.nightly),
        pytest.param("cora", marks=pytest.mark.data),
    ],
)
def test_all_start_with_the_same_losses(load_benchmark, name):
    """Two steps: the second loss depends on the gradients of the first."""
    workload = first_top_bags(load_benchmark("workloads").WORKLOADS[name]())
    losses = {}
    for competitor in COMPETITORS:
        step = load_benchmark(f"competitors.{competitor}").Step(workload)
        losses[competitor] = [step(0), step(0)]
    for both in losses.values():
        np.testing.assert_allclose(both, losses["flat"], rtol=1e-4)


@pytest.mark.eager  # the gradients of gradients take long to trace
@pytest.mark.slow
def test_adversarial_steps_start_with_the_same_supervised_loss(load_benchmark):
    workload = first_top_bags(load_benchmark("workloads").WORKLOADS["text"]())
    losses = []
    for competitor in ("ours", "flat"):
        plain = load_benchmark(f"competitors.{competitor}").Step(workload)
        step = load_benchmark(f"competitors.{competitor}").AdversarialStep(workload)
        losses.append(step(0))
        np.testing.assert_allclose(losses[-1], plain(0), rtol=1e-4)
        assert step(0) != losses[-1]  # it does train
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_ratios_of_times(load_benchmark):
    ratios = load_benchmark("records").ratios([2.0, 1.0, 4.0], [4.0, 4.0, 4.0])
    assert ratios == {"ratio": 0.25, "median_ratio": 0.5}


def test_the_pages_of_results_are_the_generated_ones(load_benchmark):
    pages = load_benchmark("report").render()
    stored = [FOLDER / "RESULTS.md", *(FOLDER / "results").glob("*.md")]
    assert {path.relative_to(FOLDER).as_posix() for path in stored} == pages.keys()
    for name, page in pages.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == page, name


def test_every_record_is_on_a_page(load_benchmark):
    """Each figure stands in a cell of its own page, whatever the form of the page."""
    report = load_benchmark("report")
    pages = report.render()
    for path in (FOLDER / "results").glob("*.json"):
        page = pages[f"results/{path.stem}.md"]
        lines = page.splitlines()
        cells = Counter(cell.strip() for line in lines for cell in line.split("|")[1:-1])
        records = json.loads(path.read_text(encoding="utf-8"))
        figures = Counter(
            report.cells_of(record)["ours"]
            for record in records
            if not record["metric"].endswith("_majority")
        )
        assert figures <= cells, path.stem
        assert all(record["command"] in lines for record in records)


def test_what_all_lines_share_stands_above_the_table(load_benchmark):
    report = load_benchmark("report")
    rows = [{"model": name, "runs": 3, "epochs": epochs} for name, epochs in (("a", 1), ("b", 2))]
    above, below = report.made_and_table(["model", "runs", "epochs", "paper"], rows)
    assert above == "Runs: 3."
    assert below.splitlines() == ["| model | epochs |", "| --- | --- |", "| a | 1 |", "| b | 2 |"]
    assert report.made_and_table(["model", "runs"], rows[:1]) == [
        "| model | runs |\n| --- | --- |\n| a | 3 |"
    ]


def test_variants_that_compare_models_have_sections(load_benchmark):
    report = load_benchmark("report")
    of = {"metric": "map", "mean": 0.5, "command": "run", "runs": 1}
    compared = [{**of, "model": model, "variant": v} for v in ("P5", "P10") for model in "ab"]
    page = report.page_of_records("Plants", "plants_of_others", compared)
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        *("## P5", "## P10", "## Commands"),
    ]
    assert page.count("| a | 50.00% |") == page.count("| b | 50.00% |") == 2
    alone = [{**of, "model": "a", "variant": variant} for variant in ("P5", "P10")]
    page = report.page_of_records("Plants", "plants_of_others", alone)
    assert "| P5 | 50.00% |\n| P10 | 50.00% |" in page


def test_the_longer_side_of_a_grid_goes_down(load_benchmark):
    report = load_benchmark("report")
    figures = {
        "seconds": {"ours": 1.0, "forest": 2.0, "boosting": 3.0},
        "test_accuracy": {"boosting": 0.9, "forest": 0.8, "ours": 0.7},
        "rules": {"ours": 4.0},
        "conditions": {"ours": 5.0},
    }
    records = [
        {"model": model, "metric": metric, "mean": mean, "runs": 1 + (model == "ours")}
        for metric, means in figures.items()
        for model, mean in means.items()
    ]
    above, models, metrics = report.grid(records)
    assert above == "Runs: 2, 1."
    assert models.splitlines() == [
        "| model | test accuracy | seconds |",
        "| --- | --- | --- |",
        "| boosting | 90.00% | 3 |",
        "| forest | 80.00% | 2 |",
        "| ours | 70.00% | 1 |",
    ]
    assert metrics.splitlines()[2:] == ["| rules | 4 |", "| conditions | 5 |"]


# Of each line of the README's table: the records that it is about, and our model there.
IN_THE_README = {
    "bags of bags of digits": ("mnist", {}, "mmil"),
    "movie reviews (IMDB)": ("imdb", {"variant": "vat", "epochs": 20}, "mmil"),
    "papers (Cora), 1,040 labels": ("cora", {"variant": "random"}, "mmil-mean"),
    "papers (Cora), 140 labels": ("cora", {"variant": "transductive"}, "mmil-mean"),
    "molecules (Mutagenicity)": ("by_default", {"experiment": "Mutagenicity"}, "keras-mmil"),
    "recipes, of 20 cuisines": ("by_default", {"experiment": "recipes"}, "keras-mmil"),
    "made-up tickets, 5 % of the labels wrong": (
        "by_default",
        {"experiment": "tickets"},
        "keras-mmil",
    ),
}
OURS = ("test_accuracy", "rule_accuracy", "fidelity")
OURS_BY_DEFAULT = ("test_accuracy", "rules_test_accuracy", "rules_fidelity")


def test_figures_of_the_readme_are_those_of_the_records():
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    lines = readme.partition("## Figures")[2].partition("| --- |")[2].splitlines()[1:]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")
    ]
    assert [row[0] for row in rows] == [*IN_THE_README]
    for name, *cells, others, _ in rows:
        file, about, model = IN_THE_README[name]
        records = json.loads((FOLDER / "results" / f"{file}.json").read_text(encoding="utf-8"))
        records = [each for each in records if about.items() <= each.items()]
        ours = {each["metric"]: each["mean"] for each in records if each["model"] == model}
        metrics = OURS_BY_DEFAULT if file == "by_default" else OURS
        for metric, cell in zip(metrics, cells, strict=False):
            if cell:
                assert cell == f"{100 * ours[metric]:.1f} %", (name, metric)
        known = {f"{100 * each['mean']:.1f}" for each in records} | {
            f"{100 * each['paper']:.1f}" for each in records if each.get("paper")
        }
        assert set(re.findall(r"\d+\.\d", others)) <= known, name


def test_the_best_model_of_a_variant_comes_first(load_benchmark, tmp_path):
    path = tmp_path / "graphs.json"
    path.write_text(
        json.dumps(
            [
                {"model": model, "variant": variant, "metric": metric, "mean": mean}
                for model, variant, metric, mean in [
                    ("a", "one", "test_accuracy", 0.5),
                    ("a", "one", "train_minutes", 2.0),
                    ("a", "two", "test_accuracy", 0.8),
                    ("b", "two", "test_accuracy", 0.9),
                    ("b", "one", "train_minutes", 3.0),
                    ("b", "one", "test_accuracy", 0.7),
                ]
            ]
        )
    )
    rows = [
        (row["variant"], row["metric"], row["model"]) for row in load_benchmark("report").read(path)
    ]
    accuracy, minutes = "test_accuracy", "train_minutes"
    assert rows == [
        *[("one", accuracy, "b"), ("one", accuracy, "a")],
        *[("one", minutes, "a"), ("one", minutes, "b")],
        *[("two", accuracy, "b"), ("two", accuracy, "a")],
    ]


def test_variants_are_in_the_order_of_their_numbers(load_benchmark, tmp_path):
    path = tmp_path / "plants.json"
    variants = ["P5", "P30", "P10", "P5-masked"]
    path.write_text(
        json.dumps([{"variant": each, "metric": "map", "mean": 1} for each in variants])
    )
    found = [row["variant"] for row in load_benchmark("report").read(path)]
    assert found == ["P5", "P5-masked", "P10", "P30"]


def test_all_figures_of_the_paper_have_a_line(load_benchmark, tmp_path, monkeypatch):
    """Also those that were not run, and those of a figure's several variants."""
    report = load_benchmark("report")
    of_imdb = {"experiment": "imdb", "model": "mil", "epochs": 12, "runs": 1}
    records = [
        {**of_imdb, "variant": variant, "metric": metric, "mean": mean, "paper": paper}
        for variant, factor in (("vat", 10), ("supervised", 1))
        for metric, mean, paper in (
            ("test_accuracy", 0.9 + factor / 1000, 0.9141),
            ("train_minutes", factor, None),
        )
    ]
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "imdb.json").write_text(json.dumps(records))
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    rows = report.papers_rows()
    expected = [
        (entry.name, entry.model_name, entry.split, metric)
        for entry in catalogue()
        for metric in entry.paper
    ]
    found = [tuple(map(row.get, ("experiment", "model", "variant", "metric"))) for row in rows]
    of_mil = [("imdb", "mil", variant, "test_accuracy") for variant in ("vat", "supervised")]
    assert set(found) == {*expected, *of_mil} - {("imdb", "mil", "", "test_accuracy")}
    run = {row["variant"]: row for row in rows if row["ours"] != "not run"}
    assert run["vat"]["difference in points"] == "-0.41"
    assert run["supervised"]["minutes"] == "1"
    assert run["vat"]["chosen on"] == "validation reviews"


def test_quoted_figures_are_shown_as_quoted(load_benchmark):
    report = load_benchmark("report")
    dgk, patchy, saen = report.quoted("collab")
    assert (dgk["model"], patchy["model"], saen["paper"]) == ("dgk", "patchy-san", 0.785)
    ours = {"model": "mmil", "metric": "test_accuracy", "mean": 0.8, "std": 0.01, "runs": 10}
    first, second = report.table([ours, saen])[-1].splitlines()[2:]
    assert first == "| mmil | 80.00% ± 1.00% |  |"
    assert second == "| saen | not run | 78.50% ± 0.69%, as quoted there |"


def test_published_figures_are_shown_with_their_source(load_benchmark):
    report = load_benchmark("report")
    (theirs,) = report.quoted("recipes")
    ours = {"model": "mmil", "metric": "test_accuracy", "mean": 0.7, "std": 0.01, "runs": 3}
    first, second = report.table([ours, theirs])[-1].splitlines()[2:]
    assert first == "| mmil | 70.00% ± 1.00% |  |"
    assert second == "| jsongrinder | not run | 66.00%, JsonGrinder.jl's example |"


def test_the_share_of_the_most_frequent_class_stands_beside_the_metric(load_benchmark):
    report = load_benchmark("report")
    figures = {"fidelity": 0.9, "fidelity_majority": 0.85, "train_minutes": 2.0}
    records = [
        {"model": model, "variant": "", "metric": metric, "mean": mean - less, "runs": 1}
        for model, less in (("mmil", 0), ("mil", 0.1))
        for metric, mean in figures.items()
    ]
    made, table = report.table(records)
    heads, _, *rows = table.splitlines()
    assert (made, heads) == ("Runs: 1.", "| model | metric | ours | most frequent class |")
    assert rows == [
        "| mmil | fidelity | 90.00% | 85.00% |",
        "| mmil | train minutes | 2 |  |",
        "| mil | fidelity | 80.00% | 75.00% |",
        "| mil | train minutes | 1.9 |  |",
    ]


def test_pictures_show_every_competitor(load_benchmark, tmp_path):
    plots = load_benchmark("plots")
    records = [
        {
            "model": model,
            "reference": reference,
            "bag_scale": bags,
            "batch_scale": batches,
            "ms": 1.0 * bags * batches,
            "reference_ms": 2.0 * bags * batches,
        }
        for model in ("mnist", "ego")
        for reference in ("flat", "pyg-pointer")
        for bags, batches in ((1, 1), (4, 1), (1, 4))
    ]
    steps, growth = plots.draw_steps(records), plots.draw_growth(records)
    assert [len(panel.patches) for panel in steps.axes] == [3, 3]
    assert [len(panel.lines) for panel in growth.axes] == [3, 3, 3, 3]
    np.testing.assert_array_equal(growth.axes[0].lines[0].get_ydata(), [1.0, 4.0])
    plots.save(growth, tmp_path / "plots" / "growth.png")
    plots.save(steps, tmp_path / "plots" / "steps.png")
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"growth.png", "steps.png"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["set", "mean"])
def test_linear_baselines_read_the_words_around_a_paper(load_benchmark, name):
    """Their features, counted one by one; the penalty is chosen on validation papers."""
    words = load_benchmark("baselines.words")
    network = synthetic.load_citations(n_papers=120, seed=2)
    parts = network.split("random", seed=1)

    def by_hand(papers, seen):
        x = np.zeros((len(papers), network.n_words))
        for row, paper in zip(x, papers, strict=True):
            for other in {paper, *(set(network.edges[[paper]].indices) & set(seen))}:
                np.add.at(row, network.words[other].numpy(), 1)
        return x > 0 if name == "set" else x / x.sum(axis=1, keepdims=True)

    seen = [parts[0], np.concatenate(parts[:2]), np.concatenate(parts)]
    train, valid, test = (
        (by_hand(papers, known), network.labels[papers])
        for papers, known in zip(parts, seen, strict=True)
    )
    scores = []
    for penalty in (0.01, 0.1, 1, 10, 100, 1000):
        model = LogisticRegression(C=penalty, max_iter=2000).fit(*train)
        scores.append((model.score(*valid), -penalty, model.score(*test)))
    found = words.fit_bags(f"logistic-regression-{name}", network, parts, "random", 1)
    assert found == pytest.approx(max(scores)[2], abs=0.02)
    assert found > 0.5
