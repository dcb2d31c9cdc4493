"""Processes that take turns, so that only one works at a time."""

import json
import os
import resource
import subprocess
import sys
import time

__all__ = ["Worker", "serve"]


class Worker:
    """A process of a benchmark, which does one turn of work whenever it is asked to.

    Args:
        script: path of a Python program that calls `serve`.
        arguments: of the program.

    Attributes:
        first: what the program said before its first turn, a dict.
        seconds: list of what each turn took.
        peak_gb: greatest memory of the process so far.
    """

    def __init__(self, script, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Threads of PyTorch that wait actively would disturb the others.
            env={**os.environ, "OMP_WAIT_POLICY": "passive", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.first = self._answer()
        self.seconds = []
        self.peak_gb = None

    def turn(self):
        """Let the process work for one turn, and wait."""
        self._process.stdin.write("turn\n")
        self._process.stdin.flush()
        answer = self._answer()
        self.seconds.append(answer["seconds"])
        self.peak_gb = answer["peak_gb"]

    def close(self):
        """End the process."""
        self._process.communicate()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Expected an answer of {self._process.args}. Received: its end")
        return json.loads(line)


def serve(turn, **first):
    """What a worker's program does: say something, then a turn for each line that it reads.

    Args:
        turn: function without arguments.
        first: what to say before the first turn.
    """
    print(json.dumps(first), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        turn()
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"seconds": seconds, "peak_gb": peak}), flush=True)
