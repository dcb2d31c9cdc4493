"""Kill what writes files at random moments, and look at what is left.

    python tests/fuzz/kills.py              100 kills of each action
    python tests/fuzz/kills.py -n 10 cache  those whose names begin so

Half of the kills (SIGKILL) come at moments that are drawn uniformly from the time that the action
takes, half of them just before one of the times that it opens, renames, removes or makes a file.
Then what is there must be all of the old or all of the new, and the action, done again, must end as
if it had not been killed. A line of JSON for each action says how often which was found.

Every action runs in a child of this process, which has imported everything, but has not started
TensorFlow: a fork takes no time, and is safe.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import tensorflow as tf
from actions import ACTIONS

_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
_TIME_LIMIT = 300  # seconds


class _Events:
    """Counts what is done to files in a folder, and kills this process before one of them.

    Args:
        folder: which one.
        last: before which event; None for none.
    """

    def __init__(self, folder, last):
        self.folder, self.last, self.n = str(folder), last, 0

    def __call__(self, event, arguments):
        if event in _EVENTS and str(arguments[0]).startswith(self.folder):
            self.n += 1
            if self.n == self.last:
                os.kill(os.getpid(), signal.SIGKILL)


def _in_child(function, log):
    """Starts a child that calls a function of the end of a pipe: its number, and the other end."""
    end, start = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(end)
            for stream in (1, 2):
                os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
            signal.alarm(_TIME_LIMIT)
            tf.config.run_functions_eagerly(True)
            function(start)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(start)
    return child, end


def _ended(child, end):
    """The exit code of a child, and what it has written."""
    with open(end, "rb") as pipe:
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def _act(action, folder, last=None):
    """What a child does: it says when it begins, how long it took, and how many events it had."""

    def function(pipe):
        os.environ["KERAS_HOME"] = str(folder / "home")
        os.environ["KERAS_MMIL_DATA"] = str(folder / "data")
        act = action.ready(folder)
        events = _Events(folder, last)
        sys.addaudithook(events)
        os.write(pipe, b".")
        started = time.perf_counter()
        act()
        os.write(pipe, json.dumps([time.perf_counter() - started, events.n]).encode())

    return function


def _found(action, folder):
    """What is in a folder, as far as it is trusted; None if there is nothing."""
    os.environ["KERAS_HOME"] = str(folder / "home")
    os.environ["KERAS_MMIL_DATA"] = str(folder / "data")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="The cached file")  # is damaged, say
        return action.found(folder)


def _checked(action, folders, old):
    """What a child does with what kills have left."""

    def function(pipe):
        warnings.simplefilter("ignore")
        before, whole = _found(action, old), _found(action, folders[0])
        found = {"faults": [] if before != whole else ["it changes nothing"], "states": []}
        for folder in folders[1:]:
            try:
                left = _found(action, folder)
                states = {"old": left == before, "new": left == whole}
                state = next((name for name, is_it in states.items() if is_it), "neither")
                found["states"].append(state)
                if state == "neither":
                    found["faults"].append(f"{folder.name}: neither old nor new")
                os.environ["KERAS_HOME"] = str(folder / "home")
                action.ready(folder)()
                if _found(action, folder) != whole:
                    found["faults"].append(f"{folder.name}: another result, done again")
            except Exception as error:
                traceback.print_exc()
                found["faults"].append(f"{folder.name}: {error!r:.300}")
        os.write(pipe, json.dumps(found).encode())

    return function


def kill(action, root, n, seed):
    """Kill an action n times: a dict of what was found."""
    started = time.perf_counter()
    log, old, whole = root / "log", root / "old", root / "whole"
    old.mkdir(parents=True)
    code, _ = _ended(*_in_child(lambda pipe: action.prepare(old), log))
    shutil.copytree(old, whole)
    code, text = _ended(*_in_child(_act(action, whole), log)) if not code else (code, b"")
    if code:
        return {"action": action.name, "faults": [f"not done: {log.read_text()[-1000:]}"]}
    seconds, n_events = json.loads(text[1:])
    folders, killed = [whole], 0
    for i in range(n):
        rng = random.Random(f"{action.name} {seed} {i}")
        folder = root / f"{i}"
        shutil.copytree(old, folder)
        folders.append(folder)
        last = rng.randrange(n_events) + 1 if i % 2 and n_events else None
        child, end = _in_child(_act(action, folder, last), log)
        if os.read(end, 1) and last is None:
            time.sleep(rng.random() * seconds)
            os.kill(child, signal.SIGKILL)
        killed += _ended(child, end)[0] == -signal.SIGKILL
    code, text = _ended(*_in_child(_checked(action, folders, old), log))
    found = json.loads(text) if not code else {"states": [], "faults": [log.read_text()[-1000:]]}
    about = {"action": action.name, "n": n, "killed": killed, "events": n_events}
    about |= {"seconds": round(time.perf_counter() - started, 1)}
    return about | {"left": dict(Counter(found["states"])), "faults": found["faults"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="beginnings of names of actions; all by default")
    parser.add_argument("-n", type=int, default=100, help="kills of each action")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for action in ACTIONS:
            if action.name.startswith(tuple(options.names or [""])):
                found = kill(action, Path(folder) / action.name, options.n, options.seed)
                print(json.dumps(found), flush=True)
                wrong += bool(found["faults"])
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
