"""The folder of a run: what is kept in it, and what interrupted runs leave."""

import json
from pathlib import Path

import pytest
from other_process import can_hold, holding

from keras_mmil.cli.run_folder import RunFolder, read_settings
from keras_mmil_cli.main import main

SETTINGS = {"experiment": "mnist", "seed": 0}
PARTS = ("part-0123456789abcdef-epoch-0003.keras", "part-0123456789abcdef-manifest.json")


def begin(*arguments, **options):
    """A run that ends at once."""
    with RunFolder(*arguments, **options).held():
        pass


def leave(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("half")


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
    assert names == {".lock", "settings.json", "part-of-mine.txt", "notes.txt", "rules"}
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
    leave(tmp_path, "epoch-0003.keras", "best.keras", "history.csv", "trained_on.npy")
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
    assert {"epoch-0003.keras", "best.keras", "history.csv", "trained_on.npy"} <= set(before)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "settings.json"}
    assert read_settings(tmp_path) == new


def test_a_folder_that_is_no_run_is_not_tidied(tmp_path):
    leave(tmp_path, *PARTS)  # another process may be at work there
    begin(tmp_path, SETTINGS, resume=True)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "settings.json", *PARTS}
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


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def going_on(tmp_path):
    """The folder of a run that goes on, and the command that it was started with."""
    rows = [{"x": i, "y": "ab"[i % 2]} for i in range(40)]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "run", ["train", str(data), "--target", "y", "--out", str(tmp_path / "run")]


def test_a_folder_is_of_one_process_from_first_to_last(going_on, monkeypatch, capsys):
    """The other one is refused before it reads data, and leaves all files as they are."""
    folder, command = going_on
    seen = []

    def fit(*arguments, **options):
        seen.append(can_hold(folder))
        leave(folder, "epoch-0003.keras", "best.keras", "estimator.json", PARTS[0])
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_mmil.cli.train._fit", fit)
    assert main(command) == 130
    assert seen == [False]
    capsys.readouterr()
    commands = [command, [*command, "--resume"]]
    commands += [["demo", "--out", str(folder)], ["run", "mnist", "--out", str(folder)]]
    commands += [["run", "mnist", "--resume", "--out", str(folder)]]
    with holding(folder) as process:
        before = contents(folder)
        for each in commands:
            assert main(each) == 2
            assert f"{folder}, in use by process {process}\n" in capsys.readouterr().err
            assert contents(folder) == before
    assert main([*command, "--resume"]) == 130
    assert seen == [False, False]


@pytest.mark.parametrize("again", [{"resume": True}, {"resume": False, "replace": True}])
def test_what_is_there_is_looked_at_when_no_other_can_change_it(tmp_path, again):
    """A run that another process began and ended while this one read its data."""
    other = RunFolder(tmp_path, {**SETTINGS, "seed": 1}, **again)
    first = RunFolder(tmp_path, SETTINGS, resume=False)
    plain = RunFolder(tmp_path, SETTINGS, resume=False)
    with first.held():
        leave(tmp_path, "epoch-0003.keras")
    with pytest.raises(FileExistsError, match="--resume to continue"), plain.held():
        pass
    assert (tmp_path / "epoch-0003.keras").exists()
    if again["resume"]:
        with pytest.raises(ValueError, match="Expected the settings of the run"):
            other.held().__enter__()
        assert (tmp_path / "epoch-0003.keras").exists()
    else:
        with other.held():
            assert not (tmp_path / "epoch-0003.keras").exists()
            assert not can_hold(tmp_path)
    assert can_hold(tmp_path)
