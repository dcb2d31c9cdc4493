"""Processes of Ray's actors, found in /proc, to be killed."""

import os
import signal
import threading
from contextlib import contextmanager
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


@contextmanager
def killing(name, is_time):
    """Kill one such process with SIGKILL, while the block runs, as soon as `is_time()`.

    Yields:
        The list of those that were killed, none at first.
    """
    killed, ended = [], threading.Event()
    thread = threading.Thread(target=_kill, args=(name, is_time, killed, ended))
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def _kill(name, is_time, killed, ended):
    while not ended.wait(0.02):
        pids = pids_of_actors(name) if is_time() else []
        if pids:
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])
            return


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
