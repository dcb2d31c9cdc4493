"""The figures of a run, and what every run writes to its folder and prints."""

from collections.abc import Mapping
from pathlib import Path

from keras_mmil._support.files import write_json
from keras_mmil._support.formatting import majority, percent
from keras_mmil.cli.results import METRICS
from keras_mmil.model import Model
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.clusters import Description
from keras_mmil.rules.plots import plot_correspondence, plot_grid
from keras_mmil.zoo.experiments.experiment import Experiment, RunWriter, Split

__all__ = ["figures_of_network", "figures_of_rules", "print_figures", "print_run", "write_shown"]

_NOT_FRACTIONS = {"train_minutes": ".1f", "extract_seconds": ".1f", "test_r2": ".3f"}
_NOT_FRACTIONS |= {"test_mae": ".4g"}
_FEW = 3  # lines that are shown rather than counted


def figures_of_network(experiment: Experiment, model: Model, test: Split) -> dict[str, float]:
    """Figures of a network; "<metric>_majority" is the share of the most frequent class."""
    x, y, _ = test
    figure = model.evaluate(x, y, verbose=0, return_dict=True)[experiment.metric]
    metrics = {METRICS[experiment.metric]: figure}
    if experiment.metric == "accuracy":
        metrics["test_accuracy_majority"] = majority(y)
    return metrics


def figures_of_rules(explainer: Explainer, test: Split) -> dict[str, float]:
    """Figures of fitted rules, likewise."""
    found = explainer.evaluate(test.x, test.y)
    return {
        "rule_accuracy": found["accuracy"],
        "rule_accuracy_majority": found["accuracy_majority"],
        "fidelity": found["fidelity"],
        "fidelity_majority": found["fidelity_majority"],
    }


def write_shown(report: RunWriter, metrics: Mapping[str, float], description: Description) -> None:
    """Write what people read of rules: texts, figures and pictures.

    The description is that of the validation data.
    """
    explainer = report.explainer
    rules = f"{explainer.rules_}\n\n\nLevel by level:\n\n{explainer.rules_.text(all=True)}"
    report.write("rules.txt", f"{rules}\n\n{description}\n")
    write_json(report.folder / "metrics.json", metrics)
    if not explainer.n_clusters_:
        return  # of records without bags
    report.draw("fidelity.png", plot_grid, explainer)
    if description[0].table is not None:
        report.draw("clusters.png", plot_correspondence, description[0])


def print_run(
    explainer: Explainer | None,
    metrics: Mapping[str, float],
    paper: Mapping[str, float],
    folder: Path,
    most_lines: int | None = None,
) -> None:
    """Print the rules that decide, if there are rules, and the figures: see `print_figures`."""
    where = f"\nEverything is in {folder}"
    if explainer is not None:
        clusters = ", ".join(f"{each.n_clusters} of {each.words}" for each in explainer.clusters_)
        fidelity, share = percent(explainer.fidelity_, 2), percent(explainer.majority_, 2)
        print(f"\n{_shortened(str(explainer.rules_), most_lines)}\n")
        if clusters:  # flat records have no bags
            print(f"Clusters: {clusters}")
        print(f"Fidelity on validation data: {fidelity} (most frequent class: {share})\n")
        if explainer.rules_.constant is not None:
            word = explainer.levels_[-1].word
            print(f"The rules are CONSTANT: every {word} is {explainer.rules_.constant!r}.\n")
        where += "; rules.txt there lists all rules, level by level"
    print_figures(metrics, paper)
    print(where)


def _shortened(text: str, most_lines: int | None) -> str:
    lines = text.split("\n")
    if most_lines is None or len(lines) <= most_lines + _FEW:
        return text
    return "\n".join([*lines[:most_lines], f"… and {len(lines) - most_lines} more lines"])


def print_figures(
    metrics: Mapping[str, float],
    paper: Mapping[str, float],
    spreads: Mapping[str, float] | None = None,
) -> None:
    """Print figures by metric, a line each, beside the paper's and what a constant would reach.

    "<metric>_majority" is the share of the most frequent class, "<metric>_constant" the figure of
    the best constant number. Spreads are standard deviations, if the figures are means.
    """
    for metric, figure in metrics.items():
        if metric.endswith(("_majority", "_constant")):
            continue
        line = f"{metric:16} {_text(metric, figure):>9}"
        if spreads is not None:
            line += f" ± {_text(metric, spreads[metric])}"
        if (share := metrics.get(f"{metric}_majority")) is not None:
            line += f"   (most frequent class: {percent(share, 2)})"
        if (constant := metrics.get(f"{metric}_constant")) is not None:
            line += f"   (constant: {_text(metric, constant)})"
        if metric in paper:
            line += f"   (paper: {percent(paper[metric], 2)})"
        print(line)


def _text(metric: str, figure: float) -> str:
    form = _NOT_FRACTIONS.get(metric)
    return percent(figure, 2) if form is None else f"{figure:{form}}"
