"""Damages files again and again, and judges what their loader makes of each damage.

Everything runs in children of a process that has imported everything, but has not started
TensorFlow: a fork takes no time, and is safe. A child that crashes or hangs is replaced by another,
which goes on behind the mutation that was its end.
"""

import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutations
import tensorflow as tf
from hostile import HOSTILE

__all__ = ["Format", "fuzz"]

SECONDS = 20  # that a load may take
MEMORY = 2**29  # bytes that a load may need, beside those of the file
_LIMIT = 2**32  # of the address space, beyond what is used at the start
_CRASHES = 20  # after which a format is given up
_WRITES = {"os.mkdir", "os.rename", "os.remove", "os.symlink", "os.link", "os.rmdir"}
_RUNS = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect"}


@dataclass(frozen=True)
class Format:
    """A format of files, and what reads it.

    Attributes:
        name: of the format.
        make: writes small valid files to a folder.
        load: reads them, from the same folder: lists, dicts and numbers, which can be compared.
        n: how many mutations are tried by `--brief`, at most.
        is_checked: whether a checksum tells the right content from any other.
        is_cache: whether damage is no error: what is damaged is made again, with a warning.
        errors: what may be raised.
        names: what a message may name instead of the file: a pattern.
        seal: corrects the checksums of a damaged file, of the path that it is given, on the disk;
            it may raise anything where that cannot be done.
        damaged: which files: a pattern of their names.
    """

    name: str
    make: Callable[[Path], None]
    load: Callable[[Path], Any]
    n: int = 250
    is_checked: bool = False
    is_cache: bool = False
    errors: tuple[type[Exception], ...] = (ValueError,)
    names: str = ""
    seal: Callable[[Path], None] | None = None
    damaged: str = ".*"


def fuzz(format, folder, n, seed=0, only=None):
    """Damage the files of a format.

    Args:
        format: a `Format`.
        folder: where to; it must not exist.
        n: number of mutations.
        seed: of all of them.
        only: the number of one, which alone is tried, with the traceback of its error.

    Returns:
        Dict for JSON: counts of outcomes, the seconds taken, and a list of what is wrong.
    """
    folder = Path(folder)
    for name in ("files", "home", "tmp", "inside"):
        (folder / name).mkdir(parents=True)
    (folder / f"{mutations.PAYLOAD}.py").write_text(_PAYLOAD.replace("FOLDER", repr(str(folder))))
    started, first, counts, faults = time.perf_counter(), 0, Counter(), []
    code = _forked(lambda: _in(folder, format.make), folder)
    if code:
        return {"format": format.name, "faults": [{"fault": f"not made: {_log(folder)}"}]}
    shutil.copytree(folder / "files", folder / "whole")
    crashes, progress = 0, folder / "progress.jsonl"
    while first < n and crashes < _CRASHES:
        progress.write_text("")
        for name in ("files", "home"):  # as a crash may leave them damaged
            shutil.rmtree(folder / name)
        shutil.copytree(folder / "whole", folder / "files")
        (folder / "home").mkdir()
        numbers = range(first, n) if only is None else [only]
        code = _forked(lambda todo=numbers: _in(folder, _Runner(format, seed, todo)), folder)
        lines = [json.loads(line) for line in progress.read_text().splitlines()]
        last = lines[-1] if lines else {}
        for line in lines:
            counts[line.get("outcome", "crash")] += "outcome" in line
            if "fault" in line:
                faults.append(line)
        if code == 0:
            break
        crashes += 1
        if "outcome" in last or not lines:
            faults.append({"fault": f"ended with {code} behind {last}: {_log(folder)}"})
            break
        counts["crash"] += 1
        faults.append(last | {"fault": f"crash, {code}: {_log(folder)}"})
        first = last["i"] + 1
        if only is not None:
            break
    if (folder / "executed").exists() or (folder / "inside" / "executed").exists():
        faults.append({"fault": "code was executed"})
    seconds = time.perf_counter() - started
    found = {"format": format.name, "n": n, "seconds": round(seconds, 1), "crashes": crashes}
    return found | {"outcomes": dict(counts), "faults": faults}


_PAYLOAD = """
import pathlib

def run(*_, **__):
    pathlib.Path(FOLDER, "executed").touch()

class Harm:
    def __init__(self, *_, **__):
        run()

run()
"""


def _log(folder):
    return (folder / "log").read_text(errors="replace")[-1500:]


def _forked(function, folder):
    """The exit code of a child that calls a function."""
    child = os.fork()
    if not child:
        code = 1
        try:
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(log, stream)
            tf.config.run_functions_eagerly(True)
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _in(folder, function):
    """Calls a function of the folder of files, with all other folders in a fresh place."""
    os.environ["KERAS_MMIL_DATA"] = str(folder / "files")
    os.environ["KERAS_HOME"] = str(folder / "home")
    tempfile.tempdir = str(folder / "tmp")
    os.chdir(folder / "inside")
    sys.path.insert(0, str(folder))
    warnings.simplefilter("ignore")
    return function(folder / "files")


class _Runner:
    """Tries mutations one after the other, and writes what came of each to a file."""

    def __init__(self, format, seed, numbers):
        self.format, self.seed, self.numbers = format, seed, numbers
        self.violations, self.is_watching = [], False

    def __call__(self, folder):
        self.root = folder.parent
        paths = [path for path in sorted(self.root.rglob("*")) if path.is_file()]
        where = self.root / ("home" if self.format.is_cache else "files")
        self.whole = {path: path.read_bytes() for path in paths if path.is_relative_to(where)}
        self.paths = [p for p in self.whole if re.fullmatch(self.format.damaged, p.name)]
        self.expected = self.format.load(folder)
        self.format.load(folder)  # whatever is loaded by the first call only
        if self.format.is_cache:  # which the first call has filled
            self.whole = {p: p.read_bytes() for p in sorted(where.rglob("*")) if p.is_file()}
            self.paths = [p for p in self.whole if re.fullmatch(self.format.damaged, p.name)]
        assert self.paths, "there are no files"
        sys.addaudithook(self._watch)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _LIMIT, size + _LIMIT))
        with open(self.root / "progress.jsonl", "w", buffering=1) as log:
            for i in self.numbers:
                self._try(i, folder, log)
        self._check_whole(folder, "behind all")

    def _try(self, i, folder, log):
        rng = random.Random(f"{self.format.name} {self.seed} {i}")
        path = rng.choice(self.paths)
        description, content = self._damaged(rng, path)
        line = {"i": i, "seed": self.seed, "file": path.name, "mutation": description}
        print(json.dumps(line), file=log)  # before it can crash
        path.unlink()
        is_sealed = False
        if content is not None:
            path.write_bytes(content)
            is_sealed = self._is_sealed(rng, path)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, started = _status("VmRSS"), time.perf_counter()
        self.violations, self.is_watching = [], True
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            found = self.format.load(folder)
            outcome, fault = self._judge(found, content == self.whole[path] or is_sealed)
        except Exception as error:
            self.is_watching = False
            outcome, fault = self._judge_error(error, content is None)
            if len(self.numbers) == 1:
                traceback.print_exc()
                (self.root / "traceback").write_text(traceback.format_exc())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.is_watching = False
        peak = (_status("VmHWM") - before) * 1024
        if peak > MEMORY + len(content or b""):
            fault = f"{peak >> 20} MB of memory: {fault or outcome}"
        if self.violations:
            fault = f"{self.violations[0]}: {fault or outcome}"
        self._restore()
        if fault is None and (i % 10 == 0 or self.format.is_cache):
            fault = self._check_whole(folder, outcome)
        line |= {
            "sealed": is_sealed,
            "outcome": outcome,
            "ms": round((time.perf_counter() - started) * 1000, 1),
        }
        print(json.dumps(line | ({} if fault is None else {"fault": fault})), file=log)

    def _damaged(self, rng, path):
        content = self.whole[path]
        others = [self.whole[p] for p in self.paths if p != path] or [b"another file"]
        if rng.random() < 0.01:
            return "missing", None
        return mutations.mutated(rng, path.name, content, others, HOSTILE)

    def _is_sealed(self, rng, path):
        """Whether the checksums are now right for what is wrong."""
        if self.format.seal is None or rng.random() < 0.4:
            return False
        with contextlib.suppress(Exception):
            self.format.seal(path)
            return True
        return False

    def _judge(self, found, may_differ):
        if found == self.expected or repr(found) == repr(self.expected):  # NaN, too
            return "same", None
        if (self.format.is_cache or self.format.is_checked) and not may_differ:
            return "other", "other data, and no error"
        return "other", None

    def _judge_error(self, error, is_missing):
        known = self.format.errors + ((FileNotFoundError,) if is_missing else ())
        name = f"{type(error).__name__}: {str(error)[:300]}"
        if self.format.is_cache or not isinstance(error, known):
            return "error", f"not documented: {name}"
        message = str(error)
        names = {each for p in self.paths for each in (p.name, str(p.parent))}
        is_named = any(each in message for each in names)
        if not is_named and not (self.format.names and re.search(self.format.names, message)):
            return "error", f"names no file: {name}"
        return "error", None

    def _check_whole(self, folder, outcome):
        """What is wrong with the load of the right files, which must not know of any damage."""
        try:
            found = self.format.load(folder)
        except Exception as error:
            return f"the right files are refused after {outcome}: {error!r}"
        if found != self.expected and repr(found) != repr(self.expected):
            return f"the right files give other data after {outcome}"
        return None

    def _restore(self):
        where = self.root / ("home" if self.format.is_cache else "files")
        for path in sorted(where.rglob("*")):
            if path.is_file() and path not in self.whole:
                path.unlink()
        for path, content in self.whole.items():
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def _watch(self, event, arguments):
        """Notes what is executed, and what is written outside the folder."""
        if not self.is_watching:
            return
        if event in _RUNS:
            self.violations.append(f"{event}{arguments!r:.200}")
        elif event == "import" and str(arguments[0]).startswith(mutations.PAYLOAD):
            self.violations.append("the payload is imported")
        elif event in _WRITES or (event == "open" and _is_writing(arguments)):
            at = arguments[-1] if event in _WRITES else -1  # a folder's descriptor
            base = os.readlink(f"/proc/self/fd/{at}") if type(at) is int and at > 2 else os.getcwd()
            target = os.path.normpath(os.path.join(base, os.fsdecode(arguments[0])))
            inside = (str(self.root / name) for name in ("files", "home", "tmp"))
            if not target.startswith((*inside, "/dev/null", "/proc/self")):
                self.violations.append(f"{event} {target}")


def _is_writing(arguments):
    path, mode, flags = arguments
    is_by_mode = mode is not None and set(mode) & set("wax+")
    return isinstance(path, str | bytes | os.PathLike) and (
        is_by_mode or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR))
    )


def _status(name):
    """A figure of this process, in kB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise KeyError(name)
