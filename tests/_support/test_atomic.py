"""Files that are there whole or not at all."""

import errno
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from keras_mmil._support.atomic import (
    part_of,
    remove_parts,
    replacing,
    replacing_folder,
    write_json,
)
from keras_mmil._support.digests import checksum_of_json

HOUR = 60 * 60


def test_a_file_is_replaced_when_the_block_has_ended(tmp_path):
    path = tmp_path / "x.keras"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part.parent == tmp_path  # on the same disk
        assert part.suffix == ".keras"
        assert part_of(part) == "x.keras"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.keras"
    path.write_text("old")

    def fail():
        with replacing(path) as part:
            part.write_text("ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("n_threads", [2, 8])
def test_writers_of_one_file_do_not_meet(tmp_path, monkeypatch, n_threads):
    # As in containers that share a folder: all of them are process 1.
    monkeypatch.setattr(os, "getpid", lambda: 1)
    path = tmp_path / "x.txt"
    halfway = threading.Barrier(n_threads, timeout=20)

    def write(letter):
        with replacing(path) as part, open(part, "a", encoding="utf-8") as file:
            file.write(letter * 1000)
            file.flush()
            halfway.wait()
            file.write(letter * 1000)

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(write, "abcdefgh"[:n_threads]))
    assert path.read_text() in [letter * 2000 for letter in "abcdefgh"[:n_threads]]
    assert list(tmp_path.iterdir()) == [path]


def age(path, hours):
    """Make a file older. Returns it."""
    written = path.stat().st_mtime - hours * HOUR
    os.utime(path, (written, written))
    return path


def leave_part(path, hours):
    """What a writer leaves that was killed some hours ago."""
    part = path.with_name(f"part-{hours:016x}-{path.name}")
    part.write_text("ha")
    return age(part, hours)


def test_what_killed_writers_left_is_removed_later(tmp_path):
    path = tmp_path / "x.txt"
    killed = [leave_part(path, 7), leave_part(tmp_path / "other.txt", 100)]
    recent = leave_part(path, 5)
    mine = tmp_path / "part-1-of-my-thesis.txt", tmp_path / "part-0123456789abcdef-folder"
    mine[0].write_text("mine")
    mine[1].mkdir()
    for each in mine:
        age(each, 1000)
    with replacing(path) as part:
        part.write_text("new")
        assert all(left.exists() for left in killed)  # until this has succeeded
    assert {*tmp_path.iterdir()} == {path, recent, *mine}


def test_a_slow_writer_is_left_alone(tmp_path):
    path = tmp_path / "x.txt"
    with replacing(path) as part:
        part.write_text("slow")
        age(part, 5)
        with replacing(path) as other:
            other.write_text("fast")
    assert path.read_text() == "slow"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_slept_for_too_long_is_told(tmp_path):
    path = tmp_path / "x.txt"

    def sleep():
        with replacing(path) as part:
            part.write_text("slow")
            age(part, 7)
            with replacing(path) as other:
                other.write_text("fast")

    with pytest.raises(FileNotFoundError, match=r"part-.*x.txt"):
        sleep()
    assert path.read_text() == "fast"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_others_that_cannot_be_removed_are_left(tmp_path, monkeypatch):
    path = tmp_path / "x.txt"
    left = leave_part(path, 7)
    unlink = Path.unlink

    def denied(self, missing_ok=False):
        if self == left:
            raise PermissionError(errno.EPERM, "not yours")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", denied)
    with replacing(path) as part:
        part.write_text("new")
    assert {*tmp_path.iterdir()} == {path, left}


def test_parts_of_any_age_are_removed_on_request(tmp_path):
    leave_part(tmp_path / "x.txt", 0)
    leave_part(tmp_path / "y.keras", 3)
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
    with replacing(path) as part:
        part.write_text("new")
    assert synced == [("file", False), ("folder", True)]


def test_a_disk_that_fails_is_reported(tmp_path, monkeypatch):
    fsync = os.fsync

    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken"), replacing(tmp_path / "x.txt") as part:
        part.write_text("new")


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "rules"
    for content in ("old", "new"):
        with replacing_folder(path) as part:
            (part / f"{content}.txt").write_text(content)
            assert not (path / "new.txt").exists()
        assert [each.read_text() for each in path.iterdir()] == [content]
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_folder_as_it_was(tmp_path):
    path = tmp_path / "rules"
    path.mkdir()
    (path / "old.txt").touch()

    def fail():
        with replacing_folder(path) as part:
            (part / "new.txt").touch()
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert [each.name for each in path.iterdir()] == ["old.txt"]
    assert list(tmp_path.iterdir()) == [path]


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
