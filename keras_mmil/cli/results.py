"""Records of measured figures: `benchmarks/results/<experiment>.json`."""

import datetime
import json
import statistics
import subprocess
from pathlib import Path

from keras_mmil._atomic import write_json

__all__ = ["commit", "record", "results_folder", "variant_of"]

_CHECKOUT = Path(__file__).parents[2]
_KEY = ("experiment", "model", "variant", "metric", "epochs")


def results_folder():
    """`benchmarks/results` of the checkout that this is run from, or None."""
    folder = _CHECKOUT / "benchmarks" / "results"
    return folder if folder.is_dir() else None


def variant_of(experiment, settings):
    """The variant of an experiment: how it is trained, and where its data come from.

    The latter only if it is not the paper's source.
    """
    parts = [settings["source"]] if settings["source"] != experiment.sources[0] else []
    if experiment.adversarial is not None:
        parts.append("vat" if settings["adversarial"] else "supervised")
    return "-".join(parts)


def record(folder, experiment, settings, metrics):
    """Add one run's figures to the records of an experiment.

    A record holds the figures of all seeds, `values`, with their mean and standard deviation
    (of the sample; 0 for one run). A seed that is run again replaces its figure.

    Args:
        folder: where `<experiment>.json` is.
        experiment: the `Experiment`.
        settings: dict with the run's source, epochs, seed, and whether it is adversarial.
        metrics: dict from metric to figure.
    """
    source, epochs, seed = (settings[name] for name in ("source", "epochs", "seed"))
    variant = variant_of(experiment, settings)
    command = f"keras-mmil run {experiment.name} --epochs {epochs} --seed S"
    command += "" if experiment.model == "mmil" else f" --variant {experiment.model}"
    command += " --vat" if settings["adversarial"] else ""
    command += "" if source == experiment.sources[0] else f" --source {source}"
    path = Path(folder) / f"{experiment.name}.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    by_key = {tuple(entry[name] for name in _KEY): entry for entry in records}
    about = {"commit": commit(), "date": datetime.date.today().isoformat()}
    for metric, figure in metrics.items():
        key = (experiment.name, experiment.model, variant, metric, epochs)
        values = {**by_key.get(key, {}).get("values", {}), str(seed): round(float(figure), 6)}
        figures = list(values.values())
        by_key[key] = {
            **dict(zip(_KEY, key, strict=True)),
            "mean": round(statistics.mean(figures), 6),
            "std": round(statistics.stdev(figures), 6) if len(figures) > 1 else 0.0,
            "runs": len(figures),
            "values": dict(sorted(values.items(), key=lambda item: int(item[0]))),
            "paper": experiment.paper.get(metric),
            "command": command,
            **about,
        }
    write_json(path, list(by_key.values()))


def commit():
    """The checkout's commit, with "+" behind it where files other than results differ from it."""
    described = _git("rev-parse", "--short", "HEAD")
    if not described:
        return None
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return described + ("+" if changed else "")


def _git(*arguments):
    answer = subprocess.run(
        ["git", *arguments], cwd=_CHECKOUT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()
