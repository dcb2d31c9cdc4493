"""Pack a finished run for `zoo.load`: `python benchmarks/pretrain.py runs/cora --name cora`.

The weights are rounded to 16 bits, or with `--bits 8` large matrices to 8, and tokens that rarely
decide are left out; the rules are fitted anew to what remains. Network and rules are judged on the
test data before and after, and nothing is written if the network has become worse.
`python benchmarks/pretrain.py --cards` writes the texts of all cards anew, from `cards.toml`.
"""

import argparse
import copy
import dataclasses
import datetime
import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import cards
import numpy as np
import pruning

from keras_mmil._support.files import atomic_folder, atomic_write
from keras_mmil._version import __version__
from keras_mmil.cli import results
from keras_mmil.cli.finished_run import FinishedRun, TrainedRun, any_run
from keras_mmil.cli.options import Settings
from keras_mmil.cli.output import figures_of_rules
from keras_mmil.cli.run_folder import read_settings, train_settings
from keras_mmil.rules import Explainer
from keras_mmil.zoo import _weights
from keras_mmil.zoo.experiments.experiment import put_in_words
from keras_mmil.zoo.pretrained import write

# The most that a figure may fall by rounding, and by pruning, too; and the share of validation data
# whose class pruning may change.
BY_ROUNDING, BY_PRUNING, MAY_CHANGE = 0.001, 0.003, 0.01
LARGE = 10_000  # numbers of a matrix, from which on it is worth rounding to 8 bits


def main(arguments=None):
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "run", nargs="?", type=Path, help="folder that `keras-mmil run` or `train` wrote"
    )
    parser.add_argument("--name", choices=cards.about(), help="of the network")
    parser.add_argument("--out", type=Path, help="folder to write to, instead of zoo/pretrained")
    parser.add_argument("--commit", help="at which it was trained; that of the checkout")
    parser.add_argument("--bits", type=int, choices=(8, 16, 32), default=16, help="of a weight")
    parser.add_argument("--cards", action="store_true", help="write the texts of all cards anew")
    options = parser.parse_args(arguments)
    folder = options.out or _weights.FOLDER
    if options.cards:
        for path in sorted(folder.glob(f"*/{_weights.CARD}")):
            write_card(path.parent)
        return
    if not (options.run and options.name):
        parser.error("a run and --name are needed, or --cards")
    run = any_run(options.run)
    commit = options.commit or results.commit()
    of_run = of_experiment if isinstance(run, FinishedRun) else of_records
    about = of_run(run, options.run)
    pack(run, folder / options.name, {**about, "commit": commit}, options.bits)


def of_experiment(run, folder):
    """What a card says of the run of an experiment."""
    settings = Settings(**read_settings(folder))
    return {
        "experiment": run.experiment.key,
        "settings": dataclasses.asdict(settings),
        "command": command(run.experiment, settings),
        "over_runs": over_runs(run.experiment, settings),
    }


def of_records(run, folder):
    """What a card says of a training on records, with the defaults."""
    target, seed = run.data.target, train_settings(folder).seed
    return {
        "experiment": run.key,
        "settings": {"target": target, "seed": seed},
        "command": f"keras-mmil train {run.data.name} --target {target} --seed {seed}",
        "over_runs": {},
    }


def pack(run, folder, about, bits=16):
    """Write a pretrained network.

    Args:
        run: a `FinishedRun`, or a `TrainedRun`.
        folder: that of the network, which is replaced; its name is that of the network.
        about: facts for its card, by name.
        bits: to which weights are rounded; 32 for as they are, and 8 for large matrices only.

    Raises:
        ValueError: if the network has become worse.
    """
    before = run.figures | figures_of_rules(run.explainer, run.for_testing_rules())
    words, tokens = None, {}
    if isinstance(run, FinishedRun) and (words := run.data.words) is not None:
        tokens["tokens_before"] = len(words.vocabulary)
        model, data = pruning.prune(run.experiment, run.model, run.data, MAY_CHANGE)
        run, words = dataclasses.replace(run, model=model, data=data), data.words
        tokens["tokens"] = len(words.vocabulary)
    run.model.set_weights([rounded(values, bits) for values in run.model.get_weights()])
    run = dataclasses.replace(run)  # with figures that are not computed yet
    after = run.figures
    check(before, after, BY_PRUNING if tokens else BY_ROUNDING)
    for_rules = run.for_rules()
    explainer = Explainer(**run.explainer.get_params()).fit(run.model, *for_rules)
    if isinstance(run, FinishedRun):
        put_in_words(explainer, run.experiment, run.data, for_rules.x)
    rule_test = run.for_testing_rules()
    after |= figures_of_rules(explainer, rule_test)
    show(before, after)
    of_parts = run.data.split if isinstance(run, TrainedRun) else labels_of(run.data)
    facts = {
        "name": folder.name,
        **about,
        "title": run.title,
        "date": datetime.date.today().isoformat(),
        "library": __version__,
        "parameters": run.model.count_params(),
        "bits": bits,
        "figures": after,
        "before": before,
        "top_bags": {
            **dict(zip(("train", "valid", "test"), map(len, of_parts), strict=True)),
            "rules_test": len(rule_test.y),
        },
        **tokens,
        "rules": about_rules(explainer),
    }
    schema = None
    if isinstance(run, TrainedRun):
        schema = copy.deepcopy(run.estimator.schema_)
        schema.drop(run.data.target)
    with atomic_folder(folder) as part:
        texts = words._asdict() if words else {}
        write(part, explainer, run.model, facts, schema=schema, **texts)
        write_card(part)


def labels_of(data):
    """Those of the parts of an experiment's data."""
    return data.train.y, data.valid.y, data.test.y


def about_rules(explainer):
    """How many clusters and rules there are, how faithful they are, and what they say."""
    return {
        "clusters": {each.words: each.n_clusters for each in explainer.clusters_},
        "numbers": {level.words: len(level.rules) for level in explainer.levels_},
        "classes": [*explainer.classes_],
        "fidelity": explainer.fidelity_,
        "fidelity_majority": explainer.majority_,
        "words": str(explainer.rules_).splitlines(),
    }


def rounded(values, bits=16):
    """Weights in the precision of so many bits; of 16 where 8 would save little.

    Raises:
        ValueError: if some are too large for that.
    """
    if values.dtype != np.float32 or bits == 32:
        return values
    if bits == 8 and values.ndim > 1 and values.size >= LARGE:
        return _weights.from_8_bits(_weights.in_8_bits(values)).reshape(values.shape)
    with np.errstate(over="ignore"):
        half = values.astype(np.float16).astype(np.float32)
    if not np.isfinite(half).all():
        raise ValueError(f"Expected weights up to 65504, or --bits 32. Received: {values.max():g}")
    return half


def check(before, after, allowed):
    """Raise ValueError where the network's figure has fallen by more than is allowed."""
    metric = next(iter(before))
    if after[metric] < before[metric] - allowed - 1e-9:
        raise ValueError(
            f"Expected {metric} to fall by at most {allowed}. Received: {before[metric]:.4f} "
            f"before, {after[metric]:.4f} after"
        )


def command(experiment, settings):
    """What the run was started with."""
    started = results.command(experiment, settings).removesuffix(" --record")
    started = started.replace("--seed S", f"--seed {settings.seed}")
    return started + (f" --limit {settings.limit}" if settings.limit else "")


def over_runs(experiment, settings):
    """Mean, standard deviation and number of the recorded runs like this one, by metric."""
    path = results.results_folder() / f"{experiment.name}.json"
    key = experiment.model_name, results.variant_of(experiment, settings), settings.epochs
    return {
        record["metric"]: {name: record[name] for name in ("mean", "std", "runs")}
        for record in (json.loads(path.read_text(encoding="utf-8")) if path.exists() else [])
        if (record["model"], record["variant"], record.get("epochs")) == key
    }


def show(before, after):
    """Print figures beside each other."""
    print(f"\n{'':24} before   after")
    for metric, figure in before.items():
        print(f"{metric:24} {figure:.4f}  {after[metric]:.4f}")


def write_card(folder):
    """Write the text of a card."""
    facts = _weights.read_card(folder)
    with atomic_write(folder / "card.md") as part:
        part.write_text(cards.render(facts), encoding="utf-8")


if __name__ == "__main__":
    main()
