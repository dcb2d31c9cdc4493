"""The command `keras-mmil`."""

import argparse
import errno
import os
import shlex
import sys
from collections.abc import Sequence

from keras_mmil_cli.commands import make_parser
from keras_mmil_cli.quiet import plain_warnings

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: of the command line; those of the process by default.

    Returns:
        The exit code: 0; 2 after an error that the user can correct, which is printed; 1 after any
        other error, or if nobody reads the output; 130 after an interruption by the keyboard.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = make_parser().parse_args(arguments)
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
        message, status = _told(error, options, arguments)
        print(f"keras-mmil: {message}", file=sys.stderr)
        return status
    return 0


def _told(
    error: Exception, options: argparse.Namespace, arguments: Sequence[str]
) -> tuple[str, int]:
    """What to print about an error, and the exit code."""
    status = getattr(error, "exit_status", None)  # of errors whose messages are complete
    if isinstance(status, int):
        return str(error), status
    in_one_line = " ".join(f"{type(error).__name__}: {error}".split())
    resume = _how_to_continue(options, arguments)
    if isinstance(error, MemoryError):
        told = " ".join(f"the memory of this machine does not suffice: {error}".split())
        less = "; use fewer records, such as with --limit" if "limit" in options else ""
        return f"{told.rstrip(':')}{less}{resume}", 1
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        place = error.filename or getattr(options, "out", None) or "the folder of the output"
        return f"no space is left on the disk of {place}{resume}", 2
    if _is_users(error):
        return str(error), 2
    command = shlex.join(["keras-mmil", "--debug", *arguments])
    return (
        f"internal error: {in_one_line}\n"
        f"This is a bug in keras-mmil. Please report it, with what this prints: {command}"
    ), 1


def _is_users(error: Exception) -> bool:
    """Whether the user can correct an error: such messages say what was expected and received."""
    return isinstance(error, OSError | ImportError) or (
        isinstance(error, ValueError | TypeError | KeyError)
        and "xpected" in str(error)
        and "Received: " in str(error)
    )


def _how_to_continue(options: argparse.Namespace, arguments: Sequence[str]) -> str:
    """The same command with --resume, if it has that."""
    if "resume" not in options:
        return ""
    more = [] if options.resume else ["--resume"]
    return f". To continue: {shlex.join(['keras-mmil', *arguments, *more])}"
