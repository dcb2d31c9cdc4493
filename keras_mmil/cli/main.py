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
    demo.set_defaults(command=_demo, replace=True, vat=False, folds=0, rules=True)

    run = commands.add_parser("run", help="reproduce an experiment of the paper")
    run.add_argument("experiment", help="one of those that `keras-mmil list` prints")
    run.add_argument("--model", "--variant", help="mmil, or where there is one mil")
    run.add_argument(
        "--aggregation", help="of the bag-layers, for citations: mean (the default) or max"
    )
    run.add_argument(
        "--split",
        help="of citations: random, transductive or temporal; of clouds: the form of them",
    )
    run.add_argument("--seeds", type=int, default=1, help="make so many runs, from --seed upwards")
    run.add_argument("--folds", type=int, help="of a cross-validation; 0 for none")
    run.add_argument("--rounds", type=int, help="of the cross-validation")
    run.add_argument("--jobs", type=int, default=1, help="folds to train side by side")
    run.add_argument("--no-rules", dest="rules", action="store_false", help="only train and test")
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
    from keras_mmil.cli.run import run_seeds
    from keras_mmil.zoo import registry

    chosen = [e for e in registry.values() if e.name == options.experiment]
    if not chosen:
        names = dict.fromkeys(experiment.name for experiment in registry.values())
        raise ValueError(
            f"Expected an experiment among {', '.join(names)}. "
            f"Received: experiment={options.experiment!r}"
        )
    for option in ("model", "aggregation", "split"):
        known = list(dict.fromkeys(getattr(experiment, option) for experiment in chosen))
        wanted = getattr(options, option) or known[0]
        if wanted not in known:
            raise ValueError(
                f"Expected --{option} among {', '.join(filter(None, known)) or 'none'} for "
                f"{options.experiment}. Received: --{option} {wanted}"
            )
        chosen = [e for e in chosen if getattr(e, option) == wanted]
    run_seeds(chosen[0], options)


def _explain(options):
    from keras_mmil.cli.explain import explain

    print(explain(options.run, options.text, options.format, sys.stdout.isatty()))


def _list(options):
    from keras_mmil.zoo import registry

    by_name = {}
    for experiment in registry.values():
        by_name.setdefault(experiment.name, []).append(experiment)
    for name, experiments in by_name.items():
        print(f"{name}: {experiments[0].title}")
        print(f"    sources: {', '.join(experiments[0].sources)}")
        for experiment in experiments:
            options = ("model", "aggregation", "split")
            given = ((option, getattr(experiment, option)) for option in options)
            command = " ".join(f"--{option} {value}" for option, value in given if value)
            figures = ", ".join(f"{m} {value:.2%}" for m, value in experiment.paper.items())
            beside = f"the paper's figures: {figures}" if figures else ""
            print(f"    {command:56} {beside}".rstrip())
