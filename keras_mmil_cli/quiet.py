"""Processes that say nothing but what the commands print."""

import contextlib
import os
import re
import signal
import sys
import tempfile

__all__ = ["start_worker", "tensorflow_log_hidden"]

# How lines of native code begin, but for fatal errors.
_LOGGED = re.compile(
    rb"[IWE]\d{4} \d\d:\d\d:|WARNING: All log messages before absl::Init|To enable the following in"
)


@contextlib.contextmanager
def tensorflow_log_hidden():
    """Hide what TensorFlow logs, if it is imported under this context manager.

    Native code logs some lines before it has read `TF_CPP_MIN_LOG_LEVEL`. So what goes to the
    process's stderr is held back until the import is over: then all but the log is shown, and if
    the import fails all of it.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if sys.stderr is None:  # closed: there is nothing to hide
        yield
        return
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
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


def start_worker():
    """Start a process that works for this one: its end by Control-C is this one's to tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tensorflow_log_hidden():
        import tensorflow  # noqa: F401 - before the work is unpickled, which imports it
