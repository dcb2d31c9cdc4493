"""Records of measured figures: `benchmarks/results/<experiment>.json`."""

import datetime
import json
import statistics
import subprocess
from pathlib import Path

from keras_mmil._checkout import is_checkout
from keras_mmil._support.atomic import write_json

__all__ = [
    "METRICS",
    "commit",
    "figures_of_folds",
    "record",
    "results_folder",
    "summary",
    "variant_of",
]

_CHECKOUT = Path(__file__).parents[2]
# What is made by measuring, not by whoever changes the program.
_MADE = ("benchmarks/results", "benchmarks/plots", "benchmarks/RESULTS.md")
# What a compiled model's metric is called in the records.
METRICS = {"accuracy": "test_accuracy", "map": "map"}
_KEY = ("experiment", "model", "variant", "metric", "epochs")


def results_folder():
    """`benchmarks/results` of the checkout that this program is in.

    Raises:
        FileNotFoundError: if it is in none.
    """
    folder = _CHECKOUT / "benchmarks" / "results"
    if not is_checkout(_CHECKOUT) or not folder.is_dir():
        raise FileNotFoundError(
            "Expected keras-mmil to run from a checkout of it (pip install -e), which keeps the "
            f"records, for --record. Received: {_CHECKOUT / 'keras_mmil'}"
        )
    return folder


def variant_of(experiment, settings, more=""):
    """The variant of an experiment: how its data are split, how it is trained, and so on.

    Args:
        experiment: the `Experiment`.
        settings: dict with the run's source, and whether it is adversarial. The source is named
            only if it is not the paper's.
        more: what else tells it from other runs.
    """
    parts = [settings["source"]] if settings["source"] != experiment.sources[0] else []
    parts.append(experiment.split)
    if experiment.adversarial is not None:
        parts.append("vat" if settings["adversarial"] else "supervised")
    return "-".join(filter(None, (*parts, more)))


def figures_of_folds(result):
    """The figures of a `CrossValidation`, for `record`.

    Returns:
        A dict from metric to the accuracies of the rounds, or of the folds where there is one
        round; and what these are.
    """
    rounds, folds = result.seconds.shape
    accuracy = result.scores["accuracy"]
    values = accuracy.mean(axis=1) if rounds > 1 else accuracy[0]
    figures = {
        "test_accuracy": dict(enumerate(values)),
        "test_accuracy_majority": {0: result.majority},
        "train_minutes": {0: result.seconds.sum() / 60},
    }
    return figures, f"{rounds}x{folds} folds"


def record(folder, experiment, settings, figures, more=""):
    """Add figures to the records of an experiment.

    A record holds the `summary` of all runs. A run that is made again replaces its figure.

    Args:
        folder: where `<experiment>.json` is.
        experiment: the `Experiment`.
        settings: dict with the run's source, epochs, whether it is adversarial, and the numbers of
            `folds` and `rounds` if it is a cross-validation.
        figures: dict from metric to a dict from run, such as its seed, to figure.
        more: what tells the variant from others, see `variant_of`.
    """
    source, epochs = settings["source"], settings["epochs"]
    variant = variant_of(experiment, settings, more)
    path = Path(folder) / f"{experiment.name}.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    # Those of baselines have no epochs.
    by_key = {tuple(map(entry.get, _KEY)): entry for entry in records}
    about = {
        "command": _command(experiment, settings),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    for metric, new in figures.items():
        key = (experiment.name, experiment.model_name, variant, metric, epochs)
        values = {**by_key.get(key, {}).get("values", {})}
        values |= {str(run): round(float(figure), 6) for run, figure in new.items()}
        by_key[key] = {
            **dict(zip(_KEY, key, strict=True)),
            **summary(values),
            "paper": experiment.paper.get(metric) if source == experiment.sources[0] else None,
            **about,
        }
    write_json(path, list(by_key.values()))


def summary(values):
    """The fields of a record that say what several runs found.

    Args:
        values: dict from run, such as its seed as a str, to figure.

    Returns:
        Dict of their mean, standard deviation (of the sample; 0 for one run) and number, and the
        values themselves.
    """
    numbers = list(values.values())
    return {
        "mean": round(statistics.mean(numbers), 6),
        "std": round(statistics.stdev(numbers), 6) if len(numbers) > 1 else 0.0,
        "runs": len(numbers),
        "values": dict(sorted(values.items(), key=lambda item: int(item[0]))),
    }


def commit():
    """The checkout's commit, with "+" where files other than measured ones differ from it."""
    described = _git("rev-parse", "--short", "HEAD")
    if not described:
        return None
    changed = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in _MADE))
    return described + ("+" if changed else "")


def _command(experiment, settings):
    """What was called, with S for the seed."""
    source, folds = settings["source"], settings.get("folds", 0)
    options = {
        "--model": experiment.model if experiment.model != "mmil" else "",
        "--aggregation": experiment.aggregation,
        "--split": experiment.split,
        "--source": source if source != experiment.sources[0] else "",
        "--epochs": settings["epochs"],
        "--folds": str(folds) if folds != experiment.folds else "",
        "--rounds": settings.get("rounds"),
        "--seed": "S",
    }
    given = " ".join(f"{option} {value}" for option, value in options.items() if value)
    given += " --vat" if settings["adversarial"] else ""
    given += " --no-rules" if settings.get("rounds") else ""
    return f"keras-mmil run {experiment.name} {given} --record"


def _git(*arguments):
    answer = subprocess.run(
        ["git", *arguments], cwd=_CHECKOUT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()
