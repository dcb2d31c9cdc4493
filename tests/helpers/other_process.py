"""Another process in a folder, which knows nothing of the library."""

import contextlib
import subprocess
import sys

import pytest

HOLD = """
import fcntl, os, sys
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
file.truncate(0)
file.write(f"{os.getpid()}\\n")
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holding(folder):
    """A process that trains in a folder, as far as others can see: its number."""
    pytest.importorskip("fcntl")  # which Windows lacks
    command = [sys.executable, "-I", "-S", "-c", HOLD, str(folder / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.stdin.close()


def can_hold(folder):
    """Whether another process may train in a folder now."""
    pytest.importorskip("fcntl")
    command = [sys.executable, "-I", "-S", "-c", HOLD, str(folder / ".lock")]
    return subprocess.run(command, input=b"", capture_output=True).returncode == 0
