"""The command `keras-mmil`."""

import argparse
import errno
import os
import shlex
import sys
from collections.abc import Sequence

from keras_mmil_cli.checks import check_numbers, check_run, chosen
from keras_mmil_cli.library import catalogue, version
from keras_mmil_cli.listing import listing
from keras_mmil_cli.own_data import add_commands
from keras_mmil_cli.quiet import plain_warnings, quiet, start_worker

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: of the command line; those of the process by default.

    Returns:
        The exit code: 0; 2 after an error that the user can correct, which is printed; 1 after any
        other, or where nobody reads the output; 130 after an interruption by the keyboard.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    try:
        with plain_warnings(options):
            options.command(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"\nkeras-mmil: interrupted{_how_to_continue(options, arguments)}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # such as that of `keras-mmil list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if options.debug:
            raise
        status = getattr(error, "exit_status", None)  # of errors that say all there is to say
        if isinstance(status, int):
            print(f"keras-mmil: {error}", file=sys.stderr)
            return status
        if isinstance(error, MemoryError):
            print(f"keras-mmil: {_out_of_memory(error, options, arguments)}", file=sys.stderr)
            return 1
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            place = error.filename or getattr(options, "out", None) or "the folder of the output"
            told = f"no space is left on the disk of {place}"
            print(f"keras-mmil: {told}{_how_to_continue(options, arguments)}", file=sys.stderr)
            return 2
        if _is_users(error):
            print(f"keras-mmil: {error}", file=sys.stderr)
            return 2
        command = shlex.join(["keras-mmil", "--debug", *arguments])
        print(
            f"keras-mmil: internal error: {' '.join(f'{type(error).__name__}: {error}'.split())}\n"
            f"This is a fault of keras-mmil. Please report it, with what this prints: {command}",
            file=sys.stderr,
        )
        return 1
    return 0


def _is_users(error: Exception) -> bool:
    """Whether an error is one that the user can correct.

    The library says what it expected, and what it received, wherever it refuses something.
    """
    return isinstance(error, OSError | ImportError) or (
        isinstance(error, ValueError | TypeError | KeyError)
        and "xpected" in str(error)
        and "Received: " in str(error)
    )


def _out_of_memory(
    error: MemoryError, options: argparse.Namespace, arguments: Sequence[str]
) -> str:
    told = " ".join(f"the memory of this machine does not suffice: {error}".split()).rstrip(":")
    less = "; use fewer records, such as with --limit" if "limit" in options else ""
    return f"{told}{less}{_how_to_continue(options, arguments)}"


def _how_to_continue(options: argparse.Namespace, arguments: Sequence[str]) -> str:
    """The same command with --resume, if it has that."""
    if "resume" not in options:
        return ""
    more = [] if options.resume else ["--resume"]
    return f". To continue: {shlex.join(['keras-mmil', *arguments, *more])}"


def _parser() -> argparse.ArgumentParser:
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
        help="customers with orders of items, in linked tables, as `train` does (by default); or "
        "bags of bags of pictures of digits",
    )
    _add_training_options(demo, "runs/demo, or runs/demo-digits")
    demo.set_defaults(command=_demo)

    add_commands(commands)

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
    run.add_argument("--seeds", type=int, default=1, help="number of runs, from --seed upwards")
    run.add_argument("--folds", type=int, help="of a cross-validation; 0 for none")
    run.add_argument("--rounds", type=int, help="of the cross-validation")
    run.add_argument("--jobs", type=int, help="folds to train side by side; 1 by default")
    run.add_argument(
        "--no-rules", dest="rules", action="store_false", help="only train and test the network"
    )
    run.add_argument("--source", help="of the data; the paper's by default")
    run.add_argument(
        "--vat", action="store_true", help="virtual adversarial training, also on unlabelled data"
    )
    run.add_argument(
        "--record",
        action="store_true",
        help="add the figures to benchmarks/results of the checkout that this program runs from",
    )
    _add_training_options(run, None)
    run.set_defaults(command=_run)

    explain = commands.add_parser("explain", help="show in texts why a trained run labels them so")
    explain.add_argument("run", nargs="+", help="folder of a run on texts; or of several")
    explain.add_argument("--text", action="append", required=True, help="may be given repeatedly")
    explain.add_argument(
        "--format", choices=("terminal", "markdown", "html"), default="terminal", help="of output"
    )
    explain.set_defaults(command=_explain)

    report = commands.add_parser("report", help="write the report of a run anew: a page of HTML")
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


def _add_training_options(parser: argparse.ArgumentParser, out: str | None) -> None:
    parser.add_argument("--seed", type=int, default=0, help="of data, weights and clusters")
    parser.add_argument("--epochs", type=int, help="of the training; the experiment's by default")
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="use at most N top-bags of each set (of unlabelled ones twice as many)",
    )
    shown = out or "runs/EXPERIMENT-seedN"
    parser.add_argument("--out", help=f"folder to write to; {shown} by default")
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder")
    parser.add_argument(
        "--max-clusters", type=int, help="to try at each level; the experiment's by default"
    )
    parser.add_argument("--verbose", type=int, choices=(0, 1, 2), help="as in Keras")


# The commands import the library when they run: nothing else should wait for TensorFlow.


def _demo(options: argparse.Namespace) -> None:
    check_numbers(options)
    if options.verbose is None:
        options.verbose = 1 if options.data == "records" else 2
    with quiet(options):
        from keras_mmil.cli.options import RunOptions

        if options.data == "records":
            from keras_mmil.cli.demo import demo
        else:
            from keras_mmil.cli.demo_of_digits import demo_of_digits as demo
    demo(RunOptions.of(options))


def _run(options: argparse.Namespace) -> None:
    entry = chosen(catalogue(), options)
    check_run(entry, options)
    with quiet(options):
        from joblib import parallel_config

        from keras_mmil.cli.options import RunOptions
        from keras_mmil.cli.run import run_seeds
        from keras_mmil.zoo.experiments.registry import registry
    with parallel_config("loky", initializer=None if options.debug else start_worker):
        run_seeds(registry[entry.key], RunOptions.of(options))


def _explain(options: argparse.Namespace) -> None:
    with quiet(options):
        from keras_mmil.cli.explain import explain
    print(explain(options.run, options.text, form=options.format, color=sys.stdout.isatty()))


def _report(options: argparse.Namespace) -> None:
    with quiet(options):
        from keras_mmil.cli.page import page_of_run
    print(page_of_run(options.run, options.out, include_data=options.include_data))


def _list(options: argparse.Namespace) -> None:
    print(listing(catalogue()))
