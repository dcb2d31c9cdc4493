"""What is asked of a run, and what decides its outcome."""

import argparse
from dataclasses import dataclass, fields

from keras_mmil.zoo.experiments.experiment import Experiment

__all__ = ["RunOptions", "Settings"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is asked of a run, checked.

    Attributes:
        out: folder to write to; None for one in `runs/` that is named after the run.
        seed: of data, weights and clusters.
        seeds: number of runs to make, with seeds from `seed` upwards.
        epochs: of the training; None for the experiment's.
        limit: the greatest number of top-bags in each part; None for all.
        source: where the data come from; None for the paper's source.
        vat: whether to train with virtual adversarial training.
        folds, rounds: of the cross-validation; None for the experiment's, `folds` 0 for none.
        jobs: folds to train side by side.
        rules: whether to extract rules.
        max_clusters: greatest number to try at each level; None for the experiment's.
        record: whether to add the figures to the records.
        resume: whether to continue the run in the folder, if there is one.
        replace: whether to replace the run in the folder, if there is one and it is not resumed.
        verbose: as in Keras.
    """

    out: str | None = None
    seed: int = 0
    seeds: int = 1
    epochs: int | None = None
    limit: int | None = None
    source: str | None = None
    vat: bool = False
    folds: int | None = None
    rounds: int | None = None
    jobs: int = 1
    rules: bool = True
    max_clusters: int | None = None
    record: bool = False
    resume: bool = False
    replace: bool = False
    verbose: int = 2

    @classmethod
    def of(cls, options: argparse.Namespace) -> "RunOptions":
        """Those among the parsed arguments of a command; the defaults for what is not given."""
        given = {field.name: getattr(options, field.name, None) for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides the outcome of a run. Its folder keeps them in `settings.json`.

    Attributes:
        experiment: key of the experiment in the registry.
        adversarial: whether it is trained with virtual adversarial training.
        source: where the data come from.
        seed: of data, weights and clusters.
        epochs: of the training.
        limit: the greatest number of top-bags in each part; None for all.
        folds: of the cross-validation; 0 for none.
    """

    experiment: str
    adversarial: bool
    source: str
    seed: int
    epochs: int
    limit: int | None
    folds: int

    @classmethod
    def of(cls, experiment: Experiment, options: RunOptions) -> "Settings":
        """The settings of a run of an experiment."""
        return cls(
            experiment=experiment.key,
            adversarial=options.vat,
            source=options.source or experiment.sources[0],
            seed=options.seed,
            epochs=experiment.epochs if options.epochs is None else options.epochs,
            limit=options.limit,
            folds=experiment.folds if options.folds is None else options.folds,
        )
