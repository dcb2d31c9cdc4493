"""The command `keras-mmil`."""

import argparse
import os
import sys

__all__ = ["main"]


def main(arguments=None):
    """Run the command line.

    Args:
        arguments: list of str; those of the process by default.

    Returns:
        The exit code: 0, or 2 after an error that the user can mend, which is printed.
    """
    options = _parser().parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is imported
    try:
        options.command(options)
    except (ValueError, FileNotFoundError, FileExistsError, ImportError) as error:
        if options.debug:
            raise
        print(f"keras-mmil: {error}", file=sys.stderr)
        return 2
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="keras-mmil", description="Learn from nested bags, and read what was learned as rules."
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo", help="train on bags of bags of digits, print the rules and one explanation"
    )
    _add_training_options(demo, out="runs/demo")
    demo.set_defaults(command=_demo, replace=True, vat=False)

    run = commands.add_parser("run", help="reproduce an experiment of the paper")
    run.add_argument("experiment", help="one of those that `keras-mmil list` prints")
    run.add_argument("--variant", default="mmil", help="the model: mmil, or for imdb also mil")
    run.add_argument("--source", help="where the data come from; the paper's by default")
    run.add_argument(
        "--vat", action="store_true", help="virtual adversarial training, also on unlabelled data"
    )
    _add_training_options(run)
    run.set_defaults(command=_run, replace=False)

    explain = commands.add_parser("explain", help="show in texts why a trained run labels them so")
    explain.add_argument("run", nargs="+", help="folder of a run on texts; or of several")
    explain.add_argument("--text", action="append", required=True, help="may be given repeatedly")
    explain.add_argument(
        "--format", choices=("terminal", "markdown", "html"), default="terminal", help="of output"
    )
    explain.set_defaults(command=_explain)

    listing = commands.add_parser("list", help="list the experiments")
    listing.set_defaults(command=_list)
    return parser


def _add_training_options(parser, out=None):
    parser.add_argument("--seed", type=int, default=0, help="of data, weights and clusters")
    parser.add_argument("--epochs", type=int, help="the experiment's own by default")
    parser.add_argument(
        "--limit",
        "--reviews",
        type=int,
        metavar="N",
        help="use at most N top-bags of each set (of unlabelled ones twice as many)",
    )
    parser.add_argument("--out", default=out, help="folder for all that is made")
    parser.add_argument("--resume", action="store_true", help="go on with what is in the folder")
    parser.add_argument(
        "--max-clusters", type=int, help="to try at each level; the experiment's own by default"
    )
    parser.add_argument("--verbose", type=int, choices=(0, 1, 2), default=2, help="as in Keras")


# The commands import what they need when they run: `--help` should not wait for TensorFlow.


def _demo(options):
    from keras_mmil.cli.demo import demo

    demo(options)


def _run(options):
    from keras_mmil.cli.run import run
    from keras_mmil.zoo import registry

    found = [e for e in registry.values() if e.name == options.experiment]
    if not found:
        names = dict.fromkeys(experiment.name for experiment in registry.values())
        raise ValueError(
            f"Expected an experiment among {', '.join(names)}. "
            f"Received: experiment={options.experiment!r}"
        )
    chosen = [experiment for experiment in found if experiment.model == options.variant]
    if not chosen:
        raise ValueError(
            f"Expected a variant among {', '.join(experiment.model for experiment in found)}. "
            f"Received: --variant {options.variant}"
        )
    run(chosen[0], options)


def _explain(options):
    from keras_mmil.cli.explain import explain

    print(explain(options.run, options.text, options.format, sys.stdout.isatty()))


def _list(options):
    from keras_mmil.zoo import registry

    for name, experiment in registry.items():
        print(f"{name:12} {experiment.title}")
        figures = ", ".join(f"{metric} {value:.2%}" for metric, value in experiment.paper.items())
        print(f"{'':12} sources: {', '.join(experiment.sources)}; the paper's figures: {figures}")
