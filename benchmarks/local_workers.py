"""Workers of one training as processes of this machine, for tests and benchmarks."""

import contextlib
import json
import os
import socket
import subprocess
import sys

__all__ = ["ONE_THREAD", "start"]

_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
ONE_THREAD = dict.fromkeys(_THREADS, "1")


def start(n, program, *arguments, logs=None, pin=False):
    """Start a program once for each worker, with a `TF_CONFIG` that names them all.

    Each has one thread for the parts of an operation and one for operations.

    Args:
        n: number of workers.
        program: path of a Python program.
        arguments: of the program, the same for all.
        logs: folder for what they print, `worker-0.log` and so on; None for pipes.
        pin: whether each is given a core of its own, where the system can do that.

    Returns:
        List of `subprocess.Popen`s.
    """
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(n)]
    workers = []
    for i in range(n):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}
        with contextlib.ExitStack() as files:
            output = subprocess.PIPE
            if logs is not None:
                output = files.enter_context(open(os.path.join(logs, f"worker-{i}.log"), "w"))
            worker = subprocess.Popen(
                [sys.executable, str(program), *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **ONE_THREAD, "TF_CONFIG": json.dumps(task)},
            )
        workers.append(worker)
        if pin and hasattr(os, "sched_setaffinity"):  # before it has started its threads
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(worker.pid, {cores[i % len(cores)]})
    return workers


def _free_ports(n):
    """Ports that nobody listens at, all different."""
    with contextlib.ExitStack() as sockets:
        found = [sockets.enter_context(socket.socket()) for _ in range(n)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]
