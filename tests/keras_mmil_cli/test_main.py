"""The start and the end of the command line: errors, interruptions, and what is printed."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
TINY = ["--source", "digits", "--limit", "12", "--max-clusters", "2"]

# As in a terminal: a process that is started in the background may ignore Control-C.
PROGRAM = """
import signal, sys
from keras_mmil_cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def program(*arguments):
    """The command line in processes of its own, which log what TensorFlow logs by default."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, start_new_session=True, **pipes)


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("precious")
    assert main(["run", "mnist", *TINY, "--out", str(tmp_path / "file" / "run")]) == 2
    assert re.fullmatch(r"keras-mmil: .*file/run.*\n", capsys.readouterr().err)

    def may_not(*arguments, **options):
        raise PermissionError(13, "Permission denied", "/closed/run")

    monkeypatch.setattr("keras_mmil.cli.run_folder.RunFolder.held", may_not)
    assert main(["run", "mnist", *TINY, "--out", "/closed/run"]) == 2
    assert "Permission denied: '/closed/run'" in capsys.readouterr().err


@pytest.mark.slow
def test_tensorflow_logs_nothing(tmp_path):
    (tmp_path / "settings.json").write_text("{}")
    process = program("run", "mnist", *TINY, "--resume", "--out", tmp_path)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert re.fullmatch(r"keras-mmil: Expected the settings of a run\. .*\n", err)


def interrupt(process, ready, seconds=120):
    """Control-C when a file is there: what the process still writes."""
    deadline = time.monotonic() + seconds
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the workers, too
    return process.communicate(timeout=60)[1]


def look_for_group(number, seconds):
    """Fails as soon as the group of processes has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        os.killpg(number, 0)
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.nightly
def test_an_interrupted_run_says_how_to_continue(tmp_path):
    out = tmp_path / "a run"
    arguments = ["run", "mnist", *TINY, "--epochs", "25", "--out", str(out)]
    process = program(*arguments)
    said = interrupt(process, lambda: list(out.glob("epoch-*.keras")))
    assert process.returncode == 130
    command = f"keras-mmil {shlex.join([*arguments, '--resume'])}"
    assert said == f"\nkeras-mmil: interrupted. To continue: {command}\n"
    assert not (out / "metrics.json").exists()
    assert main(shlex.split(command)[1:]) == 0
    assert len((out / "history.csv").read_text().splitlines()) == 1 + 25


@pytest.mark.slow
@pytest.mark.nightly
def test_workers_are_as_quiet(tmp_path):
    """Neither do they log, nor does each of them tell of Control-C; and they end."""
    arguments = ["run", "imdb-binary", "--source", "synthetic", "--limit", "8", "--epochs", "1"]
    arguments += ["--folds", "2", "--rounds", "500", "--jobs", "2", "--out", tmp_path / "run"]
    process = program(*arguments)
    said = interrupt(process, (tmp_path / "run" / "cross_validation.json").exists)
    assert process.returncode == 130
    assert said.startswith("\nkeras-mmil: interrupted. To continue: ")
    assert not re.search(r"Traceback|0000 \d\d:", said)
    with pytest.raises(ProcessLookupError):
        look_for_group(process.pid, seconds=20)


def test_interruptions_of_other_commands(monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_mmil_cli.commands.catalogue", interrupted)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "\nkeras-mmil: interrupted\n"
    arguments = ["run", "mnist", "--resume", "--seeds", "2"]
    assert main(arguments) == 130
    assert capsys.readouterr().err.endswith(f"keras-mmil {shlex.join(arguments)}\n")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("not enough values to unpack\n(expected 2, got 1)"),
        IndexError("list index out of range"),
        KeyError("u1"),
        RuntimeError("Graph execution error"),
        AttributeError("'NoneType' object has no attribute 'x'"),
    ],
)
def test_faults_of_the_program_are_not_said_to_be_the_users(error, monkeypatch, capsys):
    def fail(*arguments):
        raise error

    monkeypatch.setattr("keras_mmil_cli.commands.catalogue", fail)
    assert main(["list"]) == 1
    out, said = capsys.readouterr()
    assert not out
    first, second = said.splitlines()
    assert first.startswith(f"keras-mmil: internal error: {type(error).__name__}: ")
    assert "report it" in second
    assert second.endswith(": keras-mmil --debug list")
    with pytest.raises(type(error)):
        main(["--debug", "list"])


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Expected a number above 0. Received: --learning-rate 0"),
        TypeError("Expected records. Received: 3"),
        FileNotFoundError(2, "No such file or directory", "/nowhere"),
        ModuleNotFoundError("Expected ray: pip install keras-mmil[ray]"),
    ],
)
def test_errors_that_users_can_correct(error, monkeypatch, capsys):
    def fail(*arguments):
        raise error

    monkeypatch.setattr("keras_mmil_cli.commands.catalogue", fail)
    assert main(["list"]) == 2
    assert capsys.readouterr().err == f"keras-mmil: {error}\n"


def test_a_reader_that_stops_reading():
    process = program("list")
    process.stdout.close()
    with process:
        assert process.stderr.read() == ""
    assert process.returncode == 1
