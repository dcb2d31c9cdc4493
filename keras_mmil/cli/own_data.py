"""Own records with a target, split for training, validation and test."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from keras_mmil._support.formatting import number_text, percent, time_text
from keras_mmil._support.types import Array, Bools, Floats, Ints
from keras_mmil.cli.options import TrainSettings
from keras_mmil.cli.own_files import did_you_mean, read, users_errors
from keras_mmil.records import Schema, arrow
from keras_mmil.records.database import is_url
from keras_mmil.records.keys import columns_in
from keras_mmil.records.moments import Past
from keras_mmil.records.paths import alternative, child, place
from keras_mmil.records.reading import numbers_at, values_at

__all__ = ["OwnData", "Split"]

_LEAST = 10  # records
_FEW = 10  # different integers that may well be classes
_MOST_SHOWN = 8  # classes
_PARTS = ("training", "validation", "test")
_FIELDS = ("target", "split_by", "time")  # settings that name a field
_ONE_IN = 5  # records is for test, and of the others for validation
_LEAST_GROUPS = 3


class Split(NamedTuple):
    """Numbers of the records of each part, increasing.

    Random parts have none for validation: members of a network are judged by what each has not
    seen, see `NestedClassifier`.
    """

    train: Ints
    valid: Ints
    test: Ints


@dataclass(frozen=True, eq=False)
class OwnData:
    """Own records, with the schema of all of them, the path of the target, and the split.

    `is_number` says whether the target is a number, rather than a class; `about` are lines of text
    about records, target and parts; `files` are checksums, see `Read`; `times` are those by which
    members of bags were left out.
    """

    name: str
    records: pa.Array
    schema: Schema
    target: str
    is_number: bool
    split: Split
    about: tuple[str, ...]
    files: Mapping[str, str]
    times: Mapping[str, str | None]

    @classmethod
    def of(cls, settings: TrainSettings) -> Self:
        """Read the data of a training; errors name the option that does not fit them."""
        records, links, unread, files = read(settings)
        if not len(records):
            raise ValueError(f"Expected at least one record. Received: none in {settings.data}")
        past = None
        with users_errors():
            if settings.as_of is not None:
                past = Past(Schema.infer(records), settings.as_of, settings.times)
                records = past.of(records)
            schema = Schema.infer(records, settings.choices, links)
        if lost := settings.choices.keys() - schema.choices.keys():
            raise ValueError(
                "Expected choices about fields that the records have, as --schema. "
                f"Received: {min(lost)}{did_you_mean(min(lost), _paths(schema))}"
            )
        found = _Reader(_with_paths(settings, schema), records, schema, unread).read()
        if past is not None:
            found["about"] = (*found["about"], *past.said)
        return cls(**found, files=files, times={} if past is None else past.chosen)

    def take(self, chosen: Ints) -> pa.Array:
        """Some of the records."""
        return self.records.take(pa.array(chosen))

    def schema_of_training(self) -> Schema:
        """The schema of the records for training, inferred without the others."""
        train = self.take(self.split.train)
        schema = Schema.infer(train, self.schema.choices, self.schema.links)
        for path, kind in self.schema.choices.items():
            plain = place(path)
            if plain != path and plain in schema and path == alternative(plain, schema[plain].type):
                schema[plain] = kind  # as values of the other types are in other parts alone
        return schema

    def parts(self) -> Array:
        """The part of each record, strings [records]; empty for those that are left out."""
        names = np.full(len(self.records), "", "<U10")
        for name, chosen in zip(_PARTS, self.split, strict=True):
            names[chosen] = name
        return names


def _with_paths(settings: TrainSettings, schema: Schema) -> TrainSettings:
    """The settings with the paths of fields that are named without quotation marks."""
    paths: dict[str, Any] = {}
    for option in _FIELDS:
        name = getattr(settings, option)
        if name is not None and name not in schema and child("", name) in schema:
            paths[option] = child("", name)
    return replace(settings, **paths)


@dataclass(frozen=True, eq=False)
class _Reader:
    """Settings, records, their schema, whose kinds are chosen here, and unread tables."""

    settings: TrainSettings
    records: pa.Array
    schema: Schema
    unread: Sequence[str]

    def read(self) -> dict[str, Any]:
        """The attributes of `OwnData`."""
        settings, schema = self.settings, self.schema
        for option in _FIELDS:
            self._check_field(option)
        is_number = self._choose_kind()
        is_left, about = self._usable()
        chosen = np.flatnonzero(is_left)
        values = values_at(schema, self.records.take(pa.array(chosen)), settings.target).values
        classes: Ints = np.zeros(len(chosen), np.int64)
        if is_number:
            about.append(self._about_number(arrow.as_numpy(values)))
        else:
            names, classes = _classes(values)
            if all(isinstance(name, float) and name.is_integer() for name in names):
                names = [int(name) for name in names]
            names = list(map(bool, names)) if schema[settings.target].kind == "boolean" else names
            about.append(self._about_classes(names, classes))
        split, how = self._split(chosen, classes, is_number)
        if not is_number:
            self._check_classes(names, classes, split)
        pairs = zip(_PARTS, split, strict=True)
        sizes = ", ".join(f"{len(part):,} for {name}" for name, part in pairs if len(part))
        about.append(f"Parts: {sizes}; {how}")
        return {
            "name": _name(settings.data),
            "records": self.records,
            "schema": schema,
            # Values of the other types are left out, so that the path needs no type.
            "target": place(settings.target),
            "is_number": is_number,
            "split": Split(*(chosen[part] for part in split)),
            "about": tuple(about),
        }

    def _check_field(self, option: str) -> None:
        path, flag = getattr(self.settings, option), _flag(option)
        if path is None:
            return
        if path not in self.schema:
            hint = ""
            if len(self.records) == 1:
                hint = (
                    ". The data are one record: --records KEY reads the list of records in it that "
                    "has this key, --records '*' each of its values"
                )
            raise ValueError(
                f"Expected a field of the records as {flag}. "
                f"Received: {path}{did_you_mean(path, _paths(self.schema))}{hint}"
            )
        if option != "target" and path == self.settings.target:
            raise ValueError(f"Expected another field than the target. Received: {flag} {path}")
        try:
            values_at(self.schema, self.records, path)
        except ValueError as error:
            raise ValueError(f"{error}, as {flag}") from error

    def _choose_kind(self) -> bool:
        """Choose the kind of the target, number or classes; whether it is a number."""
        target, task, schema = self.settings.target, self.settings.task, self.schema
        part = schema[target]
        if part.kind == "constant":
            raise ValueError(
                f"Expected different values to predict. Received: --target {target}, {part.why}"
            )
        if task is None and part.kind not in ("number", "boolean", "category"):
            hint = ". --task classification takes its values for classes"
            raise ValueError(
                "Expected a number, a boolean or a category to predict. Received: "
                f"--target {target}, which is {part.kind}: {part.why}"
                f"{hint if part.type == 'text' and part.kind != 'time' else ''}"
            )
        is_number = part.kind == "number" if task is None else task == "regression"
        if is_number and part.type == "boolean":  # they are 0 and 1
            return True
        if part.is_two_words and not is_number:  # classes keep the names that the data have
            schema[target] = "category"
            return False
        if is_number != (part.kind == "number") and (is_number or part.kind not in _CLASSES):
            try:
                schema[target] = "number" if is_number else "category"
            except ValueError as error:
                raise ValueError(f"{error}, for --task {task}") from error
        return is_number

    def _usable(self) -> tuple[Bools, list[str]]:
        """Which records can be used, and a line about the others."""
        n, source = len(self.records), _name(self.settings.data)
        is_left, without = np.ones(n, bool), []
        for option in _FIELDS:
            path = getattr(self.settings, option)
            if path is None:
                continue
            at = values_at(self.schema, self.records, path).at
            if at is not None:
                has = np.zeros(n, bool)
                has[at] = True
                without.append(f"{n - len(at):,} without {path}")
                is_left &= has
        links = self.schema.links
        about = f"Records: {n:,}{'' if links is None else f' rows of {links.top}'} in {source}"
        if self.unread:
            about += f"; not read are the tables {', '.join(self.unread)}"
        if without:
            about += f"; left out are {', '.join(without)}"
        if is_left.sum() < _LEAST:
            raise ValueError(
                f"Expected at least {_LEAST} records for training, validation and test. "
                f"Received: {is_left.sum()} of {n} in {source}"
                f"{''.join(f', {each}' for each in without)}"
            )
        lines = [about]
        if links is not None and not self.settings.keys:
            keys = (" = ".join(", ".join(columns_in(side)) for side in key) for key in links.keys)
            lines.append(f"Keys: {'; '.join(keys)}")
        return is_left, lines

    def _about_number(self, values: Array) -> str:
        target, y = self.settings.target, values.astype(np.float64)
        if y.min() == y.max():
            raise ValueError(
                f"Expected different numbers to predict. Received: --target {target}, which is "
                f"always {number_text(y[0])}"
            )
        about = f"{number_text(y.min())} to {number_text(y.max())}, {y.mean():.6g} on average"
        few = len(np.unique(y)) <= _FEW and (y == np.floor(y)).all()
        hint = ". If it stands for classes: --task classification" if few else ""
        return f"Target: {target}, a number: {about}{hint}"

    def _about_classes(self, names: list[Any], classes: Ints) -> str:
        target, counts = self.settings.target, np.bincount(classes)
        if len(names) < 2:
            raise ValueError(
                f"Expected at least two classes to predict. Received: --target {target}, which is "
                f"{names[0]!r} in all {len(classes)} records that have it"
            )
        order = np.argsort(-counts, kind="stable")
        shown = [f"{names[i]} {percent(counts[i] / len(classes))}" for i in order[:_MOST_SHOWN]]
        more = ", …" if len(names) > _MOST_SHOWN else ""
        return f"Target: {target}, {len(names)} classes: {', '.join(shown)}{more}"

    def _split(self, chosen: Ints, classes: Ints, is_number: bool) -> tuple[Split, str]:
        """Positions in the chosen records, and how they are split."""
        settings, records = self.settings, self.records.take(pa.array(chosen))
        path = settings.split_by or settings.time
        try:
            if settings.split_by is not None:
                values = values_at(self.schema, records, settings.split_by).values
                _, groups = _classes(values)
                split = by_group(groups, None if is_number else classes, settings.seed)
                n = [len(np.unique(groups[part])) for part in split]
                how = f"{n[0]:,}, {n[1]:,} and {n[2]:,} different values of {path}, which is not "
                how += "read, as those of the test are new"
                self.schema.drop(settings.split_by)
            elif settings.time is not None:
                split, first, last = by_time(numbers_at(self.schema, records, settings.time))
                shown = [_time_text(x, self.schema[settings.time].kind) for x in (first, last)]
                how = f"by {path}, validation from {shown[0]} on, test from {shown[1]} on"
            else:
                split, path = at_random(classes, settings.seed), None
                how = "random" + ("" if is_number else ", stratified by class")
        except ValueError as error:
            if path is None:
                raise
            flag = _flag("split_by" if settings.split_by else "time")
            raise ValueError(f"{error}, for {flag} {path}") from error
        needed = dict(zip(_PARTS, split, strict=True))
        if path is None:
            del needed["validation"]
        if empty := [name for name, part in needed.items() if not len(part)]:
            raise ValueError(
                f"Expected records for each part. Received: none for {' and '.join(empty)}"
            )
        if settings.limit is not None and settings.limit < max(map(len, split)):
            random = np.random.default_rng(settings.seed)
            split = Split(*(_at_most(settings.limit, part, random) for part in split))
            how += f"; at most {settings.limit:,} of each part"
        return split, how

    def _check_classes(self, names: list[Any], classes: Ints, split: Split) -> None:
        """Raise ValueError if no record of a class is for training."""
        lost = np.setdiff1d(classes[np.concatenate(split)], classes[split.train])
        if len(lost):
            n = int(np.isin(classes[np.concatenate(split)], lost).sum())
            shown = ", ".join(repr(names[i]) for i in lost[:_MOST_SHOWN])
            raise ValueError(
                "Expected records of each class for training. "
                f"Received: none of {shown}, which is in {n} records for validation or test"
            )


_CLASSES = ("boolean", "category")


def _name(data: str) -> str:
    """Of a file, a folder, or a database."""
    return Path(data.partition("?")[0] if is_url(data) else data).name


def _paths(schema: Schema) -> Iterator[str]:
    return (part.path for part in schema)


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _classes(values: pa.Array) -> tuple[list[Any], Ints]:
    """The distinct values, sorted, and the position of each value among them."""
    if pa.types.is_dictionary(values.type):  # which may list values that do not occur
        values = values.dictionary_decode()
    encoded = pc.dictionary_encode(values)
    names = encoded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    return [names[i] for i in order], rank[np.asarray(encoded.indices)]


def _at_most(limit: int, part: Ints, random: np.random.Generator) -> Ints:
    return part if len(part) <= limit else np.sort(random.choice(part, limit, replace=False))


def _time_text(time: float, kind: str) -> str:
    return time_text(time).replace("T", " ") if kind == "time" else number_text(time)


def at_random(classes: Ints, seed: int) -> Split:
    """A random fifth for test, stratified by class, the rest for training, some of each class."""
    test = _sample(classes, np.random.default_rng(seed))
    return Split(np.setdiff1d(np.arange(len(classes)), test), test[:0], test)


def by_group(groups: Ints, classes: Ints | None, seed: int) -> Split:
    """Random parts with no group in two of them, stratified by class, if there are classes."""
    n = len(np.unique(groups))
    if n < _LEAST_GROUPS:
        raise ValueError(
            f"Expected at least {_LEAST_GROUPS} different values, one for each part. Received: {n}"
        )
    test = _fold(groups, classes, seed)
    others = np.setdiff1d(np.arange(len(groups)), test)
    valid = others[_fold(groups[others], None if classes is None else classes[others], seed)]
    return Split(np.setdiff1d(others, valid), valid, test)


def by_time(times: Floats) -> tuple[Split, float, float]:
    """The latest records for test, those before for validation; and the first times of both.

    Records of the same time are in the same part.
    """
    first_of_test = _start_of_last(times)
    first_of_valid = _start_of_last(times[times < first_of_test])
    is_test, is_valid = times >= first_of_test, times >= first_of_valid
    parts = (~is_valid, is_valid & ~is_test, is_test)
    return Split(*map(np.flatnonzero, parts)), first_of_valid, first_of_test


def _sample(classes: Ints, random: np.random.Generator) -> Ints:
    """A random fifth of the records of each class, but never all of one."""
    order = random.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    is_first: Bools = np.diff(classes[order], prepend=-1) != 0
    left = order[~is_first]
    return np.sort(left[random.integers(min(_ONE_IN, len(left))) :: _ONE_IN])


def _fold(groups: Ints, classes: Ints | None, seed: int) -> Ints:
    n_splits = min(_ONE_IN, len(np.unique(groups)))
    has_many = classes is not None and np.bincount(classes).max() >= n_splits
    kind = StratifiedGroupKFold if has_many else GroupKFold
    folds = kind(n_splits, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        _, chosen = next(folds.split(groups, classes, groups))
    return chosen


def _start_of_last(times: Array) -> float:
    """The time from which on about a fifth of the records are."""
    different, counts = np.unique(times, return_counts=True)
    if len(different) < 2:
        raise ValueError(
            "Expected at least 3 different times, one for each part. "
            "Received: fewer, or nearly all records of one time"
        )
    after = np.cumsum(counts[::-1])[::-1][1:]  # records from each time on, except the first
    return float(different[1:][np.argmin(np.abs(after - len(times) / _ONE_IN))])
