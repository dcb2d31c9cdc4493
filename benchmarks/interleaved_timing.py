"""Processes that take turns, so that only one works at a time."""

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
        first: what the program said before its first turn, a dict.
        seconds: list of what each turn took.
        peak_gb: greatest memory of the process since `mark_memory`, beyond what it had then.
        process_gb: the same, with what it had then.
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
    """Let each worker in turn (A B C A B C …) work for so many turns, and end them all."""
    for _ in range(rounds):
        for worker in workers:
            worker.turn()
    for worker in workers:
        worker.close()


def mark_memory():
    """Forget the greatest memory so far; return the memory of the process now, in GB.

    To be called when libraries and data are loaded, so that what follows is measured alone.
    """
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def serve(turn, mark, **first):
    """What a worker's program does: say something, then a turn for each line that it reads.

    Args:
        turn: function without arguments.
        mark: what `mark_memory` returned.
        first: what to say before the first turn.
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
