"""The commands: their options, what these must fulfil, and how they are run.

What needs the library is imported when a command runs, so that nothing else waits for TensorFlow.
"""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace

from keras_mmil_cli import checks
from keras_mmil_cli.listing import catalogue, listing, options_module, version
from keras_mmil_cli.quiet import quiet, start_worker

__all__ = ["make_parser"]

_FORMS = ("sql", "prolog", "python", "javascript", "json", "savedmodel")
_DEMO = ("seed", "epochs", "limit", "max_clusters", "out", "resume", "verbose")

_options = options_module()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line; each command has a function `command` of its options."""
    parser = argparse.ArgumentParser(
        prog="keras-mmil",
        description="Learn from nested bags, and read what the network learned as rules.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version()}")
    parser.add_argument(
        "--debug", action="store_true", help="show tracebacks of errors, and TensorFlow's log"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo", help="train on made-up data, print the rules and one explanation"
    )
    demo.add_argument(
        "data",
        nargs="?",
        choices=("records", "digits"),
        default="records",
        help="customers with orders of items, in linked tables, as for `train` (the default); or "
        "bags of bags of pictures of digits",
    )
    _options.add_options(demo, _options.RunOptions, _DEMO)
    demo.set_defaults(command=_demo, verbose=None)

    train = commands.add_parser(
        "train",
        help="train a network on your own records or tables, and read its rules",
        description="Train a network on your own data, test it, and read its rules.",
    )
    _options.add_options(train, _options.TrainOptions)
    train.set_defaults(command=_train)

    predict = commands.add_parser(
        "predict", help="predict new records with a trained run, and explain the predictions"
    )
    predict.add_argument("run", metavar="RUN", help="folder of a finished `keras-mmil train`")
    predict.add_argument("data", metavar="DATA", help=f"as of the run: {_options.DATA}")
    predict.add_argument(
        "--by",
        choices=["network", "rules"],
        default="network",
        help="what predicts; the rules of classes may be right more often than the network",
    )
    predict.add_argument("--explain", action="store_true", help="say why, by the rules")
    predict.add_argument(
        "--formal", action="store_true", help="say why in formal syntax, instead of in words"
    )
    predict.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="FIELD",
        help="a field to write beside the prediction; may be repeated; by default the key of the "
        "records: an identifier that each has and no other, or the ids that linked tables refer to",
    )
    to = predict.add_mutually_exclusive_group()
    to.add_argument("--out", help="file to write to; the standard output by default")
    to.add_argument("--table", metavar="NAME", help="new table to write to, in a database")
    predict.add_argument(
        "--format", choices=("jsonl", "csv"), help="by default that of --out, else jsonl"
    )
    predict.set_defaults(command=_predict)

    export = commands.add_parser(
        "export", help="write the rules of a run as a query or program, or its network"
    )
    export.add_argument("run", metavar="RUN", help="folder of a run with rules")
    export.add_argument("--to", required=True, choices=_FORMS, help="what to write")
    export.add_argument(
        "--out",
        help="file to write to, the standard output by default; for savedmodel a new folder",
    )
    export.add_argument(
        "--dialect",
        choices=("sqlite", "duckdb", "postgresql"),
        help="of a query on the tables of a run; sqlite by default",
    )
    export.add_argument(
        "--data", metavar="DATA", help="records for --labels, or for facts of the Prolog program"
    )
    export.add_argument(
        "--labels",
        metavar="FILE",
        help="Parquet file for a table of the records in --data, which the rules then read",
    )
    export.set_defaults(command=_export)

    run = commands.add_parser("run", help="reproduce an experiment of the paper")
    run.add_argument("experiment", help="one of those that `keras-mmil list` prints")
    run.add_argument("--model", help="mmil, or mil where the experiment has it")
    run.add_argument(
        "--aggregation", help="of the bag-layers, for citations: mean (the default) or max"
    )
    run.add_argument(
        "--split",
        help="for citations: random, transductive, scarce or temporal; for others, the form of the "
        "data",
    )
    _options.add_options(run, _options.RunOptions)
    run.set_defaults(command=_run)

    explain = commands.add_parser("explain", help="show in texts why a trained run labels them so")
    explain.add_argument("run", nargs="+", help="folder of a run on texts; or of several")
    explain.add_argument("--text", action="append", required=True, help="may be repeated")
    explain.add_argument(
        "--format", choices=("terminal", "markdown", "html"), default="terminal", help="of output"
    )
    explain.set_defaults(command=_explain)

    report = commands.add_parser("report", help="write the report of a run again: a page of HTML")
    report.add_argument("run", help="folder of a run with rules")
    report.add_argument("--out", help="path of the page; report.html in the folder by default")
    report.add_argument(
        "--without-data",
        dest="include_data",
        action="store_false",
        help="show rules, figures and definitions only",
    )
    report.set_defaults(command=_report)

    list_ = commands.add_parser("list", help="list the experiments")
    list_.set_defaults(command=_list)
    return parser


# Running the commands


def _demo(options: Namespace) -> None:
    _options.check(options, _options.RunOptions)
    if options.verbose is None:
        options.verbose = 1 if options.data == "records" else 2
    with quiet(options):
        from keras_mmil.cli.demo import demo, demo_of_digits
        from keras_mmil.cli.options import RunOptions
    (demo if options.data == "records" else demo_of_digits)(RunOptions.of(options))


def _train(options: Namespace) -> None:
    _options.check(options, _options.TrainOptions)
    checks.exists(options.data, "a file or a folder with data")
    if options.schema is not None:
        checks.exists(options.schema, "a file of a schema")
    checks.folder(options.out or _options.TrainOptions.of(options).default_out, options.resume)
    checks.target(options)
    with quiet(options):
        from keras_mmil.cli.options import TrainOptions
        from keras_mmil.cli.train import train
    train(TrainOptions.of(options))


def _predict(options: Namespace) -> None:
    checks.exists(options.run, "the folder of a run")
    checks.exists(options.data, "a file, a folder or a database with data")
    checks.trained(options.run)
    with quiet(options):
        from keras_mmil.cli.predict import predict
    n = predict(
        options.run,
        options.data,
        by=options.by,
        explain=options.explain,
        formal=options.formal,
        out=options.out,
        form=options.format,
        keep=options.keep,
        table=options.table,
    )
    if options.out or options.table:
        print(f"{n:,} predictions in {options.out or f'the table {options.table}'}")


def _export(options: Namespace) -> None:
    checks.exists(options.run, "the folder of a run")
    checks.export(options)
    with quiet(options):
        from keras_mmil.cli.export import export
    export(
        options.run,
        options.to,
        options.out,
        dialect=options.dialect,
        data=options.data,
        labels=options.labels,
    )
    if options.out is not None:
        print("\n".join(path for path in (options.out, options.labels) if path is not None))


def _run(options: Namespace) -> None:
    entry = checks.chosen(catalogue(), options)
    checks.run(entry, options)
    if options.out is not None:
        checks.folder(options.out, options.resume)
    with quiet(options):
        from joblib import parallel_config

        from keras_mmil.cli.options import RunOptions
        from keras_mmil.cli.run import run_seeds
        from keras_mmil.zoo.experiments.registry import registry
    with parallel_config("loky", initializer=None if options.debug else start_worker):
        run_seeds(registry[entry.key], RunOptions.of(options))


def _explain(options: Namespace) -> None:
    with quiet(options):
        from keras_mmil.cli.export import explain_texts
    color = sys.stdout.isatty()
    print(explain_texts(options.run, options.text, form=options.format, color=color))


def _report(options: Namespace) -> None:
    checks.exists(options.run, "the folder of a run")
    with quiet(options):
        from keras_mmil.cli.finished_run import page_of_run
    print(page_of_run(options.run, options.out, include_data=options.include_data))


def _list(options: Namespace) -> None:
    print(listing(catalogue()))
