"""What every run writes to its folder, and what it prints."""

from collections.abc import Mapping
from pathlib import Path

from keras_mmil._support.atomic import write_json
from keras_mmil._support.percent import percent
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.plots import plot_correspondence, plot_grid
from keras_mmil.interpretation.readout.description import Description
from keras_mmil.zoo.experiments.report import Report

__all__ = ["print_figures", "print_run", "write_rules"]

_NOT_FRACTIONS = ("train_minutes", "extract_seconds")


def write_rules(report: Report, metrics: Mapping[str, float], description: Description) -> None:
    """Write rules, figures and pictures.

    Args:
        report: the `Report` of the run.
        metrics: figures by metric.
        description: what `explainer.describe` says of the validation data.
    """
    explainer = report.explainer
    explainer.save(report.folder / "rules")
    report.write("rules.txt", f"{explainer.rules_.text(all=True)}\n\n{description}\n")
    write_json(report.folder / "metrics.json", metrics)
    report.draw("fidelity.png", plot_grid, explainer)
    if description[0].table is not None:
        report.draw("clusters.png", plot_correspondence, description[0])


def print_run(
    explainer: Explainer | None,
    metrics: Mapping[str, float],
    paper: Mapping[str, float],
    folder: Path,
) -> None:
    """Print the rules that decide, if there are rules, and the figures beside the paper's.

    Args:
        explainer: a fitted `Explainer`; None without rules.
        metrics: figures by metric, as for `print_figures`.
        paper: the paper's figures by metric.
        folder: of the run.
    """
    where = f"\nEverything is in {folder}"
    if explainer is not None:
        clusters = ", ".join(f"{each.n_clusters} of {each.words}" for each in explainer.clusters_)
        fidelity, share = percent(explainer.fidelity_, 2), percent(explainer.majority_, 2)
        print(f"\n{explainer.rules_}\n\nClusters: {clusters}")
        print(f"Fidelity on validation data: {fidelity} (most frequent class: {share})\n")
        if explainer.rules_.constant is not None:
            print(f"The rules are CONSTANT: every top-bag is {explainer.rules_.constant!r}.\n")
        where += "; rules.txt there lists all rules"
    print_figures(metrics, paper)
    print(where)


def print_figures(
    metrics: Mapping[str, float],
    paper: Mapping[str, float],
    spreads: Mapping[str, float] | None = None,
) -> None:
    """Print figures, a line each; the share of the most frequent class beside what it belongs to.

    Args:
        metrics: figures by metric. Under "<metric>_majority" is the share of the most frequent
            class, which constant rules, or a constant network, would reach as that metric.
        paper: the paper's figures by metric.
        spreads: standard deviations by metric, if the figures are means.
    """
    for metric, figure in metrics.items():
        if metric.endswith("_majority"):
            continue
        line = f"{metric:16} {_text(metric, figure):>9}"
        if spreads is not None:
            line += f" ± {_text(metric, spreads[metric])}"
        if (share := metrics.get(f"{metric}_majority")) is not None:
            line += f"   (most frequent class: {percent(share, 2)})"
        if metric in paper:
            line += f"   (paper: {percent(paper[metric], 2)})"
        print(line)


def _text(metric: str, figure: float) -> str:
    return f"{figure:.1f}" if metric in _NOT_FRACTIONS else percent(figure, 2)
