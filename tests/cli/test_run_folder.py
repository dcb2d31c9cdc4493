"""The folder of a run: what is kept in it, and what interrupted runs leave."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keras_mmil.cli.run_folder import RunFolder, read_settings
from keras_mmil.training._folder import locked
from keras_mmil_cli.main import main

SETTINGS = {"experiment": "mnist", "seed": 0}
PARTS = ("part-0123456789abcdef-epoch-0003.keras", "part-0123456789abcdef-manifest.json")


def leave(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("half")


def begin(*arguments, **options):
    with RunFolder(*arguments, **options).held():
        pass


@pytest.mark.parametrize("again", ["resume", "replace"])
def test_half_files_of_a_killed_run_are_removed(tmp_path, again):
    begin(tmp_path, SETTINGS, resume=False)
    leave(tmp_path, PARTS[0], "part-of-mine.txt", "notes.txt")
    leave(tmp_path / "rules", PARTS[1])
    folder = RunFolder(tmp_path, SETTINGS, **{"resume": False, again: True})
    assert (tmp_path / PARTS[0]).exists()  # until the run begins
    with folder.held():
        pass
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"settings.json", ".lock", "part-of-mine.txt", "notes.txt", "rules"}
    assert not list((tmp_path / "rules").iterdir())


def test_a_run_killed_before_its_settings_were_written_is_none(tmp_path):
    leave(tmp_path, "part-0123456789abcdef-settings.json")
    for resume in (False, True):
        assert RunFolder(tmp_path, SETTINGS, resume=resume).settings == SETTINGS


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["best.keras", "epoch-0007.keras", "history.csv", "rules/u.txt"])
def test_files_of_others_are_neither_taken_nor_overwritten(tmp_path, name, resume):
    leave((tmp_path / name).parent, (tmp_path / name).name)
    leave(tmp_path, "log.txt")
    with pytest.raises(FileExistsError, match=rf"settings.json. Received: .*, with {name}$"):
        RunFolder(tmp_path, SETTINGS, resume=resume)
    leave(tmp_path / "new", "log.txt")
    begin(tmp_path / "new", SETTINGS, resume=resume)
    assert (tmp_path / "new" / "log.txt").exists()


def test_new_settings_never_stand_beside_old_checkpoints(tmp_path, monkeypatch):
    """Or a resumed run would take the other's network for its own."""
    begin(tmp_path, SETTINGS, resume=False)
    leave(tmp_path, "epoch-0003.keras", "best.keras", "history.csv")
    begin(tmp_path, SETTINGS, resume=True)
    assert (tmp_path / "epoch-0003.keras").exists()
    unlinked, new = [], {**SETTINGS, "seed": 1}
    unlink = Path.unlink

    def spy(path, missing_ok=False):
        unlinked.append((path.name, read_settings(tmp_path)["seed"]))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", spy)
    begin(tmp_path, new, resume=False, replace=True)
    before = [name for name, seed in unlinked if seed == 0]
    assert {"epoch-0003.keras", "best.keras", "history.csv"} <= set(before)
    assert {path.name for path in tmp_path.iterdir()} == {"settings.json", ".lock"}
    assert read_settings(tmp_path) == new


def test_a_folder_that_is_no_run_is_not_tidied(tmp_path):
    leave(tmp_path, *PARTS)  # another process may be at work there
    begin(tmp_path, SETTINGS, resume=True)
    assert {path.name for path in tmp_path.iterdir()} == {"settings.json", ".lock", *PARTS}
    assert read_settings(tmp_path) == SETTINGS


@pytest.mark.parametrize("content", ["{}", "no JSON", '{"editor.fontSize": 12}'])
def test_what_is_not_a_run_is_left_alone(tmp_path, capsys, content):
    (tmp_path / "settings.json").write_text(content)
    (tmp_path / "precious.txt").write_text("kept")
    for command in (["demo"], ["run", "mnist", "--source", "digits", "--resume"]):
        assert main([*command, "--out", str(tmp_path)]) == 2
        assert "Expected the settings of a run" in capsys.readouterr().err
    assert (tmp_path / "settings.json").read_text() == content
    assert (tmp_path / "precious.txt").exists()


def test_a_folder_is_of_one_run_from_its_first_to_its_last_write(tmp_path):
    """Another process neither clears nor writes anything, whatever it is asked to do."""
    with RunFolder(tmp_path, SETTINGS, resume=False).held():
        leave(tmp_path, "epoch-0003.keras", PARTS[0])
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        code = (
            "import sys; from keras_mmil.cli.run_folder import RunFolder\n"
            f"at = {str(tmp_path)!r}, {SETTINGS!r}\n"
            "for how in ({'resume': True}, {'resume': False, 'replace': True}):\n"
            "    try:\n"
            "        with RunFolder(*at, **how).held(): sys.exit('in')\n"
            "    except BlockingIOError as error: print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(f"in use by process {os.getpid()}") == 2
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        with locked(tmp_path):  # as of a training in the run
            pass
        with pytest.raises(BlockingIOError), ThreadPoolExecutor(1) as pool:
            pool.submit(begin, tmp_path, SETTINGS, resume=True).result()
    begin(tmp_path, SETTINGS, resume=False, replace=True)
    assert not (tmp_path / "epoch-0003.keras").exists()


def test_a_run_that_came_in_the_meantime_is_seen(tmp_path):
    late = RunFolder(tmp_path, SETTINGS, resume=False)  # and loads its data
    begin(tmp_path, {**SETTINGS, "seed": 1}, resume=False)
    with pytest.raises(FileExistsError, match="--resume"), late.held():
        pass
    assert read_settings(tmp_path)["seed"] == 1


def test_figures_that_are_no_numbers_are_null(tmp_path):
    RunFolder(tmp_path, SETTINGS, resume=False).write_json("metrics.json", {"r2": float("nan")})
    assert (tmp_path / "metrics.json").read_text() == '{\n "r2": null\n}\n'
