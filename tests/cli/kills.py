"""Kill a run of the command line at random moments, and resume it each time.

    python tests/cli/kills.py FOLDER SEED N run mnist --source digits ...

writes an undisturbed run to FOLDER/whole and resumed ones to FOLDER/0 ... FOLDER/N-1, and prints a
line of JSON for each of them. Every run is a child of this process, which has imported everything,
but has not started TensorFlow: a fork takes no time, and is safe. TensorFlow traces no functions in
it, as that takes longer than such runs do.
"""

import functools
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import matplotlib.pyplot  # noqa: F401 - imported now, and not in every child
import tensorflow as tf

import keras_mmil
from keras_mmil.training import Checkpoint, resumable
from keras_mmil_cli.main import main

_SIDE_BY_SIDE = 2
_TIME_LIMIT = 600  # seconds
_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir"}


def run(arguments, out, **moment):
    """One run, in a child.

    Args:
        arguments: of the command line.
        out: the run's folder.
        moment: when it is killed, if at all. `cpu`: after so many seconds of CPU time; `reading`:
            after so many since the trained model was written; `files`: before it opens, renames,
            removes or makes something in its folder after so many times.

    Returns:
        Dict of the exit code (that of a signal is negative), and of the whole `cpu`, `reading` (the
        time until rules are written) and `files`.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _child(arguments, out, writer, **moment)
    os.close(writer)
    with open(reader) as pipe:
        found = json.loads(pipe.read() or "{}")
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "cpu": usage.ru_utime + usage.ru_stime, **found}


def _child(arguments, out, writer, cpu=None, reading=None, files=None):
    code = 1
    try:
        log = os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        signal.alarm(_TIME_LIMIT)
        if cpu is not None:
            signal.setitimer(signal.ITIMER_PROF, cpu)  # its signal ends a process as SIGKILL does
        n_files, times = 0, {}

        def count(event, event_arguments):
            nonlocal n_files
            if event not in _EVENTS or not str(event_arguments[0]).startswith(f"{out}/"):
                return
            if n_files == files:
                os.kill(os.getpid(), signal.SIGKILL)
            n_files += 1
            if event == "os.rename" and str(event_arguments[1]) == f"{out}/model.keras":
                times["trained"] = time.process_time()
                if reading is not None:
                    signal.setitimer(signal.ITIMER_PROF, reading)
            if event == "os.mkdir" and str(event_arguments[0]) == f"{out}/rules":
                times.setdefault("read", time.process_time())

        sys.addaudithook(count)
        tf.config.run_functions_eagerly(True)
        # Else epochs as short as these would be saved together.
        resumable.Checkpoint = functools.partial(Checkpoint, seconds=0.0)
        code = main([*arguments, "--out", out])
        sys.stdout.flush()
        found = {"files": n_files, "reading": times["read"] - times["trained"]}
        os.write(writer, json.dumps(found).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def killed_and_resumed(arguments, out, kind, moment):
    """A run that is killed at a moment and then resumed: a dict of what became of it."""
    while (killed := run(arguments, out, **{kind: moment}))["code"] == 0:
        shutil.rmtree(out)  # it was over before: the time that a run takes varies
        moment *= 0.8
    left = sorted(str(path.relative_to(out)) for path in Path(out).rglob("*"))
    resumed = run([*arguments, "--resume"], out)
    codes = {"killed": killed["code"], "resumed": resumed["code"]}
    return {"out": out, "kind": kind, "moment": moment, "left": left, **codes}


def moments(rng, n, whole):
    """Random moments, spread over the whole run: half of them by its time, half by its files.

    One of them is while rules are read, which takes so little of the run that others may miss it.
    """
    yield "reading", 0.7 * rng.random() * whole["reading"]
    for i in range(n - 1):
        kind = ("cpu", "files")[i % 2]
        share = (i // 2 + rng.random()) / (n // 2)
        yield (kind, share * whole[kind]) if kind == "cpu" else (kind, int(share * whole[kind]))


def kill(folder, seed, n, arguments):
    """All of it, see above."""
    for part in ("Explainer", "zoo", "datasets"):
        getattr(keras_mmil, part)  # imported now, and not in every child
    whole = run(arguments, f"{folder}/whole")
    print(json.dumps({"out": f"{folder}/whole", **whole}), flush=True)
    tasks = list(enumerate(moments(random.Random(seed), n, whole)))
    workers = []
    for first in range(_SIDE_BY_SIDE):
        worker = os.fork()
        if not worker:
            for i, moment in tasks[first::_SIDE_BY_SIDE]:
                found = killed_and_resumed(arguments, f"{folder}/{i}", *moment)
                os.write(1, json.dumps(found).encode() + b"\n")  # a line at once
            os._exit(0)
        workers.append(worker)
    for worker in workers:
        os.waitpid(worker, 0)


if __name__ == "__main__":
    kill(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
