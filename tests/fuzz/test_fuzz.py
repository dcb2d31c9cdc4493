"""Damaged files of every format, and killed writers; and that the programs for it see faults."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Of these a load takes some hundredths of a second at most; of the others, which are networks,
# shards and caches, up to a second.
QUICK = ["planetoid", "tu", "imdb", "mnist", "modelnet", "plants", "occurrences", "mutagenesis"]
QUICK += ["recipes", "trains", "vectors", "records", "schema", "folds", "explainer"]
OTHERS = ["corpus", "cache", "shards", "keras", "estimator", "checkpoint", "run"]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs /proc, and a fork that is safe"
)


def run(program, *arguments):
    """What a program finds: a dict for each line that it prints."""
    done = subprocess.run(
        [sys.executable, str(HERE / program), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found, done.stderr
    return found


def check_fuzzed(names, *arguments):
    found = run("fuzz.py", *arguments, *names)
    for each in found:
        assert not each["faults"], (each["format"], each["faults"][:5])
        assert sum(each["outcomes"].values()) == each["n"]
        # Caches are made again; everything else is refused, or right.
        refused = "same" if each["format"].startswith("cache-") else "error"
        refused = "error" if each["format"] == "cache-reviews" else refused
        assert each["outcomes"][refused] >= each["n"] / 4, each
    return {each["format"] for each in found}


def test_twenty_damages_of_each_quick_format():
    pytest.importorskip("gensim")
    assert len(check_fuzzed(QUICK, "--brief", "-n", 20)) >= len(QUICK)


@pytest.mark.slow
def test_damaged_files_are_refused_or_right():
    assert len(check_fuzzed(OTHERS, "--brief", "-n", 8)) >= len(OTHERS)


@pytest.mark.slow
@pytest.mark.nightly  # twenty or eight of each in every run of the tests
@pytest.mark.parametrize("names", [QUICK, OTHERS], ids=["quick", "others"])
def test_hundreds_of_damages(names):
    pytest.importorskip("gensim")
    assert len(check_fuzzed(names, "--brief", "--seed", 2)) >= len(names)


@pytest.mark.slow
@pytest.mark.nightly
def test_no_format_is_left_out():
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), "--list"],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
    )
    names = done.stdout.split()
    assert len(names) > 25
    assert all(name.startswith((*QUICK, *OTHERS)) for name in names)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", [*QUICK, *OTHERS])
def test_damaged_files_at_night(name):
    check_fuzzed([name], "--seed", 1)


def check_killed(n, names=()):
    found = run("kills.py", "-n", n, *names)
    for each in found:
        assert not each["faults"], each
        assert sum(each["left"].values()) == n
        assert each["killed"] > n / 2, each  # the others were done before the moment came
        assert each["events"] > 2
    return found


def test_a_killed_writer_leaves_old_or_new():
    assert len(check_killed(8, ["schema"])) == 1


@pytest.mark.slow
@pytest.mark.nightly
def test_killed_writers_at_night():
    assert len(check_killed(100)) == 10


BAD = {
    "key error": ("KeyError", "raise KeyError('x')"),
    "no name": ("names no file", "raise ValueError('damaged')"),
    "crash": ("crash, -11", "os.kill(os.getpid(), 11)"),
    "executes": ("the payload is imported", "import fuzz_payload"),
    "starts": ("os.system", "os.system('true')"),
    "writes": ("open ", "open('elsewhere', 'w')"),
    "memory": (" MB of memory", "bytearray(b'x' * 2**30)"),
    "trusts": ("other data, and no error", "return 'other'"),
    "remembers": ("the right files", "KEPT.append(2); raise ValueError('a.json')"),
}


@pytest.mark.slow
def test_the_fuzzer_sees_faults():
    """Bad loaders, each of which does one thing that none may do."""
    program = f"""
import json, os, sys, tempfile
from pathlib import Path
sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent / "helpers")!r}]
from harness import Format, fuzz
KEPT = []
def loader(code):
    def load(folder):
        content = (folder / "a.json").read_bytes() if (folder / "a.json").exists() else None
        if KEPT:
            return KEPT
        if content != b"[1]":
            scope = dict(globals())
            exec("def act():\\n    " + code, scope)
            return scope["act"]()
        return [1]
    return load
for name, (_, code) in {BAD!r}.items():
    made = lambda folder: (folder / "a.json").write_bytes(b"[1]")
    format = Format(name, made, loader(code), is_checked=True)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(fuzz(format, Path(folder) / "f", 2)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
    )
    found = {each["format"]: each["faults"] for each in map(json.loads, done.stdout.splitlines())}
    assert found.keys() == BAD.keys(), done.stderr
    for name, (message, _) in BAD.items():
        assert any(message in fault["fault"] for fault in found[name]), (name, found[name][:3])
