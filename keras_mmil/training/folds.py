"""What is found on the folds of a cross-validation, and its log on disk."""

import dataclasses
import json
import time
from pathlib import Path

import numpy as np

from keras_mmil._support.atomic import write_json

__all__ = ["CrossValidation", "FoldLog"]

_FILE = "cross_validation.json"
_NO_SCORES = "seconds", "rules"


@dataclasses.dataclass(frozen=True, eq=False)
class CrossValidation:
    """What a cross-validation found.

    Attributes:
        scores: dict from metric, such as "accuracy", to its values on the test folds, float
            [rounds, folds].
        seconds: of each training, float [rounds, folds].
        majority: share of the most frequent class of all top-bags, the accuracy of a network that
            names it for each.
        rules: the rules of each network as text, a tuple of one tuple of str a round; None where
            they were not asked for.
    """

    scores: dict
    seconds: np.ndarray
    majority: float
    rules: tuple | None = None

    def mean(self, metric="accuracy"):
        """Mean over all folds of all rounds."""
        return float(self.scores[metric].mean())

    def std(self, metric="accuracy"):
        """Standard deviation of the rounds' means; of the folds, where there is one round."""
        values = self.scores[metric]
        return float(np.std(values.mean(axis=1) if len(values) > 1 else values, ddof=1))

    def __str__(self):
        rounds, folds = self.seconds.shape
        figures = ", ".join(f"{m} {self.mean(m):.4f} ± {self.std(m):.4f}" for m in self.scores)
        minutes = self.seconds.sum() / 60
        return (
            f"{figures}; most frequent class {self.majority:.4f} "
            f"({rounds} x {folds} folds, {minutes:.0f} min of training)"
        )


class FoldLog:
    """What is finished, on disk and on the screen."""

    def __init__(self, folder, settings, resume, rounds, verbose):
        self.path = None if folder is None else Path(folder) / _FILE
        self.settings = settings
        self.verbose = verbose
        self.done = self._read() if resume and self.path and self.path.exists() else {}
        self.missing = rounds * settings["folds"] - sum(r < rounds for r, _ in self.done)
        self._started, self._new = time.perf_counter(), 0

    def add(self, place, result):
        """Keep the result of a fold."""
        self.done[place] = result
        self.missing -= 1
        self._new += 1
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            entries = [
                {"round": r, "fold": fold, **values}
                for (r, fold), values in sorted(self.done.items())
            ]
            write_json(self.path, {"settings": self.settings, "folds": entries})
        if self.verbose:
            minutes = (time.perf_counter() - self._started) / self._new * self.missing / 60
            scores = ", ".join(f"{n} {v:.4f}" for n, v in result.items() if n not in _NO_SCORES)
            r, fold = (number + 1 for number in place)
            print(
                f"round {r}, fold {fold}: {scores}, {result['seconds']:.0f} s; "
                f"{self.missing} folds left, some {minutes:.0f} min",
                flush=True,
            )

    def result(self, rounds, folds, majority):
        """A `CrossValidation`: all scores, in order, and the share of the most frequent class."""
        rows = [[self.done[r, fold] for fold in range(folds)] for r in range(rounds)]
        names = self.done[0, 0]
        values = {name: [[found[name] for found in row] for row in rows] for name in names}
        return CrossValidation(
            scores={name: np.array(values[name]) for name in names if name not in _NO_SCORES},
            seconds=np.array(values["seconds"]),
            majority=majority,
            rules=tuple(map(tuple, values["rules"])) if "rules" in names else None,
        )

    def _read(self):
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            settings, entries = found["settings"], found["folds"]
            done = {(entry.pop("round"), entry.pop("fold")): entry for entry in entries}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"Expected finished folds of a cross-validation. Received: {self.path}, {error!r}"
            ) from error
        if settings != self.settings:
            raise ValueError(
                f"Expected the data and settings of the cross-validation in {self.path}, "
                f"{settings}, for resume=True. Received: {self.settings}"
            )
        return done
