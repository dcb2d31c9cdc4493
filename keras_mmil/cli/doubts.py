"""Whether a network learned anything; if not, likely reasons, and what to try next."""

import copy
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, mannwhitneyu

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.cli.options import TrainSettings
from keras_mmil.estimators.base import NestedEstimator
from keras_mmil.records import Schema
from keras_mmil.records.fields import Field
from keras_mmil.records.keys import columns_in
from keras_mmil.records.profiling import Values

__all__ = ["Doubt", "advice", "doubt_of_classes", "doubt_of_numbers", "hardly_repeated"]

_ALPHA = 0.05  # significance level
_FEW = 1000  # records for training
_REPEATS, _DISTINCT = 5, 20  # more values with fewer repeats are learned by heart
_IS_ID = re.compile(r"(^|[._])id$", re.IGNORECASE)
_PAGE = "docs/faq.md, “It doesn't learn”"


@dataclass(frozen=True)
class Doubt:
    """Why a network is no better than a constant answer, and whether it learned nothing at all."""

    text: str
    is_lost: bool


def doubt_of_classes(
    truth: Ints, probabilities: Array, names: Sequence[str], target: str
) -> Doubt | None:
    """The doubt about a classifier; None if it is right more often than a constant answer.

    This is a binomial test. Records are ranked if, by Mann-Whitney tests with a Bonferroni
    correction, those of some class have a higher probability of it than others.
    """
    n, counts = len(truth), np.bincount(truth, minlength=len(names))
    n_right, most = int((probabilities.argmax(axis=1) == truth).sum()), int(counts.argmax())
    of_most = counts[most] / n
    if binomtest(n_right, n, of_most, alternative="greater").pvalue < _ALPHA:
        return None
    beside = (
        f"on the {n} records for test it is right about {percent(n_right / n)} of them, and always "
        f"saying {names[most]!r} would be about {percent(of_most)}"
    )
    found = [c for c in range(len(names)) if 0 < counts[c] < n]
    for c in found:
        inside, outside = probabilities[truth == c, c], probabilities[truth != c, c]
        test = mannwhitneyu(inside, outside, alternative="greater")
        if test.pvalue * len(found) < _ALPHA:
            area = test.statistic / (len(inside) * len(outside))
            return Doubt(
                f"The network is no more often right than a constant answer: {beside}. But it "
                f"ranks records: the area under the ROC curve of {names[c]!r} is {area:.2f}. Work "
                "with the probabilities, or weigh the classes (docs/howto/imbalanced.md).",
                is_lost=False,
            )
    return Doubt(
        f"The network has NOT learned to tell {target}: {beside}. Chance explains the difference, "
        "and the rules are no finding.",
        is_lost=True,
    )


def doubt_of_numbers(r2: float, r2_constant: float, target: str) -> Doubt | None:
    """The doubt about a regressor; None if it explains more than a constant does."""
    if r2 > max(r2_constant, 0.0):
        return None
    return Doubt(
        f"The network has NOT learned to tell {target}: on the records for test R² is {r2:.3f}, "
        f"and {r2_constant:.3f} of a constant answer. The rules are no finding.",
        is_lost=True,
    )


def hardly_repeated(schema: Schema, target: str) -> list[str]:
    """Fields that a network can learn by heart: ids, names, texts and times that hardly repeat."""
    return [
        field.path
        for field in schema
        if field.path != target
        and isinstance(field.seen, Values)
        and (field.kind in ("category", "text", "time") or _is_id(field))
        and (
            field.n_distinct is None
            or (field.n_distinct > _DISTINCT and field.seen.count < _REPEATS * field.n_distinct)
        )
    ]


def _is_id(field: Field) -> bool:
    return field.kind == "number" and _IS_ID.search(field.path) is not None


def advice(
    estimator: NestedEstimator, settings: TrainSettings, n_train: int, folder: PathLike
) -> list[str]:
    """Lines about why nothing was learned, and the next command to try.

    If fields can be learned by heart, a schema without them is written to the folder of the run.
    """
    by_heart = hardly_repeated(estimator.schema_, str(estimator.target_))
    lines = ["Likely reasons:"]
    if by_heart:
        lines.append(
            f"  - Fields that hardly repeat are learnt by heart: {', '.join(by_heart[:8])}"
            f"{f' and {len(by_heart) - 8} more' if len(by_heart) > 8 else ''}."
        )
    if n_train < _FEW:
        lines.append(f"  - {n_train:,} records for training may be too few.")
    lines.append(f"  - The other fields may have nothing to do with {settings.target}.")
    command = ["keras-mmil", "train", settings.data, "--target", settings.target]
    for key in settings.keys:
        command += ["--key", "=".join(",".join(columns_in(side)) for side in key)]
    for name in ("task", "top", "split_by", "time"):
        value = getattr(settings, name)
        if value is not None:
            command += [f"--{name.replace('_', '-')}", value]
    if by_heart:
        path = f"{folder}/without.json"
        schema = copy.deepcopy(estimator.schema_)
        for each in by_heart:
            schema.drop(each)
        schema.save(path)
        command += ["--schema", path, "--out", f"{folder}-without"]
        lines.append("Next, train without these fields:")
    else:
        command += ["--epochs", "300", "--patience", "30", "--out", f"{folder}-longer"]
        lines.append("Next, train longer, or with more records, or with fields that may decide:")
    return [*lines, f"  {shlex.join(command)}", f"More: {_PAGE}"]
