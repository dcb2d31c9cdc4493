"""A folder is one thread's of one process."""

import threading

import pytest
from other_process import can_hold, holding

from keras_mmil._support.locks import locked


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
