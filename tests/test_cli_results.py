"""Records of measured figures: which commit they are of."""

import shutil
import subprocess

import pytest

from keras_mmil.cli import results


def git(folder, *arguments):
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    command = ["git", *author, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_CHECKOUT", tmp_path)
    measured = tmp_path / "benchmarks" / "results" / "plants.json"
    drawn = tmp_path / "benchmarks" / "plots" / "species.png"
    program = tmp_path / "program.py"
    for path in (measured, drawn, program):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    clean = git(tmp_path, "rev-parse", "--short", "HEAD").strip()
    for path in (measured, drawn):
        path.write_text("2")
        assert results.commit() == clean
    program.write_text("2")
    assert results.commit() == clean + "+"


def test_no_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_CHECKOUT", tmp_path)
    assert results.commit() is None
