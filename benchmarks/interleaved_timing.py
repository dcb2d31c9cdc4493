"""Interleaved timing: processes that take turns, so that only one works at a time."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["Worker", "mark_memory", "serve", "take_turns"]


class Worker:
    """A process of a benchmark, which does one turn of work whenever it is asked to.

    Args:
        script: path of a Python program that calls `serve`.
        arguments: of the program.

    Attributes:
        first: answer of the program before its first turn, a dict.
        seconds: list of the duration of each turn.
        peak_gb: increase of the peak memory of the process since `mark_memory`.
        process_gb: its peak memory.
    """

    def __init__(self, script, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Busy-waiting threads of PyTorch would slow the others down.
            env={**os.environ, "OMP_WAIT_POLICY": "passive", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.first = self._answer()
        self.seconds = []
        self.peak_gb = self.process_gb = None

    def turn(self):
        """Let the process work for one turn, and wait."""
        self._process.stdin.write("turn\n")
        self._process.stdin.flush()
        answer = self._answer()
        self.seconds.append(answer["seconds"])
        self.peak_gb, self.process_gb = answer["peak_gb"], answer["process_gb"]

    def close(self):
        """End the process."""
        self._process.communicate()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Expected an answer of {self._process.args}. Received: its end")
        return json.loads(line)


def take_turns(workers, rounds):
    """Let the workers take turns (A B C A B C …) for some rounds, and end them."""
    for _ in range(rounds):
        for worker in workers:
            worker.turn()
    for worker in workers:
        worker.close()


def mark_memory():
    """Reset the peak memory; return the current memory, in GB: call it after loading the data."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def serve(turn, mark, **first):
    """Run a worker's program: answer `first`, and then call `turn` for each line of input.

    `mark` is the result of `mark_memory`.
    """
    print(json.dumps(first), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        turn()
        seconds = time.perf_counter() - started
        most = _memory("VmHWM")
        answer = {"seconds": seconds, "peak_gb": most - mark, "process_gb": most}
        print(json.dumps(answer), flush=True)


def _memory(field):
    """A line of Linux's account of this process, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field))
    return int(line.split()[1]) / 2**20
