"""Stop a run of the command line at random moments, and resume it from each of them.

    python tests/cli/kills.py FOLDER SEED N run mnist --source digits ...

writes an undisturbed run to FOLDER/whole and resumed ones to FOLDER/0, FOLDER/1 ..., and prints a
line of JSON for each of them. What a kill leaves is what is on the disk: so one run is stopped time
and again, and each time its folder is copied. A run that is resumed from a copy cannot tell it from
what a killed run has left.

Every run is a child of this process, which has imported everything, but has not started TensorFlow:
a fork takes no time, and is safe. TensorFlow traces no functions in it, as that takes longer than
such runs do.
"""

import functools
import itertools
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
_CPU_TIME = 0.05  # seconds between copies
_N_EVENTS = 3  # between copies


def run(arguments, out, copies=None):
    """One run, in a child.

    Args:
        arguments: of the command line.
        out: the run's folder.
        copies: the folder for copies of `out`, if any. They are made before every third time that
            the run opens, renames, removes or makes something in it, and wherever else it is after
            every twentieth of a second of CPU time.

    Returns:
        The exit code; that of a signal is negative.
    """
    child = os.fork()
    if not child:
        _child(arguments, out, copies)
    if copies:
        _stop_and_copy(child, out, copies)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _child(arguments, out, copies):
    code = 1
    try:
        log = os.open(f"{out}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        signal.alarm(_TIME_LIMIT)
        if copies:
            sys.addaudithook(_Copier(out, copies))
        tf.config.run_functions_eagerly(True)
        # Else epochs as short as these would be saved together.
        resumable.Checkpoint = functools.partial(Checkpoint, seconds=0.0)
        code = main([*arguments, "--out", out])
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class _Copier:
    """Copies a folder before something in it is opened, renamed, removed or made."""

    def __init__(self, out, copies):
        self.out, self.copies = out, copies
        self.n_events, self.copying = 0, False

    def __call__(self, event, arguments):
        if event not in _EVENTS or self.copying:
            return
        if str(arguments[0]).startswith(f"{self.out}/"):
            self.n_events += 1
            if self.n_events % _N_EVENTS == 0:
                self.copying = True
                _copy(self.out, self.copies, "files", time.process_time())
                self.copying = False


def _stop_and_copy(child, out, copies):
    """Stops a child time and again, wherever it is, until it ends."""
    following = _CPU_TIME
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.005)
        used = _cpu_time(child)
        if used >= following:
            os.kill(child, signal.SIGSTOP)
            os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if os.path.isdir(out):
                _copy(out, copies, "cpu", used)
            os.kill(child, signal.SIGCONT)
            following = used + _CPU_TIME


def _cpu_time(process):
    """Seconds of CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _copy(out, copies, kind, moment):
    shutil.copytree(out, f"{copies}/{moment:09.4f}-{kind}", copy_function=shutil.copyfile)


def phase(folder):
    """What a run was at, by the files in its folder.

    The network is saved, by `run` as `model.keras` and by `train` as an estimator, before its rules
    are read, and the rules then: beside it, or as an estimator again.
    """
    names = {path.name for path in Path(folder).iterdir()}
    estimator = Path(folder) / "estimator.json"
    has_rules = estimator.exists() and json.loads(estimator.read_text())["rules_of"]
    if "rules" in names or has_rules:
        return "saving"
    if "model.keras" in names or estimator.exists():
        return "reading"
    if any(name.startswith("epoch-") for name in names):
        return "training"
    return "cross-validation" if "cross_validation.json" in names else "start"


def chosen(copies, rng, n):
    """Random copies, by turns of each phase, and by turns of those by time and those by files."""
    of_phases = {}
    for name in sorted(os.listdir(copies)):
        of_phases.setdefault(phase(f"{copies}/{name}"), []).append(name)
    found = []
    for i, names in zip(range(n), itertools.cycle(of_phases.values()), strict=False):
        kind = ("cpu", "files")[(i + i // len(of_phases)) % 2]
        found.append(rng.choice([name for name in names if name.endswith(kind)] or names))
    return found


def contents(folder):
    """The bytes of the files in a folder, None for folders, by their paths in it."""
    paths = {str(path.relative_to(folder)): path for path in Path(folder).rglob("*")}
    return {name: None if path.is_dir() else path.read_bytes() for name, path in paths.items()}


def by_contents(copies, names):
    """Lists of the names of copies that are equal."""
    groups = {}
    for name in names:
        found = tuple(sorted(contents(f"{copies}/{name}").items()))
        groups.setdefault(found, []).append(name)
    return list(groups.values())


def resumed(arguments, copy, out):
    """A run that is resumed from a copy: a dict of what became of it."""
    shutil.copytree(copy, out)
    code = run([*arguments, "--resume"], out)
    # With the seconds of each epoch, which no two trainings have in common.
    before, after = (Path(folder, "history.csv") for folder in (copy, out))
    trained_no_more = before.exists() and before.read_bytes() == after.read_bytes()
    return {"out": out, "phase": phase(copy), "trained_no_more": trained_no_more, "code": code}


def kill(folder, seed, n, arguments):
    """All of it, see above."""
    for part in ("Explainer", "NestedClassifier", "zoo", "datasets"):
        getattr(keras_mmil, part)  # imported now, and not in every child
    copies = f"{folder}/copies"
    os.mkdir(copies)
    code = run(arguments, f"{folder}/whole", copies)
    print(json.dumps({"out": f"{folder}/whole", "code": code}), flush=True)
    names = chosen(copies, random.Random(seed), n)
    tasks = list(enumerate(by_contents(copies, names)))  # what is equal needs one run only
    workers = []
    for first in range(_SIDE_BY_SIDE):
        worker = os.fork()
        if not worker:
            for i, same in tasks[first::_SIDE_BY_SIDE]:
                found = resumed(arguments, f"{copies}/{same[0]}", f"{folder}/{i}")
                found["moments"] = same
                os.write(1, json.dumps(found).encode() + b"\n")  # a line at once
            os._exit(0)
        workers.append(worker)
    for worker in workers:
        os.waitpid(worker, 0)
    shutil.rmtree(copies)


if __name__ == "__main__":
    kill(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
