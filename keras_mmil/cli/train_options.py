"""What is asked of a training on own data, and what decides its outcome."""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Self

from keras_mmil._support.types import PathLike
from keras_mmil.cli.own_files import checksums
from keras_mmil.cli.run_folder import SETTINGS, read_settings
from keras_mmil.records import Schema
from keras_mmil.records.linking import Columns

__all__ = ["TrainOptions", "TrainSettings", "how_read"]


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What is asked of a training on own data.

    Attributes:
        data: path of the records: a file, or a folder.
        target: path of the field to predict.
        task: "classification" or "regression"; None for what the target's kind says.
        tables: names of those of the folder to read; None for all.
        keys: pairs of a column that refers and the column that it refers to, or of tuples of such.
        top: name of the table whose rows are the records; None for the one that has the target.
        orphans: "raise" or "drop", what to do with rows that refer to none.
        records, decimal: how files are read, same as in `keras_mmil.records.Files`.
        schema: file of a schema, whose choices are made; None for no choices.
        split_by: path of a field; no value of it is then in two parts.
        time: path of a field; the latest records are then for test.
        epochs, batch_size, learning_rate, patience: as of `NestedClassifier`.
        seed: of the division, the weights and the clusters.
        limit: the greatest number of records in each part; None for all.
        max_clusters: greatest number to try at each level.
        out: folder to write to; None for one in `runs/` that is named after the data.
        resume: whether to continue the training in the folder, if there is one.
        replace: whether to replace the run in the folder, if there is one and it is not resumed.
        verbose: 0, 1 or 2, as of `keras.Model.fit`.
    """

    data: str
    target: str
    task: str | None = None
    tables: list[str] | None = None
    keys: list[tuple[Columns, Columns]] = field(default_factory=list)
    top: str | None = None
    orphans: str = "raise"
    records: str | None = None
    decimal: str | None = None
    schema: str | None = None
    split_by: str | None = None
    time: str | None = None
    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    patience: int = 10
    seed: int = 0
    limit: int | None = None
    max_clusters: int | None = None
    out: str | None = None
    resume: bool = False
    replace: bool = False
    verbose: int = 1

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Those among the parsed arguments of a command; the defaults for what is not given."""
        given = {each.name: getattr(options, each.name, None) for each in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """What decides the outcome. The folder of a run keeps it in `settings.json`.

    Attributes:
        files: SHA-256 of the files of the data, by their names.
        choices: kinds by path that the given schema has.
        data, target, task, tables, keys, top, orphans, records, decimal, split_by, time, epochs,
        batch_size, learning_rate, patience, seed, limit: as of `TrainOptions`; `data` is absolute,
            and keys and top may be those of the given schema.
    """

    data: str
    files: Mapping[str, str]
    target: str
    task: str | None
    tables: list[str] | None
    keys: list[list[str | list[str]]]
    top: str | None
    orphans: str
    records: str | None
    decimal: str | None
    choices: Mapping[str, str]
    split_by: str | None
    time: str | None
    epochs: int
    batch_size: int
    learning_rate: float
    patience: int
    seed: int
    limit: int | None

    @classmethod
    def of(cls, options: TrainOptions) -> Self:
        """The settings of a training.

        Raises:
            FileNotFoundError: if there are no data.
            ValueError: if the folder has no such tables, or the given schema is none, or of tables
                that are linked otherwise.
        """
        names = {each.name for each in fields(cls)} & {each.name for each in fields(options)}
        given = {name: getattr(options, name) for name in names}
        given |= {"data": str(Path(options.data).absolute()), "choices": {}}
        given["keys"] = _plain(options.keys)
        if options.schema is not None:
            given |= _of_schema(options.schema, given)
        files = checksums(options.data, options.tables, given["keys"], given["top"])
        return cls(files=files, **given)

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], path: Path) -> Self:
        """Settings that were read from a file.

        Args:
            content: what the file holds.
            path: of the file, for errors.

        Raises:
            ValueError: if they are none.
        """
        if content.keys() != _TYPES.keys() or not all(
            isinstance(content[name], kind) for name, kind in _TYPES.items()
        ):
            raise ValueError(
                "Expected the settings of `keras-mmil train`. "
                f"Received: {path}, {json.dumps(content):.300}"
            )
        return cls(**content)


# Of settings that are read.
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("data", "target", "orphans"), str),
    **dict.fromkeys(("task", "top", "records", "decimal", "split_by", "time"), str | NoneType),
    **dict.fromkeys(("epochs", "batch_size", "patience", "seed"), int),
    **dict.fromkeys(("files", "choices"), dict),
    "tables": list | NoneType,
    "keys": list,
    "learning_rate": float,
    "limit": int | NoneType,
}


def how_read(run: PathLike) -> dict[str, str | None]:
    """How a run read its files: `records` and `decimal` of `keras_mmil.records.Files`.

    Empty for a saved estimator, which is of no training on files.
    """
    path = Path(run) / SETTINGS
    if not path.is_file():
        return {}
    settings = TrainSettings.from_dict(read_settings(run), path)
    return {"records": settings.records, "decimal": settings.decimal}


def _plain(keys: Iterable[tuple[Columns, Columns]]) -> list[list[str | list[str]]]:
    """Keys as JSON knows them."""
    return [[side if isinstance(side, str) else list(side) for side in pair] for pair in keys]


def _of_schema(path: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a file of a schema has: choices, and how tables are linked."""
    schema = Schema.load(path)
    found: dict[str, Any] = {"choices": schema.choices}
    if schema.links is None:
        return found
    keys = _plain(schema.links.keys)
    if given["keys"] not in ([], keys) or given["top"] not in (None, schema.links.top):
        raise ValueError(
            f"Expected the keys of the schema in {path}, {keys} from {schema.links.top!r}. "
            f"Received: {given['keys']} from {given['top']!r}"
        )
    return found | {"keys": keys, "top": schema.links.top}
