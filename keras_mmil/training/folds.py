"""What is found on the folds of a cross-validation, and its log on disk."""

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_mmil._support.checks import check_int
from keras_mmil._support.files import write_json
from keras_mmil._support.types import PathLike
from keras_mmil.training._folder import differences

__all__ = ["CrossValidation", "FoldLog", "FoldResult", "Place"]

FoldResult: TypeAlias = dict[str, Any]  # "seconds", metrics by name, and perhaps "rules", a text

_FILE = "cross_validation.json"
_NO_SCORES = "seconds", "rules"


class Place(NamedTuple):
    """Which fold of which round, both from 0."""

    round: int
    fold: int


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

    scores: dict[str, npt.NDArray[np.float64]]
    seconds: npt.NDArray[np.float64]
    majority: float
    rules: tuple[tuple[str, ...], ...] | None = None

    def mean(self, metric: str = "accuracy") -> float:
        """Mean over all folds of all rounds."""
        return float(self.scores[metric].mean())

    def std(self, metric: str = "accuracy") -> float:
        """Standard deviation of the rounds' means; of the folds, where there is one round."""
        values = self.scores[metric]
        return float(np.std(values.mean(axis=1) if len(values) > 1 else values, ddof=1))

    def __str__(self) -> str:
        rounds, folds = self.seconds.shape
        figures = ", ".join(f"{m} {self.mean(m):.4f} ± {self.std(m):.4f}" for m in self.scores)
        minutes = self.seconds.sum() / 60
        return (
            f"{figures}; most frequent class {self.majority:.4f} "
            f"({rounds} x {folds} folds, {minutes:.0f} min of training)"
        )


class FoldLog:
    """The finished folds, on disk and on the screen.

    Args:
        folder: where their file is; None to keep nothing.
        settings: what decides the results; those of the file must be equal, to resume it.
        rounds, folds: how many there are to be.
        resume: whether to continue with the folds in the file.
        verbose: whether to print a line a fold.

    Attributes:
        done: the result of each finished fold.
        missing: number of folds that are not finished.
    """

    def __init__(
        self,
        folder: PathLike | None,
        settings: dict[str, Any],
        *,
        rounds: int,
        folds: int,
        resume: bool = False,
        verbose: int = 1,
    ) -> None:
        self.path = None if folder is None else Path(folder) / _FILE
        self.settings = settings
        self.rounds, self.folds = rounds, folds
        self.verbose = verbose
        self.done: dict[Place, FoldResult] = {}
        if resume and self.path is not None and self.path.exists():
            self.done = _read(self.path, settings, folds)
        self.missing = rounds * folds - sum(place.round < rounds for place in self.done)
        self._started, self._new = time.perf_counter(), 0

    def add(self, place: Place, result: FoldResult) -> None:
        """Keep the result of a fold."""
        self.done[place] = result
        self.missing -= 1
        self._new += 1
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            entries = [
                {"round": r, "fold": fold, **values}
                for (r, fold), values in sorted(self.done.items())
            ]
            write_json(self.path, {"settings": self.settings, "folds": entries})
        if self.verbose:
            minutes = (time.perf_counter() - self._started) / self._new * self.missing / 60
            scores = ", ".join(f"{n} {v:.4f}" for n, v in result.items() if n not in _NO_SCORES)
            print(
                f"round {place.round + 1}, fold {place.fold + 1}: {scores}, "
                f"{result['seconds']:.0f} s; {self.missing} folds left, some {minutes:.0f} min",
                flush=True,
            )

    def result(self, majority: float) -> CrossValidation:
        """All scores, in order, beside the share of the most frequent class."""
        rows = [
            [self.done[Place(r, fold)] for fold in range(self.folds)] for r in range(self.rounds)
        ]
        names = rows[0][0]
        values = {name: [[found[name] for found in row] for row in rows] for name in names}
        return CrossValidation(
            scores={name: np.array(values[name]) for name in names if name not in _NO_SCORES},
            seconds=np.array(values["seconds"]),
            majority=majority,
            rules=tuple(map(tuple, values["rules"])) if "rules" in names else None,
        )


def _read(path: Path, settings: dict[str, Any], folds: int) -> dict[Place, FoldResult]:
    """The finished folds in a file, which must be of these settings."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        theirs, entries = dict(found["settings"]), found["folds"]
        done = dict(_decoded(entry, folds) for entry in entries)
        if len(done) < len(entries) or len({frozenset(each) for each in done.values()}) > 1:
            raise ValueError("a fold twice, or folds of different scores")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"Expected finished folds of a cross-validation. Received: {path}, {error!r}"
        ) from error
    if others := differences(theirs, settings):
        raise ValueError(
            f"Expected the data and settings of the cross-validation in {path}, for resume=True. "
            f"Received: {others}"
        )
    return done


def _decoded(entry: dict[str, Any], folds: int) -> tuple[Place, FoldResult]:
    place = Place(
        check_int("round", entry.pop("round"), 0),
        check_int("fold", entry.pop("fold"), 0, folds - 1),
    )
    # JSON has no NaN.
    entry |= {n: math.nan for n, x in entry.items() if x is None and n not in _NO_SCORES}
    are_right = all(isinstance(x, str if name == "rules" else float) for name, x in entry.items())
    if not are_right or "seconds" not in entry:
        raise ValueError(f"scores {entry!r:.200}")
    return place, entry
