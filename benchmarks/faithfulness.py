"""Which explanation names the instances that the network's output depends on.

`python benchmarks/faithfulness.py twin mnist|imdb --seed 0 --out TWIN` trains, or goes on to train,
a network with gated attention that is otherwise that of the experiment.
`python benchmarks/faithfulness.py measure RUN [TWIN]` removes instances in the order of each
ranking, and adds them; RUN is a folder that `keras-mmil run` has written. Results go to
`benchmarks/results/faithfulness.json`. docs/evidence.md says how they are to be read.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import attention_twin
import instance_scores
import keras
import numpy as np
import tensorflow as tf
from records import write
from removal_curves import Curves, curves

from keras_mmil import Explainer, ragged
from keras_mmil.cli.finished_run import finished_run
from keras_mmil.cli.run_folder import read_settings

_STEPS = {"mnist": None, "imdb": 20}  # in which instances are removed; None: one by one
_SEED = 0  # of the top-bags that are drawn, and of the random rankings
_BATCH = 128  # top-bags
_RULES = "rules"


def main():
    """Train, or measure, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="of TensorFlow")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    twin = commands.add_parser("twin", help="train a network with gated attention")
    twin.add_argument("experiment", choices=tuple(_STEPS))
    twin.add_argument("--seed", type=int, default=0)
    twin.add_argument("--out", required=True, help="folder of the twin")
    twin.add_argument("--limit", type=int, help="use at most so many top-bags of each set")
    twin.add_argument("--epochs", type=int, help="of the training; the experiment's by default")
    twin.add_argument("--source", help="of the data; the paper's by default")
    twin.set_defaults(command=_twin)
    measure = commands.add_parser("measure", help="measure the rankings of instances")
    measure.add_argument("run", type=Path, help="folder of a run of the experiment, with rules")
    measure.add_argument("twin", type=Path, nargs="?", help="folder of its twin, for attention")
    measure.add_argument("--n", type=int, default=500, help="number of top-bags")
    measure.add_argument("--part", choices=("test", "valid"), default="test", help="of the data")
    measure.add_argument("--dry", action="store_true", help="do not record the results")
    measure.set_defaults(command=_measure)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    options.command(options)


def _twin(options):
    names = ("out", "seed", "limit", "epochs", "source")
    attention_twin.train(options.experiment, **{name: getattr(options, name) for name in names})


def _measure(options):
    if options.part == "valid" and not options.dry:
        raise SystemExit("what is measured on the validation data is not recorded: add --dry")
    case = Case.of(options.run, options.twin, options.n, options.part)
    found = measured(case)
    for each in found:
        print(each)
    if not options.dry:
        write("faithfulness", found, key=("experiment", "model", "variant", "metric"))


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is compared.

    Attributes:
        name: of the experiment.
        x: top-bags.
        explainer: that of the run.
        network: that of the run.
        twin: the network with attention; None to leave attention out.
        accuracies: of each of the two on the whole test set.
    """

    name: str
    x: tf.RaggedTensor
    explainer: Explainer
    network: keras.Model
    twin: keras.Model | None
    accuracies: tuple[float, ...]

    @classmethod
    def of(cls, run, twin, n, part):
        """The case of a run and its twin, with so many top-bags of a part of the data."""
        finished, settings = finished_run(run), read_settings(run)
        expected = {**settings, "experiment": attention_twin.twin_of(finished.experiment).key}
        if twin is not None and (others := read_settings(twin)) != expected:
            raise ValueError(f"Expected a twin with {expected}. Received: {twin}, with {others}")
        x = getattr(finished.data, part).x
        rows = np.random.default_rng(_SEED).permutation(ragged.n_top_bags(x))[:n]
        folders = [run] if twin is None else [run, twin]
        metrics = [json.loads((each / "metrics.json").read_text()) for each in folders]
        return cls(
            name=finished.experiment.key,
            x=ragged.take(x, np.sort(rows)),
            explainer=finished.explainer,
            network=finished.model,
            twin=None if twin is None else keras.models.load_model(twin / "model.keras"),
            accuracies=tuple(each["test_accuracy"] for each in metrics),
        )


def measured(case):
    """The figures of a case, as records."""
    network, twin = case.network, case.twin
    gradients = instance_scores.Gradients(*instance_scores.logits_of(network))
    attributions, errors = gradients(case.x)
    at_random = instance_scores.at_random(case.x, _SEED)
    rankings = {
        _RULES: (network, instance_scores.by_rules(case.explainer, case.x)),
        "integrated-gradients": (network, attributions),
        "random": (network, at_random),
    }
    if twin is not None:
        rankings |= {
            "attention": (twin, instance_scores.attention(twin, case.x)),
            "random, attention network": (twin, at_random),
        }
    found = {}
    for name, (model, scores) in rankings.items():
        found[name] = curves(_probability(model), case.x, scores, _STEPS[case.name])
        areas = [getattr(found[name], each).mean() for each in ("deletion", "insertion")]
        print(f"{name}: areas of probabilities {areas[0]:.4f}, {areas[1]:.4f}", flush=True)
    records = [record for name in found for record in _records(name, found[name], found[_RULES])]
    others = {
        (_RULES, "fidelity"): case.explainer.fidelity(case.x),
        ("integrated-gradients", "median incompleteness"): float(np.median(errors)),
    }
    names = {"network": _RULES, "attention network": "attention"}
    for (name, of), accuracy in zip(names.items(), case.accuracies, strict=False):
        figures = {"test_accuracy": accuracy, **_ends(found[of])}
        others |= {(name, metric): value for metric, value in figures.items()}
    records += [
        {"model": model, "variant": "", "metric": metric, "mean": round(value, 4), "runs": 1}
        for (model, metric), value in others.items()
    ]
    return [{"experiment": case.name, **record} for record in records]


def _probability(model):
    return lambda x: model.predict(x, batch_size=_BATCH, verbose=0)[:, 0]


def _parts(found: Curves):
    """Which top-bags are meant: all, and those of each class that the network gives to some."""
    every = np.ones(len(found.full), bool)
    parts = {"": every, "negative": ~found.is_positive, "positive": found.is_positive}
    return {variant: part for variant, part in parts.items() if part.any()}


def _ends(found):
    """What a network says of whole and of empty top-bags, on average."""
    return {
        f"probability, {name}{variant and ', '}{variant}": float(values[part].mean())
        for variant, part in _parts(found).items()
        for name, values in (("whole", found.full), ("empty", found.empty))
    }


def _records(name, found, rules):
    """The areas of one ranking, and how far they are from those of the rules."""
    for variant, part in _parts(found).items():
        for metric in ("deletion", "insertion"):
            areas, ours = (each.scale.areas(getattr(each, metric))[part] for each in (found, rules))
            record = {
                "model": name,
                "variant": variant,
                "metric": f"{metric}_area",
                **_mean("mean", "standard_error", areas),
                "runs": 1,
                "top_bags": len(areas),
            }
            if name != _RULES:
                record |= _mean("minus_rules", "minus_rules_error", areas - ours)
            yield record


def _mean(name, name_of_error, values):
    """The mean of some top-bags, and its standard error."""
    error = values.std() / np.sqrt(max(len(values) - 1, 1))
    return {name: round(float(values.mean()), 4), name_of_error: round(float(error), 4)}


if __name__ == "__main__":
    main()
