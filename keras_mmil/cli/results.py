"""Records of measured figures: `benchmarks/results/<experiment>.json`."""

import datetime
import json
import math
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from keras_mmil._checkout import is_checkout
from keras_mmil._support.files import write_json
from keras_mmil._support.types import PathLike
from keras_mmil.cli.options import Settings
from keras_mmil.training import CrossValidation
from keras_mmil.zoo.experiments.experiment import Experiment

__all__ = [
    "METRICS",
    "Figures",
    "command",
    "commit",
    "figures_of_folds",
    "record",
    "results_folder",
    "summary",
    "variant_of",
]

# By metric, and by run, such as its seed.
Figures: TypeAlias = Mapping[str, Mapping[int, float]]

_CHECKOUT = Path(__file__).parents[2]
# Written by measurements: changes in these are no changes of the program.
_MADE = ("benchmarks/results", "benchmarks/plots", "benchmarks/RESULTS.md")
# What a compiled model's metric is called in the records.
METRICS = {"accuracy": "test_accuracy", "map": "map"}
_KEY = ("experiment", "model", "variant", "metric", "epochs")


def results_folder() -> Path:
    """`benchmarks/results` of the checkout that runs; FileNotFoundError if none does."""
    folder = _CHECKOUT / "benchmarks" / "results"
    if not is_checkout(_CHECKOUT) or not folder.is_dir():
        raise FileNotFoundError(
            "Expected keras-mmil to run from a checkout of it (pip install -e), which keeps the "
            f"records, for --record. Received: {_CHECKOUT / 'keras_mmil'}"
        )
    return folder


def variant_of(experiment: Experiment, settings: Settings, more: str = "") -> str:
    """The variant of an experiment, such as how its data are split and how it is trained.

    The source is named only if it is not the paper's; `more` is added at the end.
    """
    parts = [settings.source] if settings.source != experiment.sources[0] else []
    parts.append(experiment.split)
    if experiment.adversarial is not None:
        parts.append("vat" if settings.adversarial else "supervised")
    return "-".join(filter(None, (*parts, more)))


def figures_of_folds(result: CrossValidation) -> tuple[Figures, str]:
    """The figures of each round, or of each fold of a single round; and `more` for `variant_of`."""
    rounds, folds = result.seconds.shape
    accuracy = result.scores["accuracy"]
    values = accuracy.mean(axis=1) if rounds > 1 else accuracy[0]
    figures = {
        "test_accuracy": dict(enumerate(values)),
        "test_accuracy_majority": {0: result.majority},
        "train_minutes": {0: result.seconds.sum() / 60},
    }
    return figures, f"{rounds}x{folds} folds"


def record(
    folder: PathLike,
    experiment: Experiment,
    settings: Settings,
    figures: Figures,
    *,
    rounds: int | None = None,
    more: str = "",
) -> None:
    """Add figures, by metric and run, to the records of an experiment, `<experiment>.json`.

    A record holds the `summary` of all runs. The figure of a repeated run is replaced. `rounds` are
    of the cross-validation, if the figures are from one; `more` is that of `variant_of`.
    """
    source, epochs = settings.source, settings.epochs
    variant = variant_of(experiment, settings, more)
    path = Path(folder) / f"{experiment.name}.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    # Records of baselines have no epochs.
    by_key = {tuple(map(entry.get, _KEY)): entry for entry in records}
    about = {
        "chosen_on": experiment.chosen_on,
        "command": command(experiment, settings, rounds),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    for metric, new in figures.items():
        key = (experiment.name, experiment.model_name, variant, metric, epochs)
        values = by_key.get(key, {}).get("values", {})
        before = {run: math.nan if figure is None else figure for run, figure in values.items()}
        by_key[key] = {
            **dict(zip(_KEY, key, strict=True)),
            **summary({**{int(run): figure for run, figure in before.items()}, **new}),
            "paper": experiment.paper.get(metric) if source == experiment.sources[0] else None,
            **about,
        }
    write_json(path, list(by_key.values()))


def summary(figures: Mapping[int, float]) -> dict[str, Any]:
    """The fields of a record about the figures of several runs, such as those of several seeds."""
    values = {str(run): round(float(figures[run]), 6) for run in sorted(figures)}
    numbers = list(values.values())
    return {
        "mean": round(statistics.mean(numbers), 6),
        "std": round(statistics.stdev(numbers), 6) if len(numbers) > 1 else 0.0,
        "runs": len(numbers),
        "values": values,
    }


def commit() -> str | None:
    """The checkout's commit, with "+" if files other than measured ones differ from it."""
    described = _git("rev-parse", "--short", "HEAD")
    if not described:
        return None
    changed = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in _MADE))
    return described + ("+" if changed else "")


def command(experiment: Experiment, settings: Settings, rounds: int | None = None) -> str:
    """The command that was run, with S for the seed."""
    source, folds = settings.source, settings.folds
    options = {
        "--model": experiment.model if experiment.model != "mmil" else "",
        "--aggregation": experiment.aggregation,
        "--split": experiment.split,
        "--source": source if source != experiment.sources[0] else "",
        "--epochs": settings.epochs,
        "--folds": str(folds) if folds != experiment.folds else "",
        "--rounds": rounds,
        "--seed": "S",
    }
    given = " ".join(f"{option} {value}" for option, value in options.items() if value)
    given += " --vat" if settings.adversarial else ""
    given += " --no-rules" if rounds else ""
    return f"keras-mmil run {experiment.name} {given} --record"


def _git(*arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments], cwd=_CHECKOUT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()
