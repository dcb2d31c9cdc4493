"""Checks of the options that need no TensorFlow."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_mmil.zoo.experiments.catalogue import Entry

__all__ = ["check_numbers", "check_run", "chosen"]

_LEAST = {"epochs": 1, "limit": 2, "max_clusters": 2, "rounds": 1, "seed": 0, "seeds": 1}
_LEAST |= {"batch_size": 1, "patience": 1}
_SEEDS = 2**32  # as many as NumPy has


def chosen(entries: Sequence[Entry], options: Namespace) -> Entry:
    """The experiment that the options ask for.

    Args:
        entries: the `Entry`s of the catalogue.
        options: parsed arguments: experiment, its name; and model, aggregation and split, or None
            for the first of its name.

    Raises:
        ValueError: if there is no such experiment.
    """
    found = [entry for entry in entries if entry.name == options.experiment]
    if not found:
        names = dict.fromkeys(entry.name for entry in entries)
        raise ValueError(
            f"Expected an experiment among {', '.join(names)}. "
            f"Received: experiment={options.experiment!r}"
        )
    for option in ("model", "aggregation", "split"):
        known = list(dict.fromkeys(getattr(entry, option) for entry in found))
        wanted = getattr(options, option) or known[0]
        if wanted not in known:
            raise ValueError(
                f"Expected --{option} among {', '.join(filter(None, known)) or 'none'} for "
                f"{options.experiment}. Received: --{option} {wanted}"
            )
        found = [entry for entry in found if getattr(entry, option) == wanted]
    return found[0]


def check_numbers(options: Namespace) -> None:
    """Check the numbers that are given.

    Raises:
        ValueError: if one is too small, or a seed too large.
    """
    for name, least in _LEAST.items():
        value = getattr(options, name, None)
        if value is not None and value < least:
            raise ValueError(f"Expected at least {least}. Received: {_flag(name)} {value}")
    rate = getattr(options, "learning_rate", None)
    if rate is not None and not 0 < rate < float("inf"):
        raise ValueError(f"Expected a number above 0. Received: --learning-rate {rate}")
    if options.seed + getattr(options, "seeds", 1) > _SEEDS:
        raise ValueError(f"Expected seeds below {_SEEDS}. Received: --seed {options.seed}")


def check_run(entry: Entry, options: Namespace) -> None:
    """Check that an experiment has what the options ask for, and that no option would be ignored.

    Args:
        entry: its `Entry`.
        options: the parsed arguments of `run`.

    Raises:
        ValueError: otherwise.
    """
    check_numbers(options)
    if options.source not in (None, *entry.sources):
        raise ValueError(
            f"Expected a source among {', '.join(entry.sources)}. "
            f"Received: --source {options.source}"
        )
    if options.vat and entry.adversarial is None:
        raise ValueError(
            "Expected an experiment with virtual adversarial training. "
            f"Received: --vat for {entry.name}"
        )
    _check_cross_validation(entry, options)
    if not options.rules and options.max_clusters is not None:
        raise ValueError(
            "Expected no number of clusters where no rules are extracted. "
            f"Received: --max-clusters {options.max_clusters} with --no-rules"
        )
    for name in ("limit", "max_clusters"):
        value = getattr(options, name)
        if options.record and value is not None:
            raise ValueError(
                "Expected figures of the whole experiment for the records. "
                f"Received: {_flag(name)} {value} with --record"
            )


def _check_cross_validation(entry: Entry, options: Namespace) -> None:
    folds = entry.folds if options.folds is None else options.folds
    if folds and not entry.folds:
        raise ValueError(
            "Expected an experiment whose data come in one part, to be cross-validated. "
            f"Received: --folds {folds} for {entry.name}"
        )
    if folds < 0 or folds == 1:
        raise ValueError(f"Expected at least 2 folds, or 0 for none. Received: --folds {folds}")
    if options.jobs == 0:
        raise ValueError(
            "Expected a number of folds side by side, or -1 for one a core. Received: --jobs 0"
        )
    if folds:
        return
    why = f"--folds 0 for {entry.name}" if entry.folds else entry.name
    for name in ("rounds", "jobs"):
        value = getattr(options, name)
        if value is not None:
            raise ValueError(
                f"Expected an experiment with a cross-validation. "
                f"Received: {_flag(name)} {value} for {why}"
            )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
