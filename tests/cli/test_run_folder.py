"""The folder of a run: what is kept in it, and what interrupted runs leave."""

from pathlib import Path

import pytest

from keras_mmil.cli.run_folder import RunFolder, read_settings
from keras_mmil_cli.main import main

SETTINGS = {"experiment": "mnist", "seed": 0}
PARTS = ("part-0123456789abcdef-epoch-0003.keras", "part-0123456789abcdef-manifest.json")


def leave(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("half")


@pytest.mark.parametrize("again", ["resume", "replace"])
def test_half_files_of_a_killed_run_are_removed(tmp_path, again):
    RunFolder(tmp_path, SETTINGS, resume=False).create()
    leave(tmp_path, PARTS[0], "part-of-mine.txt", "notes.txt")
    leave(tmp_path / "rules", PARTS[1])
    folder = RunFolder(tmp_path, SETTINGS, **{"resume": False, again: True})
    assert (tmp_path / PARTS[0]).exists()  # until the run begins
    folder.create()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"settings.json", "part-of-mine.txt", "notes.txt", "rules"}
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
    RunFolder(tmp_path / "new", SETTINGS, resume=resume).create()
    assert (tmp_path / "new" / "log.txt").exists()


def test_new_settings_never_stand_beside_old_checkpoints(tmp_path, monkeypatch):
    """Or a resumed run would take the other's network for its own."""
    RunFolder(tmp_path, SETTINGS, resume=False).create()
    leave(tmp_path, "epoch-0003.keras", "best.keras", "history.csv")
    RunFolder(tmp_path, SETTINGS, resume=True).create()
    assert (tmp_path / "epoch-0003.keras").exists()
    unlinked, new = [], {**SETTINGS, "seed": 1}
    unlink = Path.unlink

    def spy(path, missing_ok=False):
        unlinked.append((path.name, read_settings(tmp_path)["seed"]))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", spy)
    RunFolder(tmp_path, new, resume=False, replace=True).create()
    before = [name for name, seed in unlinked if seed == 0]
    assert {"epoch-0003.keras", "best.keras", "history.csv"} <= set(before)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]
    assert read_settings(tmp_path) == new


def test_a_folder_that_is_no_run_is_not_tidied(tmp_path):
    leave(tmp_path, *PARTS)  # another process may be at work there
    RunFolder(tmp_path, SETTINGS, resume=True).create()
    assert {path.name for path in tmp_path.iterdir()} == {"settings.json", *PARTS}
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
