"""docs/serving.md says of the HTTP service what it does."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from service.demo import CUSTOMER
from service.limits import Limits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.* (has|have) nothing at :UserWarning"),  # as in the service
]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")


def json_blocks():
    return [json.loads(each) for each in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def without_numbers(answer):
    """An answer without the numbers of symbols, which follow from rounding."""
    return re.sub(r"\b([uv])\d+", r"\1", json.dumps(answer))


def test_the_example_gets_the_answer_that_is_shown(client):
    question, shown, _ = json_blocks()
    assert question == {"record": CUSTOMER}
    found = client.post(question).json()
    probabilities = found.pop("probabilities"), shown.pop("probabilities")
    assert probabilities[0] == pytest.approx(probabilities[1], abs=0.01)
    assert without_numbers(found) == without_numbers(shown)


def test_the_refusal_that_is_shown_is_one(client):
    *_, shown = json_blocks()
    assert client.post({"records": [{}, {"orders": "none"}]}, "/predict/batch").json() == shown


def test_limits_are_those_of_the_page():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| (.*) \|$", PAGE, re.MULTILINE)
    expected = [
        (each.name, float(each.default), each.metadata["help"])
        for each in dataclasses.fields(Limits)
    ]
    assert [(name, float(n.replace(",", "")), what) for name, n, what in rows] == expected


def test_endpoints_are_those_of_the_page(client):
    shown = set(re.findall(r"^\| `(GET|POST) (/[\w/]+)`", PAGE, re.MULTILINE)) - {("GET", "/docs")}
    paths = client.get("/openapi.json").json()["paths"]
    assert shown == {(m.upper(), path) for path, methods in paths.items() for m in methods}


def test_codes_are_those_of_the_page():
    folder = Path(__file__).resolve().parents[2] / "examples" / "service"
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    raised = set(re.findall(r'Problem\(\s*(\d+),\s*"(\w+)"', source))
    rows = re.findall(r"^\| (\d{3}) \| (`.*?) \|", PAGE, re.MULTILINE)
    shown = {(status, code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    assert len(raised) > 10
    assert raised == {(status, code) for status, code in shown if not code.startswith("http_")}
