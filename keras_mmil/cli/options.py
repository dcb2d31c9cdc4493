"""The options of runs: on the command line, in Python, and in the settings that a run keeps.

The command line runs this file by itself, without the library, so that help and errors in options
do not wait for TensorFlow. So it imports only the standard library.
"""

import argparse
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from keras_mmil.zoo.experiments.experiment import Experiment

__all__ = ["RunOptions", "Settings", "TrainOptions", "TrainSettings", "add_options", "check"]

# A column of a table, "orders.customer", or several that are one key.
Columns: TypeAlias = str | tuple[str, ...]

_COLUMN = re.compile(r"[^=]*[^=.][.][^=]+")
_SEEDS = 2**32  # as many as NumPy has
DATA = (
    "file that ends in .jsonl, .ndjson, .json, .parquet, .csv or .tsv, folder of such files, dump "
    "of MySQL that ends in .sql, or URL of a database, such as sqlite:///shop.db"
)
_TABLES = "linked tables, of a database or one a file in a folder"
_ONE_OF = "one of"


_KINDS = ("number", "category", "boolean", "text", "time", "bag", "record", "vector")


def _option(
    default: Any = MISSING,
    *,
    flag: str = "",
    group: str = "",
    least: int | None = None,
    **arguments: Any,
) -> Any:
    """A field that is an option of the command line, too, with arguments of `add_argument`.

    The flag is the name of the field by default. Options of a group are listed together, and those
    in `_ONE_OF` exclude each other. Numbers are at least `least`.
    """
    made = {"default_factory": list} if default == [] else {"default": default}
    about = {"flag": flag, "group": group, "least": least, "arguments": arguments}
    return field(metadata={"option": about}, **made)


def _key(text: str) -> tuple[Columns, Columns]:
    """A key of tables, from the command line."""
    sides = [_columns(side) for side in text.split("=")]
    n = [1 if isinstance(side, str) else len(side) for side in sides]
    if len(sides) != 2 or n[0] != n[1] or not all(sides):
        raise argparse.ArgumentTypeError(
            "expected a pair such as orders.customer=customers.id, or of several columns "
            f"items.shop,items.number=orders.shop,orders.number, received {text!r}"
        )
    return sides[0], sides[1]


def _kind(text: str) -> tuple[str, str]:
    """A field and its kind, from the command line."""
    field_, _, kind = text.rpartition("=")
    if not field_ or kind not in _KINDS:
        raise argparse.ArgumentTypeError(
            f"expected FIELD=KIND, with a kind of {', '.join(_KINDS)}, received {text!r}"
        )
    return field_, kind


def _columns(text: str) -> Columns:
    columns = tuple(text.split(","))
    if len(columns) > 1 and all(map(_COLUMN.fullmatch, columns)):
        return columns
    return text if _COLUMN.fullmatch(text) else ""


class _Options:
    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Those among the parsed arguments of a command, and the defaults of the others."""
        known: Any = cls
        values = {each.name: getattr(options, each.name, None) for each in fields(known)}
        return cls(**{name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class RunOptions(_Options):
    """Options of a run of an experiment; None for the experiment's own value, or for no limit.

    Attributes:
        replace: whether to replace the run in the folder, if there is one and it is not resumed.
        others: see their help.
    """

    seed: int = _option(0, least=0, type=int, help="of data, weights and clusters")
    seeds: int = _option(1, least=1, type=int, help="number of runs, from --seed upwards")
    epochs: int | None = _option(
        None, least=1, type=int, help="of the training; the experiment's by default"
    )
    limit: int | None = _option(
        None,
        least=2,
        type=int,
        metavar="N",
        help="use at most N top-bags of each set (of unlabelled ones twice as many)",
    )
    source: str | None = _option(None, help="of the data; the paper's by default")
    vat: bool = _option(
        False, action="store_true", help="virtual adversarial training, also on unlabelled data"
    )
    folds: int | None = _option(None, type=int, help="of a cross-validation; 0 for none")
    rounds: int | None = _option(None, least=1, type=int, help="of the cross-validation")
    jobs: int | None = _option(None, type=int, help="folds to train in parallel; 1 by default")
    rules: bool = _option(
        True, flag="--no-rules", action="store_false", help="only train and test the network"
    )
    max_clusters: int | None = _option(
        None, least=2, type=int, help="to try at each level; the experiment's by default"
    )
    record: bool = _option(
        False,
        action="store_true",
        help="add the figures to benchmarks/results of the checkout that this program runs from",
    )
    out: str | None = _option(
        None, help="folder to write to; by default runs/EXPERIMENT-seedN, or runs/demo"
    )
    resume: bool = _option(False, action="store_true", help="continue the run in the folder")
    replace: bool = False
    verbose: int = _option(2, type=int, choices=(0, 1, 2), help="as in Keras")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides the outcome of a run. Its folder keeps them in `settings.json`.

    `experiment` is its key in the registry, `adversarial` the option `vat`; others are as in
    `RunOptions`, with the experiment's values for None.
    """

    experiment: str
    adversarial: bool
    source: str
    seed: int
    epochs: int
    limit: int | None
    folds: int

    @classmethod
    def of(cls, experiment: "Experiment", options: RunOptions) -> "Settings":
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


@dataclass(frozen=True, kw_only=True)
class TrainSettings(_Options):
    """What decides the outcome of a training on own data. A run keeps it in `settings.json`.

    Attributes:
        data: path of the records, which is absolute in the settings of a run, or URL.
        keys: pairs of a column that refers and the column that it refers to, or of tuples of
            columns.
        files: SHA-256 of the files or tables of the data, by their names.
        choices: kinds by path, from the schema that was passed.
        times: of the members of bags, that were chosen for `as_of`.
        others: see their help.
    """

    data: str = _option(flag="data", metavar="DATA", help=DATA)
    target: str = _option(required=True, metavar="FIELD", help="what to predict")
    task: str | None = _option(
        None,
        choices=("classification", "regression"),
        help="by default, numbers are for regression, booleans and categories for classification",
    )
    keys: list[tuple[Columns, Columns]] = _option(  # noqa: RUF009 - it calls `field`
        [],
        flag="--key",
        group=_TABLES,
        type=_key,
        action="append",
        metavar="orders.customer=customers.id",
        help="a column that refers to another; may be repeated; by default those that a database "
        "declares, and those that names and values suggest. For a key of several columns, "
        "separate these by commas: items.shop,items.number=orders.shop,orders.number",
    )
    tables: list[str] | None = _option(  # noqa: RUF009 - it calls `field`
        None,
        group=_TABLES,
        nargs="+",
        metavar="NAME",
        help="to read; by default those that keys link",
    )
    top: str | None = _option(
        None,
        group=_TABLES,
        metavar="NAME",
        help="whose rows are the records; by default the table of the target",
    )
    orphans: str = _option(
        "raise",
        group=_TABLES,
        choices=("raise", "drop"),
        help="rows that refer to nothing are an error, or are left out",
    )
    hops: int = _option(
        0,
        group=_TABLES,
        least=0,
        type=int,
        metavar="N",
        help="how many times keys may lead back to a table, as from a user to others; 0 by default",
    )
    at_most: int | None = _option(
        None,
        group=_TABLES,
        least=1,
        type=int,
        metavar="N",
        help="rows in a bag, of larger ones a random sample; all by default",
    )
    records: str | None = _option(
        None,
        metavar="KEY",
        help="where the records are in a JSON object: the key of a list of records, or '*' for "
        "each value of the object",
    )
    decimal: str | None = _option(
        None, choices=(".", ","), help="the decimal separator in CSV files"
    )
    split_by: str | None = _option(
        None,
        group=_ONE_OF,
        metavar="FIELD",
        help="no value of it is in two of the parts for training, validation and test; by default "
        "a random fifth is for test",
    )
    time: str | None = _option(
        None, group=_ONE_OF, metavar="FIELD", help="the latest records are for test"
    )
    as_of: str | None = _option(
        None,
        metavar="FIELD",
        help="the moment when the target of a record is to be predicted: what is later is left out",
    )
    epochs: int = _option(100, least=1, type=int, help="at most; %(default)s by default")
    batch_size: int = _option(64, least=1, type=int, help="%(default)s by default")
    learning_rate: float = _option(4e-3, type=float, help="%(default)s by default")
    effort: str = _option(
        "auto",
        choices=("low", "auto", "high"),
        help="low: one network; auto: ten networks and trees; high: more of both",
    )
    class_weight: str | None = _option(
        None, choices=("balanced",), help="balanced: rare classes count as much as frequent ones"
    )
    aggregation: str = _option(
        "max|mean|sum", metavar="NAMES", help="of the bag-layers; %(default)s by default"
    )
    patience: int = _option(
        10,
        least=1,
        type=int,
        help="epochs without a lower loss on records that are held out after which training "
        "stops; %(default)s by default",
    )
    seed: int = _option(0, least=0, type=int, help="of the parts, the weights and the clusters")
    limit: int | None = _option(
        None, least=2, type=int, metavar="N", help="use at most N records of each part"
    )
    files: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def default_out(self) -> str:
        """The folder to write to, unless another is named."""
        stem = re.split(r"[\\/]", self.data.partition("?")[0].rstrip("\\/"))[-1].partition(".")[0]
        name = re.sub(r"[^\w.-]+", "-", f"{stem}-{self.target}-seed{self.seed}")
        return f"runs/{name}"


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainSettings):
    """Options of a training on own data: its settings, and the following.

    Attributes:
        replace: same as in `RunOptions`.
        others: see their help.
    """

    schema: str | None = _option(
        None,
        metavar="FILE",
        help="a schema.json whose choices to make, such as an edited one; or a JSON file of the "
        "choices alone, {FIELD: kind}",
    )
    drop: list[str] = _option(  # noqa: RUF009 - it calls `field`
        [], action="append", metavar="FIELD", help="to leave out; may be repeated"
    )
    kind: list[tuple[str, str]] = _option(  # noqa: RUF009 - it calls `field`
        [],
        type=_kind,
        action="append",
        metavar="FIELD=KIND",
        help=f"what to take a field for: {', '.join(_KINDS)}; may be repeated",
    )
    max_clusters: int | None = _option(
        None, least=2, type=int, help="to try at each level; 10 by default"
    )
    out: str | None = _option(None, help="folder to write to; runs/DATA-TARGET-seedN by default")
    resume: bool = _option(False, action="store_true", help="continue the run in the folder")
    replace: bool = False
    verbose: int = _option(1, type=int, choices=(0, 1, 2), help="0 for no progress bar")


def add_options(
    parser: argparse.ArgumentParser, kind: type, only: Collection[str] | None = None
) -> None:
    """Add the options of a class, or some of them by name, to the parser of a command."""
    groups: dict[str, Any] = {"": parser}
    for each in fields(kind):
        about = each.metadata.get("option")
        if about is None or (only is not None and each.name not in only):
            continue
        group, arguments = about["group"], dict(about["arguments"])
        if group == _ONE_OF and group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        elif group not in groups:
            groups[group] = parser.add_argument_group(group)
        flag = about["flag"] or _flag(each.name)
        if flag.startswith("-"):
            arguments["dest"] = each.name
        if each.default_factory is not MISSING:
            arguments["default"] = each.default_factory()
        elif each.default is not MISSING:
            arguments["default"] = each.default
        groups[group].add_argument(flag, **arguments)


def check(options: Any, kind: type) -> None:
    """Check the numbers among the options of a command; ValueError if one is out of range."""
    for each in fields(kind):
        value, least = getattr(options, each.name, None), None
        if about := each.metadata.get("option"):
            least = about["least"]
        if value is not None and least is not None and value < least:
            raise ValueError(f"Expected at least {least}. Received: {_flag(each.name)} {value}")
    rate = getattr(options, "learning_rate", None)
    if rate is not None and not 0 < rate < float("inf"):
        raise ValueError(f"Expected a number above 0. Received: --learning-rate {rate}")
    if options.seed + getattr(options, "seeds", 1) > _SEEDS:
        raise ValueError(f"Expected seeds below {_SEEDS}. Received: --seed {options.seed}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
