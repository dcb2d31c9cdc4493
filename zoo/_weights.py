"""Weights of pretrained networks, in files of the package; what they are is in `zoo.pretrained`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import keras
import numpy as np

from keras_mmil._support import archives
from keras_mmil._support.digests import checksum_of_file, checksum_of_json, fingerprint
from keras_mmil._support.types import Array, Config
from keras_mmil.model import Model

__all__ = [
    "CARD",
    "FOLDER",
    "WEIGHTS",
    "Weights",
    "card_of",
    "check_file",
    "find",
    "from_8_bits",
    "in_8_bits",
    "names",
    "pack",
    "read_card",
    "read_weights",
    "set_weights",
    "stored_weights",
    "with_weights",
]

# What a network starts with: random weights, or those of the network that is in the package.
Weights: TypeAlias = Literal["pretrained"] | None
FOLDER = Path(__file__).parent / "pretrained"
CARD, WEIGHTS = "card.json", "weights.npz"
_FORMAT = "keras-mmil pretrained network"


def names() -> tuple[str, ...]:
    """The names of the pretrained networks whose files are there."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}")))


def find(name: str) -> tuple[Path, Config]:
    """The folder of a pretrained network, and its card.

    Raises:
        ValueError: if there is none of that name, or its card is damaged or another one's.
    """
    if name not in names():
        known = ", ".join(map(repr, names())) or "none: this version has no files"
        raise ValueError(f"Expected the name of a pretrained network: {known}. Received: {name!r}")
    card = read_card(FOLDER / name)
    if card["name"] != name:
        raise _damaged(FOLDER / name / CARD, f"it is that of {card['name']!r}")
    return FOLDER / name, card


def read_card(folder: Path) -> Config:
    """What `card.json` says: the files, the weights, and how they came about.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is damaged, or no card.
    """
    path = folder / CARD
    if not path.is_file():
        raise FileNotFoundError(f"Expected a pretrained network. Received: no file {path}")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        is_card = isinstance(card, dict) and card.get("format") == _FORMAT
        is_whole = is_card and card.pop("sha256", None) == checksum_of_json(card)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not is_whole:
        raise _damaged(path, "its checksum differs" if is_card else "it is something else")
    return card


def card_of(content: Mapping[str, Any]) -> Config:
    """The content of a `card.json`, with its format and checksum."""
    card = {"format": _FORMAT, **content}
    return {**card, "sha256": checksum_of_json(card)}


def check_file(folder: Path, name: str, card: Mapping[str, Any]) -> Path:
    """The path of a file of a pretrained network, whose checksum is that on the card.

    Raises:
        ValueError: if the file is missing or another one.
    """
    path = folder / name
    if not path.is_file():
        raise _damaged(path, "it is missing")
    if checksum_of_file(path) != card["files"].get(name):
        raise _damaged(path, "its checksum differs")
    return path


def pack(weights: Sequence[Array]) -> tuple[dict[str, Array], list[Config]]:
    """Arrays as they are stored, in as few bytes as hold their values exactly.

    Args:
        weights: of a network, in its order.

    Returns:
        The arrays of a file, and for each the shape and dtype of the weights and how they are
        stored: "bits" where all are 0 or 1, "int8" where `in_8_bits` keeps them, "float16" where
        all are numbers of that type, or "whole".
    """
    arrays, about = {}, []
    for i, values in enumerate(weights):
        for stored, array in chain(_smaller(values), [("whole", values)]):
            entry = {"shape": [*values.shape], "dtype": str(values.dtype), "stored": stored}
            if stored == "whole" or np.array_equal(_unpacked(array, entry), values):
                arrays[str(i)] = array
                about.append(entry)
                break
    return arrays, about


def _smaller(values: Array) -> Iterator[tuple[str, Array]]:
    """How weights could be stored, from the smallest on; not all of it is exact."""
    is_matrix = values.ndim > 1 and values.size > 0
    if values.ndim and values.size and np.isin(values, (0, 1)).all():
        yield "bits", np.packbits(values.astype(bool), axis=-1)
    if values.dtype == np.float32:
        if is_matrix and np.isfinite(values).all():
            yield "int8", in_8_bits(values)
        with np.errstate(over="ignore"):
            yield "float16", values.astype(np.float16)


def in_8_bits(values: Array) -> Array:
    """The nearest multiples, up to 127, of a power of 2 for each column.

    Args:
        values: finite floats [..., columns], of two axes or more.

    Returns:
        int8 [rows + 1, columns], where all axes but the last are rows: the multiples, and in the
        last row the exponents of the powers.
    """
    rows = values.reshape(-1, values.shape[-1])
    largest = np.maximum(np.abs(rows).max(axis=0), np.finfo(np.float32).tiny)
    exponents = np.clip(np.ceil(np.log2(largest / 127)), -128, 127)
    multiples = np.clip(np.rint(np.ldexp(rows, -exponents.astype(int))), -127, 127)
    return np.concatenate([multiples, exponents[None]]).astype(np.int8)


def from_8_bits(stored: Array) -> Array:
    """The float32 values [rows, columns] of what `in_8_bits` returned."""
    return np.ldexp(stored[:-1].astype(np.float32), stored[-1].astype(int))


def read_weights(folder: Path, card: Mapping[str, Any]) -> list[Array]:
    """The weights of a pretrained network, in the order of `model.weights`.

    Raises:
        ValueError: if their file is damaged.
    """
    path = check_file(folder, WEIGHTS, card)
    found = archives.read_npz(path, {str(i): None for i in range(len(card["weights"]))})
    return [
        _unpacked(values, about)
        for values, about in zip(found.values(), card["weights"], strict=True)
    ]


def _unpacked(values: Array, about: Mapping[str, Any]) -> Array:
    if about["stored"] == "bits":
        values = np.unpackbits(values, axis=-1, count=about["shape"][-1])
    elif about["stored"] == "int8":
        values = from_8_bits(values)
    return values.astype(about["dtype"]).reshape(about["shape"])


def set_weights(
    model: keras.Model, weights: Sequence[Array], card: Mapping[str, Any], name: str
) -> None:
    """Give a network the weights of a pretrained one.

    Raises:
        ValueError: if it is another network; its weights are then as they were.
    """
    shapes = [tuple(weight.shape) for weight in model.weights]
    expected = [values.shape for values in weights]
    wrong = f"{len(shapes)} weights instead of {len(expected)}"
    if len(shapes) == len(expected):
        pairs = zip(shapes, expected, strict=True)
        differing = (f"weights {one} instead of {other}" for one, other in pairs if one != other)
        wrong = next(differing, "")
    if not wrong:
        before = model.get_weights()
        model.set_weights(weights)
        if fingerprint(model) == card["fingerprint"]:
            return
        model.set_weights(before)
        wrong = "other activations, aggregations or dtypes"
    raise ValueError(
        f"Expected the arguments that the pretrained network {name!r} was built with: that of "
        f"`{card['command']}`. Received: a network with {wrong}"
    )


def with_weights(model: Model, weights: Weights, name: str) -> Model:
    """A network that was just built, with pretrained weights if they are asked for.

    Args:
        model: the network.
        weights: the argument of its builder.
        name: of the pretrained network.

    Raises:
        ValueError: if `weights` are something else, not there, or of a network that was built with
            other arguments.
    """
    if _are_wanted(weights):
        folder, card = find(name)
        set_weights(model, read_weights(folder, card), card, name)
    return model


def stored_weights(argument: str, weights: Weights, name: str) -> list[Array]:
    """Pretrained weights, for what they tell of the data where a builder is not told it.

    Args:
        argument: of the builder, which was not given.
        weights: another one.
        name: of the pretrained network.

    Raises:
        ValueError: if no pretrained weights are asked for, or there are none.
    """
    if not _are_wanted(weights):
        raise ValueError(f"Expected {argument}, or weights='pretrained'. Received: neither")
    return read_weights(*find(name))


def _are_wanted(weights: Weights) -> bool:
    if weights not in (None, "pretrained"):
        raise ValueError(f"Expected None or 'pretrained'. Received: weights={weights!r}")
    return weights is not None


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(
        f"Expected the files of a pretrained network as they were installed. Received: {path}, "
        f"damaged: {why}"
    )
