"""The commands for own data: their options, and how they are run."""

import argparse
import os
import re
from typing import Any

from keras_mmil_cli.checks import check_numbers
from keras_mmil_cli.quiet import quiet

__all__ = ["add_commands"]

_COLUMN = re.compile(r"[^=]*[^=.][.][^=]+")  # of a table
_DATA = "file that ends in .jsonl, .ndjson, .json, .parquet, .csv or .tsv, or folder"
_FORMS = ("sql", "prolog", "python", "json", "savedmodel")


def add_commands(commands: Any) -> None:
    """Add `train`, `predict` and `export` to the commands of a parser."""
    train = commands.add_parser(
        "train",
        help="train a network on your own records or tables, and read its rules",
        description="Train a network on your own data, test it, and read its rules.",
    )
    train.add_argument("data", metavar="DATA", help=f"{_DATA} of tables")
    train.add_argument("--target", required=True, metavar="FIELD", help="what to predict")
    train.add_argument(
        "--task",
        choices=("classification", "regression"),
        help="by default, numbers are for regression, booleans and categories for classification",
    )
    _add_tables(train)
    train.add_argument(
        "--records",
        metavar="KEY",
        help="where the records are in a JSON object: the key of a list of records, or '*' for "
        "each value of the object",
    )
    train.add_argument(
        "--decimal", choices=(".", ","), help="what separates decimals in files of CSV"
    )
    train.add_argument(
        "--schema",
        metavar="FILE",
        help="a schema.json whose choices to make, such as an edited one",
    )
    division = train.add_mutually_exclusive_group()
    division.add_argument(
        "--split-by",
        metavar="FIELD",
        help="no value of it is in two of the parts for training, "
        "validation and test, random by default",
    )
    division.add_argument("--time", metavar="FIELD", help="the latest records are for test")
    train.add_argument("--epochs", type=int, default=100, help="at most; %(default)s by default")
    train.add_argument("--batch-size", type=int, default=32, help="%(default)s by default")
    train.add_argument("--learning-rate", type=float, default=1e-3, help="%(default)s by default")
    train.add_argument(
        "--patience",
        type=int,
        default=10,
        help="epochs in which the loss on the records for validation may fail to fall; "
        "%(default)s by default",
    )
    train.add_argument(
        "--seed", type=int, default=0, help="of the parts, the weights and the clusters"
    )
    train.add_argument("--limit", type=int, metavar="N", help="use at most N records of each part")
    train.add_argument("--max-clusters", type=int, help="to try at each level; 10 by default")
    train.add_argument("--out", help="folder to write to; runs/DATA-TARGET-seedN by default")
    train.add_argument("--resume", action="store_true", help="continue the run in the folder")
    train.add_argument(
        "--verbose", type=int, choices=(0, 1, 2), default=1, help="0 for no progress bar"
    )
    train.set_defaults(command=_train)

    predict = commands.add_parser(
        "predict", help="predict new records with a trained run, and say why"
    )
    predict.add_argument("run", metavar="RUN", help="folder of a finished `keras-mmil train`")
    predict.add_argument("data", metavar="DATA", help=f"{_DATA}, as the run was trained on")
    predict.add_argument("--explain", action="store_true", help="say why, by the rules")
    predict.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="FIELD",
        help="a field to write beside the prediction, such as an id; may be given repeatedly",
    )
    predict.add_argument("--out", help="file to write to; the standard output by default")
    predict.add_argument(
        "--format", choices=("jsonl", "csv"), help="by default that of --out, else jsonl"
    )
    predict.set_defaults(command=_predict)

    export = commands.add_parser(
        "export", help="write the rules of a run as SQL, Prolog, Python or JSON, or its network"
    )
    export.add_argument("run", metavar="RUN", help="folder of a run with rules")
    export.add_argument("--to", required=True, choices=_FORMS, help="what to write")
    export.add_argument(
        "--out", help="file to write to, the standard output by default; of savedmodel a new folder"
    )
    export.add_argument(
        "--data", metavar="DATA", help="records for --labels, or to be facts of the Prolog program"
    )
    export.add_argument(
        "--labels",
        metavar="FILE",
        help="Parquet file to write the table to that the rules read, of the records in --data",
    )
    export.set_defaults(command=_export)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    tables = parser.add_argument_group("linked tables in a folder, one a file")
    tables.add_argument(
        "--key",
        dest="keys",
        type=_key,
        action="append",
        default=[],
        metavar="orders.customer=customers.id",
        help="a column that refers to another; may be given repeatedly. Of keys of several columns "
        "these, with commas: items.shop,items.number=orders.shop,orders.number",
    )
    tables.add_argument(
        "--tables", nargs="+", metavar="NAME", help="to read; by default those that keys name"
    )
    tables.add_argument(
        "--top", metavar="NAME", help="whose rows are the records; by default that of the target"
    )
    tables.add_argument(
        "--orphans",
        choices=("raise", "drop"),
        default="raise",
        help="rows that refer to nothing are an error, or are left out",
    )


def _key(text: str) -> tuple[str | tuple[str, ...], str | tuple[str, ...]]:
    sides = [_columns(side) for side in text.split("=")]
    n = [1 if isinstance(side, str) else len(side) for side in sides]
    if len(sides) != 2 or n[0] != n[1] or not all(sides):
        raise argparse.ArgumentTypeError(
            "expected a pair such as orders.customer=customers.id, or of several columns "
            f"items.shop,items.number=orders.shop,orders.number, received {text!r}"
        )
    return sides[0], sides[1]


def _columns(text: str) -> str | tuple[str, ...]:
    """A column, or several with commas between them; "" for none."""
    columns = tuple(text.split(","))
    if len(columns) > 1 and all(map(_COLUMN.fullmatch, columns)):
        return columns
    return text if _COLUMN.fullmatch(text) else ""


def _check_there(path: str, what: str) -> None:
    if not os.path.exists(path):
        raise FileNotFoundError(f"Expected {what}. Received: no {path}")


# The commands import the library when they run: nothing else should wait for TensorFlow.


def _train(options: argparse.Namespace) -> None:
    check_numbers(options)
    _check_there(options.data, "a file or a folder with data")
    if options.schema is not None:
        _check_there(options.schema, "a file of a schema")
    with quiet(options):
        from keras_mmil.cli.train import train
        from keras_mmil.cli.train_options import TrainOptions
    train(TrainOptions.of(options))


def _predict(options: argparse.Namespace) -> None:
    _check_there(options.run, "the folder of a run")
    _check_there(options.data, "a file or a folder with data")
    with quiet(options):
        from keras_mmil.cli.predict import predict
    n = predict(
        options.run,
        options.data,
        explain=options.explain,
        out=options.out,
        form=options.format,
        keep=options.keep,
    )
    if options.out is not None:
        print(f"{n:,} predictions in {options.out}")


def _export(options: argparse.Namespace) -> None:
    _check_there(options.run, "the folder of a run")
    _check_export(options)
    with quiet(options):
        from keras_mmil.cli.export import export
    export(options.run, options.to, options.out, data=options.data, labels=options.labels)
    written = [path for path in (options.out, options.labels) if path is not None]
    if options.out is not None:
        print("\n".join(written))


def _check_export(options: argparse.Namespace) -> None:
    is_model = options.to == "savedmodel"
    if is_model and options.out is None:
        raise ValueError("Expected --out, a new folder, for --to savedmodel. Received: none")
    if is_model and (options.data is not None or options.labels is not None):
        raise ValueError(
            "Expected rules to export, for --data and --labels. Received: --to savedmodel"
        )
    if options.labels is not None and options.data is None:
        raise ValueError(f"Expected --data, for --labels. Received: --labels {options.labels}")
    if options.data is not None:
        _check_there(options.data, "a file or a folder with data")
        if options.labels is None and options.to != "prolog":
            raise ValueError(
                "Expected --labels, a Parquet file for the table of the records, or --to prolog. "
                f"Received: --data {options.data} with --to {options.to}"
            )
