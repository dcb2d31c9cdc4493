"""Processes of Ray's actors, found in /proc, to be killed."""

import os
import signal
import threading
import time
from pathlib import Path

__all__ = ["killing", "pids_of_actors"]


def pids_of_actors(name):
    """The ids of the processes of actors of a class that are at work in this session of Ray."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            continue
        if title.startswith("ray::") and name in title and _descends(int(folder.name)):
            found.append(int(folder.name))
    return found


def killing(name, is_time):
    """A thread that kills one such process with SIGKILL as soon as `is_time()`; to be joined.

    Its attribute `killed` is the list of those that it has killed.
    """
    thread = threading.Thread(target=_kill, args=(name, is_time, killed := []))
    thread.killed = killed
    thread.start()
    return thread


def _kill(name, is_time, killed):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        pids = pids_of_actors(name) if is_time() else []
        if pids:
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])
            return
        time.sleep(0.02)


def _descends(pid):
    """Whether a process was started by this one, or by one that it started."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(stat.rpartition(")")[2].split()[1])
    return False
