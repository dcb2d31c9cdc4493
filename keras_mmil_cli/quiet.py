"""Processes that print nothing but what the commands print."""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import IO

__all__ = ["plain_warnings", "quiet", "start_worker", "tensorflow_log_hidden"]

# How lines of native code begin, but for fatal errors.
_LOGGED = re.compile(
    rb"[IWE]\d{4} \d\d:\d\d:|WARNING: All log messages before absl::Init|To enable the following in"
)
# Its input ends with a word, or else because the process that holds the other end has ended.
_WITNESS = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
if not sys.stdin.buffer.read():
    os.lseek(1, 0, os.SEEK_SET)
    while block := os.read(1, 65536):
        os.write(2, block)
"""


@contextlib.contextmanager
def tensorflow_log_hidden() -> Iterator[None]:
    """Hide what TensorFlow logs while it is imported under this context manager.

    Native code logs some lines before it has read `TF_CPP_MIN_LOG_LEVEL`. So the process's stderr
    is held back until the import is over. Then everything but the log is shown; if the import
    fails, or ends the process, everything is.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if sys.stderr is None:  # closed: there is nothing to hide
        yield
        return
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held, _shown_if_aborted(held):
        os.dup2(held.fileno(), 2)
        hidden = _LOGGED
        try:
            yield
        except Exception:
            hidden = re.compile(b"(?!)")  # nothing
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            os.write(2, b"".join(line for line in held if not hidden.match(line)))


@contextlib.contextmanager
def _shown_if_aborted(held: IO[bytes]) -> Iterator[None]:
    """Let another process write a file to stderr if this one ends under the context manager.

    Native code that aborts runs nothing of Python any more.
    """
    command = [sys.executable, "-I", "-S", "-c", _WITNESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=held) as witness:
        try:
            yield
        finally:
            witness.communicate(b"over")


def quiet(options: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Hide TensorFlow's log, unless the options say --debug."""
    return contextlib.nullcontext() if options.debug else tensorflow_log_hidden()


@contextlib.contextmanager
def plain_warnings(options: argparse.Namespace) -> Iterator[None]:
    """Let warnings be lines of the program, unless the options say --debug."""
    before = warnings.formatwarning
    if not options.debug:
        warnings.formatwarning = _as_line
    try:
        yield
    finally:
        warnings.formatwarning = before


def _as_line(message: Warning | str, *about: object, **others: object) -> str:
    return f"keras-mmil: warning: {message}\n"


def start_worker() -> None:
    """Start a process that works for this one, which alone reports an interruption by Control-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tensorflow_log_hidden():
        import tensorflow  # noqa: F401 - before the work is unpickled, which imports it
