"""What every run writes to its folder, and what it prints."""

from collections.abc import Mapping
from pathlib import Path

from keras_mmil._support.files import write_json
from keras_mmil._support.formatting import percent
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.plots import plot_correspondence, plot_grid
from keras_mmil.interpretation.readout.description import Description
from keras_mmil.zoo.experiments.report import Report

__all__ = ["print_figures", "print_run", "write_rules", "write_shown"]

_NOT_FRACTIONS = {"train_minutes": ".1f", "extract_seconds": ".1f", "test_r2": ".3f"}
_NOT_FRACTIONS |= {"test_mae": ".4g"}


def write_rules(report: Report, metrics: Mapping[str, float], description: Description) -> None:
    """Write rules, figures and pictures.

    Args:
        report: the `Report` of the run.
        metrics: figures by metric.
        description: what `explainer.describe` says of the validation data.
    """
    report.explainer.save(report.folder / "rules")
    write_shown(report, metrics, description)


def write_shown(report: Report, metrics: Mapping[str, float], description: Description) -> None:
    """Write what people read of rules: their texts, figures and pictures.

    Args:
        report, metrics, description: as of `write_rules`.
    """
    explainer = report.explainer
    report.write("rules.txt", f"{explainer.rules_.text(all=True)}\n\n{description}\n")
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
    """Print the rules that decide, if there are rules, and the figures beside the paper's.

    Args:
        explainer: a fitted `Explainer`; None without rules.
        metrics: figures by metric, as for `print_figures`.
        paper: the paper's figures by metric.
        folder: of the run.
        most_lines: greatest number of lines of rules to print; None for all.
    """
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
        where += "; rules.txt there lists all rules"
    print_figures(metrics, paper)
    print(where)


def _shortened(text: str, most_lines: int | None) -> str:
    lines = text.split("\n")
    if most_lines is None or len(lines) <= most_lines:
        return text
    return "\n".join([*lines[:most_lines], f"… and {len(lines) - most_lines} more lines"])


def print_figures(
    metrics: Mapping[str, float],
    paper: Mapping[str, float],
    spreads: Mapping[str, float] | None = None,
) -> None:
    """Print figures, a line each; the share of the most frequent class beside what it belongs to.

    Args:
        metrics: figures by metric. Under "<metric>_majority" is the share of the most frequent
            class, which constant rules, or a constant network, would reach as that metric; under
            "<metric>_constant" what the best constant number would reach.
        paper: the paper's figures by metric.
        spreads: standard deviations by metric, if the figures are means.
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
