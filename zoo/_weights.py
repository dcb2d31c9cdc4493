"""Files of pretrained networks: their weights, and the facts on their cards."""

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

# Initial weights: random, or those in the package.
Weights: TypeAlias = Literal["pretrained"] | None
FOLDER = Path(__file__).parent / "pretrained"
CARD, WEIGHTS = "card.json", "weights.npz"
_FORMAT = "keras-mmil pretrained network"


def names() -> tuple[str, ...]:
    """The names of the pretrained networks in the package."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}")))


def find(name: str) -> tuple[Path, Config]:
    """The folder of a pretrained network, and its card; ValueError if there is no valid one."""
    if name not in names():
        known = ", ".join(map(repr, names())) or "none: this version has no files"
        raise ValueError(f"Expected the name of a pretrained network: {known}. Received: {name!r}")
    card = read_card(FOLDER / name)
    if card["name"] != name:
        raise _damaged(FOLDER / name / CARD, f"it is that of {card['name']!r}")
    return FOLDER / name, card


def read_card(folder: Path) -> Config:
    """The content of `card.json`: files, weights, and how they were trained."""
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
    """The path of a file; ValueError if it is missing or has not the checksum on the card."""
    path = folder / name
    if not path.is_file():
        raise _damaged(path, "it is missing")
    if checksum_of_file(path) != card["files"].get(name):
        raise _damaged(path, "its checksum differs")
    return path


def pack(weights: Sequence[Array]) -> tuple[dict[str, Array], list[Config]]:
    """The weights of a network in the smallest form that is exact, and a description of each.

    They are stored as "bits" if all are 0 or 1, "int8" if `in_8_bits` is exact, "float16", or
    "whole".
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
    """Candidate forms of weights, the smallest first; not all are exact."""
    is_matrix = values.ndim > 1 and values.size > 0
    if values.ndim and values.size and np.isin(values, (0, 1)).all():
        yield "bits", np.packbits(values.astype(bool), axis=-1)
    if values.dtype == np.float32:
        if is_matrix and np.isfinite(values).all():
            yield "int8", in_8_bits(values)
        with np.errstate(over="ignore"):
            yield "float16", values.astype(np.float16)


def in_8_bits(values: Array) -> Array:
    """The nearest multiples, up to ±127, of a power of 2 for each column.

    Args:
        values: finite floats [..., columns], of two axes or more.

    Returns:
        int8 [rows + 1, columns]: the multiples, with leading axes flattened to rows; the last row
        has the exponents.
    """
    rows = values.reshape(-1, values.shape[-1])
    largest = np.maximum(np.abs(rows).max(axis=0), np.finfo(np.float32).tiny)
    exponents = np.clip(np.ceil(np.log2(largest / 127)), -128, 127)
    multiples = np.clip(np.rint(np.ldexp(rows, -exponents.astype(int))), -127, 127)
    return np.concatenate([multiples, exponents[None]]).astype(np.int8)


def from_8_bits(stored: Array) -> Array:
    """The float32 values [rows, columns] of `in_8_bits`."""
    return np.ldexp(stored[:-1].astype(np.float32), stored[-1].astype(int))


def read_weights(folder: Path, card: Mapping[str, Any]) -> list[Array]:
    """The weights of a pretrained network, in the order of `model.weights`."""
    path = check_file(folder, WEIGHTS, card)
    arrays = archives.read_npz(path, {str(i): None for i in range(len(card["weights"]))})
    return [
        _unpacked(values, about)
        for values, about in zip(arrays.values(), card["weights"], strict=True)
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
    """Set pretrained weights; ValueError, and no effect, if the network is another one."""
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
    """`model`, with the weights of the pretrained network `name` if `weights` says so."""
    if _are_wanted(weights):
        folder, card = find(name)
        set_weights(model, read_weights(folder, card), card, name)
    return model


def stored_weights(argument: str, weights: Weights, name: str) -> list[Array]:
    """Pretrained weights, for sizes and features of the data in place of a builder's `argument`."""
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
