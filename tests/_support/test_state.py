"""Saved state: values that come back, and everything else refused with its place."""

import enum
import json
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import pytest
from seals import reseal

from keras_mmil._support import state
from keras_mmil._support.state import decode, encode, peek_state, read_state, write_state
from keras_mmil._support.types import Array, Ints


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Leaf:
    low: float = -np.inf
    high: float = np.inf
    values: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Twig:
    name: str
    leaf: Leaf | None = None


Kind = TypeVar("Kind", bound=Twig)


@dataclass(frozen=True)
class Box(Generic[Kind]):
    members: tuple[Kind, ...]


@dataclass(frozen=True, eq=False)
class Whole:
    n: int
    share: float
    is_on: bool
    colour: Colour
    mode: Literal["a", "b"]
    pair: tuple[int, str]
    box: Box[Twig]
    either: Twig | Leaf
    counts: dict[Any, int]
    by_name: dict[str, Leaf]
    ids: Ints
    anything: Any
    texts: list[str] = field(default_factory=list)
    weights: Array | None = None


def whole(**changes):
    made = {
        "n": 3,
        "share": 0.5,
        "is_on": True,
        "colour": Colour.BLUE,
        "mode": "a",
        "pair": (1, "x"),
        "box": Box((Twig("a"), Twig("b", Leaf(0.0, values=("c", 4))))),
        "either": Leaf(high=2.0),
        "counts": {1: 2, 2.5: 3, "x": 4},
        "by_name": {"one": Leaf(), "pairs": Leaf(1.0)},
        "ids": np.arange(3),
        "anything": {"k": (1, {3: (None, "z")})},
    }
    return Whole(**made | changes)


def coded(value, arrays=None):
    """The value as it is in a file."""
    return json.loads(json.dumps(encode(value, arrays), allow_nan=False))


def test_values_come_back():
    arrays = {}
    value = whole(texts=["t"], weights=np.ones((2, 2), np.float32), n=np.int64(7))
    content = coded(value, arrays)
    assert content["box"]["members"][1]["leaf"] == {"low": 0.0, "values": ["c", 4]}
    assert arrays.keys() == {"ids", "weights"}
    loaded = decode(Whole, content, arrays)
    assert arrays == {}
    for name, part in vars(value).items():
        found = getattr(loaded, name)
        if isinstance(part, np.ndarray):
            np.testing.assert_array_equal(found, part)
            assert found.dtype == part.dtype
        else:
            assert found == part
            assert type(found) is type(part) or name == "n"
    assert encode(whole(), {}).keys().isdisjoint({"texts", "weights"})  # they have their defaults


@pytest.mark.parametrize(
    ("path", "wrong", "place"),
    [
        (("n",), True, "n=True"),
        (("n",), 1.5, "n=1.5"),
        (("n",), None, "n=None"),
        (("share",), "1", "share='1'"),
        (("share",), float("inf"), "share=inf"),
        (("share",), float("nan"), "share=nan"),
        (("share",), 10**400, "share=1000"),
        (("is_on",), 1, "is_on=1"),
        (("colour",), "green", "colour='green'"),
        (("mode",), "c", "mode='c'"),
        (("pair",), [1], r"pair=\[1\]"),
        (("pair", 1), 1, r"pair\[1\]=1"),
        (("box", "members"), {}, "box.members={}"),
        (("box", "members", 1, "leaf", "values", 0), 0.5, r"members\[1\].leaf.values\[0\]=0.5"),
        (("box", "members", 0, "more"), 1, r"box.members\[0\].more=1"),
        (("box", "members", 0), {}, r"box.members\[0\].name is missing"),
        (("either",), [], r"either=\[\]"),
        (("counts",), {"pairs": [[1, 2], [1, 3]]}, "counts='repeated keys'"),
        (("counts",), {"pairs": [[[], 2]]}, "counts=.*pairs"),
        (("counts",), {"pairs": 3}, "counts=.*pairs"),
        (("counts", "pairs", 0, 1), "x", "counts.1='x'"),
        (("by_name",), [], r"by_name=\[\]"),
        (("by_name", "pairs"), [[1, {}]], "by_name=1|by_name.pairs="),
        (("ids",), "other", "ids='other'"),
        (("texts",), [3], r"texts\[0\]=3"),
    ],
)
def test_wrong_content_is_refused_with_its_place(path, wrong, place):
    arrays = {}
    content = at = coded(whole(), arrays)
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = wrong
    with pytest.raises(ValueError, match=place):
        decode(Whole, content, arrays)


def test_what_json_cannot_hold():
    for wrong in (object(), {1, 2}, float("nan"), [np.inf], b"x"):
        with pytest.raises(ValueError, match=r"Received: anything"):
            encode(whole(anything=wrong))


# Files ------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    write_state(tmp_path / "state.json", "some state", 2, {"a": [1, None], "b": {"c": "ä"}})
    return tmp_path / "state.json"


def test_files_come_back_however_they_are_laid_out(path):
    expected = {"a": [1, None], "b": {"c": "ä"}}
    assert read_state(path, "some state", 2) == expected
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True, indent=7))
    assert read_state(path, "some state", 2) == expected
    reseal(path, {"a": 5})
    assert read_state(path, "some state", 2) == expected | {"a": 5}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"version": 1}, "version 1, not 2: make it again"),
        ({"format": "other"}, "of another format"),
        ({"a": [1, 0]}, "damaged: its checksum differs"),
        ({"library": "0.0"}, "damaged: its checksum differs"),
        ({"sha256": None}, "damaged: its checksum differs"),
    ],
)
def test_changed_files_are_refused(path, change, match):
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=rf"'some state'. Received: .*state\.json.*{match}"):
        read_state(path, "some state", 2)
    assert (peek_state(path, "some state") is None) == ("format" in change)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 10**5, b"1" * 10**5, b'{"x": NaN}']
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"Expected .*'some state'. Received: .*state\.json"):
        read_state(path, "some state", 2)
    assert peek_state(path, "some state") is None
    path.unlink()
    assert peek_state(path, "some state") is None
    with pytest.raises(FileNotFoundError, match=r"no file .*state\.json"):
        read_state(path, "some state", 2)


def test_deep_content_is_refused(path):
    """At some depth, JSON gives up, at others the checksum."""
    deep = path.parent / "deep.json"
    for depth in (300, 450, 600, 900, 1200):
        nested = f'"d": {"[" * depth}{"]" * depth},\n "b"'
        deep.write_text(path.read_text().replace('"b"', nested))
        with pytest.raises(ValueError, match=r"'some state'. Received: .*deep\.json"):
            read_state(deep, "some state", 2)


def test_huge_files_are_not_read(path, monkeypatch):
    monkeypatch.setattr(state, "_MOST_BYTES", 100)
    with pytest.raises(ValueError, match="larger than 100 bytes"):
        read_state(path, "some state", 2)
