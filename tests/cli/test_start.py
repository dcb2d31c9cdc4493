"""The command line's start and end: what is refused, what is hidden, and how it goes on."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from keras_mmil import zoo
from keras_mmil_cli.main import main
from keras_mmil_cli.quiet import tensorflow_log_hidden

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


def test_list_agrees_with_the_registry(capsys):
    """Name, sources, options, epochs and figures of every experiment, each in a line of its own."""
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line.count("paper:") == ("paper:" in line) for line in lines)
    heading = next(line for line in lines if "epochs" in line).split()
    assert heading == ["epochs", "accuracy", "rules", "fidelity"]
    rest = iter(lines[lines.index("") :])
    name = None
    for experiment in zoo.registry.values():
        if experiment.name != name:
            name = experiment.name
            assert next(line for line in rest if line.startswith(f"{name}: "))
            sources = next(line for line in rest if line.startswith("  --source "))
            named = re.match(r"  --source (.*) \(default\) \| ([^;]*)", sources).groups()
            assert named == experiment.sources
            assert ("--vat" in sources) == (experiment.adversarial is not None)
            folds = f"{experiment.rounds} x {experiment.folds} folds"
            assert (folds in sources) == bool(experiment.folds)
        command, *columns = re.split(r" {2,}", next(rest).strip())
        options = dict(re.findall(r"--(\w+) (\S+)", command))
        given = {
            option: getattr(experiment, option) for option in ("model", "aggregation", "split")
        }
        assert options == {option: value for option, value in given.items() if value}
        epochs, *figures = [column for column in columns if column != "paper:"]
        assert int(epochs) == experiment.epochs
        assert [float(figure) for figure in figures] == [
            pytest.approx(100 * figure) for figure in experiment.paper.values()
        ]
    assert not list(rest)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mnist", "--jobs", "2"], "--jobs 2 for mnist"),
        (["run", "mnist", "--jobs", "1"], "--jobs 1 for mnist"),
        (["run", "collab", "--jobs", "0"], "--jobs 0"),
        (["run", "mnist", "--rounds", "3"], "--rounds 3 for mnist"),
        (["run", "collab", "--folds", "0", "--rounds", "3"], "--rounds 3 for --folds 0 for collab"),
        (["run", "collab", "--folds", "0", "--jobs", "2"], "--jobs 2 for --folds 0 for collab"),
        (["run", "collab", "--folds", "1"], "at least 2 folds, or 0 for none. Received: --folds 1"),
        (["run", "collab", "--folds", "-3"], "--folds -3"),
        (["run", "mnist", "--vat"], "--vat for mnist"),
        (["run", "mnist", "--no-rules", "--max-clusters", "3"], "--max-clusters 3 with --no-rules"),
        (["run", "mnist", "--max-clusters", "1"], "at least 2. Received: --max-clusters 1"),
        (["demo", "--max-clusters", "0"], "--max-clusters 0"),
        (["demo", "--epochs", "0"], "--epochs 0"),
        (["demo", "--limit", "1"], "--limit 1"),
        (["run", "mnist", "--seed", "-1"], "--seed -1"),
        (["run", "mnist", "--seed", str(2**32 - 2), "--seeds", "3"], f"--seed {2**32 - 2}"),
        (["run", "mnist", "--record", "--limit", "20"], "--limit 20 with --record"),
        (["run", "mnist", "--record", "--max-clusters", "3"], "--max-clusters 3 with --record"),
    ],
)
def test_options_that_would_be_ignored_or_fail_later_are_refused(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("keras-mmil: Expected")
    assert message in printed.err
    assert not printed.out
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("precious")
    assert main(["run", "mnist", *TINY, "--out", str(tmp_path / "file" / "run")]) == 2
    assert re.fullmatch(r"keras-mmil: .*file/run.*\n", capsys.readouterr().err)

    def may_not(*arguments, **options):
        raise PermissionError(13, "Permission denied", "/closed/run")

    monkeypatch.setattr("keras_mmil.cli.run_folder.RunFolder.create", may_not)
    assert main(["run", "mnist", *TINY, "--out", "/closed/run"]) == 2
    assert "Permission denied: '/closed/run'" in capsys.readouterr().err


def test_tensorflow_logs_nothing(tmp_path):
    (tmp_path / "settings.json").write_text("{}")
    process = program("run", "mnist", *TINY, "--resume", "--out", tmp_path)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert re.fullmatch(r"keras-mmil: Expected the settings of a run\. .*\n", err)


LOGGED = """\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795445096.959166    8391 port.cc:153] oneDNN custom operations are on.
To enable the following instructions: AVX2 FMA, rebuild TensorFlow.
E0000 00:00:1795445100.216544    8391 cuda_platform.cc:52] failed call to cuInit
"""


def write_to_stderr(text):
    os.write(2, text.encode())  # as native code does


def test_only_the_log_is_hidden(capfd):
    with tensorflow_log_hidden():
        write_to_stderr(LOGGED + "F0000 00:00:1795445100.2 8391 cpu.cc:1] no AVX\nUserWarning: x\n")
    write_to_stderr("I0000 00:00:17 later\n")
    assert capfd.readouterr().err == (
        "F0000 00:00:1795445100.2 8391 cpu.cc:1] no AVX\nUserWarning: x\nI0000 00:00:17 later\n"
    )


def fail():
    write_to_stderr(LOGGED)
    raise ImportError("no TensorFlow")


def test_nothing_is_hidden_of_an_import_that_fails(capfd):
    with pytest.raises(ImportError, match="no TensorFlow"), tensorflow_log_hidden():
        fail()
    assert capfd.readouterr().err == LOGGED


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


def test_an_interrupted_run_says_how_to_go_on(tmp_path):
    out = tmp_path / "a run"
    arguments = ["run", "mnist", *TINY, "--epochs", "40", "--out", str(out)]
    process = program(*arguments)
    said = interrupt(process, lambda: list(out.glob("epoch-*.keras")))
    assert process.returncode == 130
    command = f"keras-mmil {shlex.join([*arguments, '--resume'])}"
    assert said == f"\nkeras-mmil: interrupted. To go on: {command}\n"
    assert not (out / "metrics.json").exists()
    assert main(shlex.split(command)[1:]) == 0
    assert len((out / "history.csv").read_text().splitlines()) == 1 + 40


def test_workers_are_as_quiet(tmp_path):
    """Neither do they log, nor does each of them tell of Control-C; and they end."""
    arguments = ["run", "imdb-binary", "--source", "synthetic", "--limit", "24", "--epochs", "1"]
    arguments += ["--folds", "2", "--rounds", "500", "--jobs", "2", "--out", tmp_path / "run"]
    process = program(*arguments)
    said = interrupt(process, (tmp_path / "run" / "cross_validation.json").exists)
    assert process.returncode == 130
    assert said.startswith("\nkeras-mmil: interrupted. To go on: ")
    assert not re.search(r"Traceback|0000 \d\d:", said)
    with pytest.raises(ProcessLookupError):
        look_for_group(process.pid, seconds=20)


def test_interruptions_of_other_commands(monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_mmil_cli.main.catalogue", interrupted)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "\nkeras-mmil: interrupted\n"
    arguments = ["run", "mnist", "--resume", "--seeds", "2"]
    assert main(arguments) == 130
    assert capsys.readouterr().err.endswith(f"keras-mmil {shlex.join(arguments)}\n")


def test_a_reader_that_stops_reading():
    process = program("list")
    process.stdout.close()
    with process:
        assert process.stderr.read() == ""
    assert process.returncode == 1
