"""Runs of the command line that are killed."""

import os
import signal
import subprocess
import sys
import time

PROGRAM = [sys.executable, "-m", "keras_mmil_cli"]
EAGER = """
import sys
import tensorflow as tf
from keras_mmil_cli.main import main
tf.config.run_functions_eagerly(True)
sys.exit(main())
"""


def start_and_kill(command, out, *, eager=False):
    """`kill -9` in mid-training, after an epoch or some."""
    program = [sys.executable, "-c", EAGER] if eager else PROGRAM
    process = subprocess.Popen(
        [*program, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not list(out.glob("epoch-*.keras")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert list(out.glob("epoch-*.keras"))
    assert not (out / "metrics.json").exists()
