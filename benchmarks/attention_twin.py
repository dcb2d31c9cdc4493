"""The twin of an experiment's network: its bag-layers use gated attention; all else is the same."""

import os
from dataclasses import replace
from functools import partial

from keras_mmil.cli.options import RunOptions
from keras_mmil.cli.run import run
from keras_mmil.zoo.experiments.registry import registry

__all__ = ["train", "twin_of"]

_AGGREGATION = "gated_attention"


def twin_of(experiment):
    """The experiment with gated attention: same data, seeds, epochs, optimizer, augmentation."""
    build = partial(experiment.build, aggregation=_AGGREGATION)
    return replace(experiment, aggregation=_AGGREGATION, build=build, paper={})


def train(name, **options):
    """Train the twin of an experiment, or continue its training, as `keras-mmil run` would.

    Args:
        name: of the experiment in the registry.
        options: fields of `RunOptions`: `out`, the folder, `seed`, `limit`, `epochs`, `source`.

    Returns:
        Its metrics.
    """
    options = RunOptions(rules=False, resume=True, **options)
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    return run(twin_of(registry[name]), options).metrics
