"""The list of slow tests holds tests that there are."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_each_slow_test_exists_and_is_named_once():
    lines = (TESTS / "slow.txt").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    assert sorted(set(names)) == sorted(names)
    files = TESTS.rglob("test_*.py")
    defined = {
        name
        for path in files
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert set(names) - defined == set()
