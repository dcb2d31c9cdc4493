"""The demo."""

import pytest

from keras_mmil_cli.main import main

# Short runs end with networks, and so rules, of a single class.
pytestmark = pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
ONLY_TRAIN = ["--limit", "12", "--epochs", "2", "--verbose", "0"]
SHORT = [*ONLY_TRAIN, "--max-clusters", "2"]


@pytest.mark.slow
def test_demo(tmp_path, capsys):
    arguments = ["demo", "--out", str(tmp_path / "demo"), *SHORT]
    for _ in range(2):  # a second demo replaces the first
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert "Why the first positive top-bag" in printed
        assert "fidelity" in printed
    assert (tmp_path / "demo" / "rules").is_dir()
