"""Files that are there whole or not at all, folders of one process, and ints in text files."""

import contextlib
import errno
import io
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import damage
import numpy as np
import pytest
from other_process import can_hold, holding

from keras_mmil._support.digests import checksum_of_json
from keras_mmil._support.files import (
    atomic_folder,
    atomic_write,
    locked,
    parse_ints,
    part_of,
    remove_abandoned,
    remove_parts,
    write_json,
)

HOUR = 60 * 60


def test_a_file_is_replaced_when_the_block_has_ended(tmp_path):
    path = tmp_path / "x.keras"
    path.write_text("old")
    with atomic_write(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part.parent == tmp_path  # on the same disk
        assert part.suffix == ".keras"
        assert part_of(part) == "x.keras"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "rules"
    for content in ("old", "new"):
        with atomic_folder(path) as part:
            (part / f"{content}.txt").write_text(content)
            assert not (path / "new.txt").exists()
        assert [each.read_text() for each in path.iterdir()] == [content]
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path):
    file, folder = tmp_path / "x.keras", tmp_path / "rules"
    file.write_text("old")
    folder.mkdir()
    (folder / "old.txt").touch()
    with contextlib.suppress(KeyError), atomic_write(file) as part:
        part.write_text("ne")
        raise KeyError
    with contextlib.suppress(KeyError), atomic_folder(folder) as part:
        (part / "new.txt").touch()
        raise KeyError
    assert file.read_text() == "old"
    assert [each.name for each in folder.iterdir()] == ["old.txt"]
    assert {*tmp_path.iterdir()} == {file, folder}


@pytest.mark.parametrize("n_threads", [2, 8])
def test_writers_of_one_file_do_not_meet(tmp_path, monkeypatch, n_threads):
    # As in containers that share a folder: all of them are process 1.
    monkeypatch.setattr(os, "getpid", lambda: 1)
    path = tmp_path / "x.txt"
    halfway = threading.Barrier(n_threads, timeout=20)

    def write(letter):
        with atomic_write(path) as part, open(part, "a", encoding="utf-8") as file:
            file.write(letter * 1000)
            file.flush()
            halfway.wait()
            file.write(letter * 1000)

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(write, "abcdefgh"[:n_threads]))
    assert path.read_text() in [letter * 2000 for letter in "abcdefgh"[:n_threads]]
    assert list(tmp_path.iterdir()) == [path]


def leave(path, hours, prefix="part-0123456789abcdef-"):
    """What a writer of a file leaves that was killed some hours ago."""
    part = path.with_name(f"{prefix}{path.name}")
    part.write_text("ha")
    written = part.stat().st_mtime - hours * HOUR
    os.utime(part, (written, written))
    return part


def test_what_killed_writers_left_is_removed_when_a_folder_is_finished(tmp_path):
    path = tmp_path / "x.txt"
    killed = leave(path, 7), leave(tmp_path / "other.txt", 100)
    recent = leave(path, 5, "part-1123456789abcdef-")
    mine = leave(tmp_path / "thesis.txt", 1000, "part-1-of-my-"), tmp_path / "folder"
    mine[1].mkdir()
    with atomic_write(path) as part:
        part.write_text("new")
    assert {*tmp_path.iterdir()} == {path, *killed, recent, *mine}  # a write looks at no others
    remove_abandoned(path)
    assert {*tmp_path.iterdir()} == {path, recent, *mine}
    leave(tmp_path / ".lock", 7)
    with locked(tmp_path):
        assert {*tmp_path.iterdir()} == {path, recent, *mine, tmp_path / ".lock"}


def test_a_writer_that_slept_for_too_long_is_told(tmp_path):
    path = tmp_path / "x.txt"

    def sleep():
        with atomic_write(path) as part:
            part.write_text("slow")
            os.utime(part, (0, 0))
            path.write_text("fast")
            remove_abandoned(path)

    with pytest.raises(FileNotFoundError, match=r"part-.*x.txt"):
        sleep()
    assert path.read_text() == "fast"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_others_that_cannot_be_removed_are_left(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    path.touch()
    left = leave(path, 7)

    def denied(self):
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(Path, "unlink", denied)
    remove_abandoned(path)
    assert {*tmp_path.iterdir()} == {path, left}


def test_parts_of_any_age_are_removed_on_request(tmp_path):
    leave(tmp_path / "x.txt", 0)
    leave(tmp_path / "y.keras", 3)
    (tmp_path / "part-epoch-0003.keras").write_text("not ours")
    remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["part-epoch-0003.keras"]
    remove_parts(tmp_path / "missing")


@pytest.mark.skipif(os.name != "posix", reason="only there folders can be opened")
@pytest.mark.parametrize("answer", [None, errno.EINVAL, errno.ENOTSUP])
def test_file_and_folder_reach_the_disk_in_this_order(tmp_path, monkeypatch, answer):
    path, synced = tmp_path / "x.txt", []
    fsync = os.fsync

    def spy(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(("folder" if is_folder else "file", path.exists()))
        if is_folder and answer is not None:  # a disk that cannot
            raise OSError(answer, "no")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    with atomic_write(path) as part:
        part.write_text("new")
    assert synced == [("file", False), ("folder", True)]


def test_a_disk_that_fails_is_reported(tmp_path, monkeypatch):
    fsync = os.fsync

    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken"), atomic_write(tmp_path / "x.txt") as part:
        part.write_text("new")


def test_json_has_no_numbers_that_others_cannot_read(tmp_path):
    def no_constants(name):
        raise ValueError(name)

    content = {"a": [np.nan, 0.5, np.float64("inf")], "b": ({"c": -np.inf, "d": "NaN"}, 1, None)}
    write_json(tmp_path / "a.json", content)
    text = (tmp_path / "a.json").read_text()
    found = json.loads(text, parse_constant=no_constants)
    assert found == {"a": [None, 0.5, None], "b": [{"c": None, "d": "NaN"}, 1, None]}
    assert checksum_of_json(found) == checksum_of_json(content)
    assert np.isnan(content["a"][0])  # what was given is as it was


def test_long_values_of_json_are_one_line(tmp_path):
    content = {"choices": {"a": "dropped"}, 'b"': [[i, 1] for i in range(2000)], "c": []}
    write_json(tmp_path / "a.json", content)
    lines = (tmp_path / "a.json").read_text().splitlines()
    assert json.loads("".join(lines)) == content
    assert lines[1:4] == [' "choices": {', '  "a": "dropped"', " },"]
    assert len(lines) == 7


def test_one_holds_a_folder_until_it_lets_go(tmp_path):
    folder, refused = tmp_path / "new" / "run", []

    def from_another_thread():
        with pytest.raises(BlockingIOError), locked(folder):
            pass
        refused.append(True)

    with locked(folder):
        with locked(folder.parent / "." / "run"):  # again, by another name of it
            assert not can_hold(folder)
        assert not can_hold(folder)  # the inner one has not let go of it
        thread = threading.Thread(target=from_another_thread)
        thread.start()
        thread.join()
        assert refused
        with locked(tmp_path / "other"):
            pass
    assert can_hold(folder)
    with (
        holding(folder) as process,
        pytest.raises(BlockingIOError, match=f"{folder}, in use by process {process}$"),
    ):
        locked(folder).__enter__()
    with locked(folder):
        pass


def test_ints():
    assert parse_ints(io.StringIO("1, 2\n\n-3,4"), 2, "a").tolist() == [[1, 2], [-3, 4]]
    assert parse_ints(io.StringIO(""), 2, "a").shape == (0, 2)
    with pytest.raises(ValueError, match="Received: a "):
        parse_ints(io.StringIO("1\nx\n"), 1, "a")


def test_long_lines_are_not_held():
    """An archive of a few kilobytes may hold gigabytes of one line."""
    file = io.TextIOWrapper(io.BytesIO(bytes(2**28)))
    with damage.bounded(), pytest.raises(ValueError, match=r"Received: a .*10000 characters"):
        parse_ints(file, 1, "a")
