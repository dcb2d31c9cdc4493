"""The folder of a run, as kills leave it."""

import pytest

from keras_mmil.cli.run_folder import RunFolder, read_settings

SETTINGS = {"experiment": "mnist", "seed": 0}
PARTS = ("part-0123456789abcdef-epoch-0003.keras", "part-0123456789abcdef-manifest.json")


def leave(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("half")


@pytest.mark.parametrize("again", ["resume", "replace"])
def test_half_files_of_a_killed_run_are_removed(tmp_path, again):
    RunFolder(tmp_path, SETTINGS, resume=False).create()
    leave(tmp_path, PARTS[0], "part-epoch-0003.keras", "notes.txt")
    leave(tmp_path / "rules", PARTS[1])
    folder = RunFolder(tmp_path, SETTINGS, **{"resume": False, again: True})
    assert (tmp_path / PARTS[0]).exists()  # until the run begins
    folder.create()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"settings.json", "part-epoch-0003.keras", "notes.txt", "rules"}
    assert not list((tmp_path / "rules").iterdir())


def test_a_run_killed_before_its_settings_were_written_is_none(tmp_path):
    leave(tmp_path, "part-0123456789abcdef-settings.json")
    for resume in (False, True):
        assert RunFolder(tmp_path, SETTINGS, resume=resume).settings == SETTINGS


def test_a_folder_that_is_no_run_is_not_tidied(tmp_path):
    leave(tmp_path, *PARTS)  # another process may be at work there
    RunFolder(tmp_path, SETTINGS, resume=True).create()
    assert {path.name for path in tmp_path.iterdir()} == {"settings.json", *PARTS}
    assert read_settings(tmp_path) == SETTINGS
