"""Trained networks with their rules and cards, in files of the package."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_mmil._support.digests import checksum_of_file, fingerprint
from keras_mmil._support.files import write_json
from keras_mmil._support.types import PathLike
from keras_mmil.model import Model
from keras_mmil.records import Schema
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.explanation import Explanation, Show
from keras_mmil.zoo import _weights
from keras_mmil.zoo.imdb import with_text

__all__ = ["Card", "Pretrained", "card", "load"]

_TEXT = "card.md"


@dataclass(frozen=True, repr=False)
class Card:
    """The card of a pretrained network, printed as its text.

    Attributes:
        name: of the network.
        text: Markdown: data and their licence, how it was trained, figures with intervals, rules,
            limits, and what not to use it for.
        figures: on the test data, fractions by metric.
        facts: the content of `card.json`, a dict.
    """

    name: str
    text: str
    figures: Mapping[str, float]
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.text


def card(name: str) -> Card:
    """The card of a pretrained network.

    Args:
        name: of the network, as in `load`.

    Raises:
        ValueError: if there is no such network, or its card is damaged.

    Example:

    >>> zoo.card("cora")
    """
    folder, facts = _weights.find(name)
    text = (folder / _TEXT).read_text(encoding="utf-8")
    return Card(name=name, text=text, figures=facts["figures"], facts=facts)


_NETWORK, _WORDS, _SCHEMA, _RULES = "network.json", "words.json", "schema.json", "rules"


@dataclass(frozen=True, eq=False, repr=False)
class Pretrained:
    """A trained network and its rules.

    Attributes:
        name: of the network.
        model: the network, compiled. Networks for texts take strings.
        explainer: fitted to the network.
        card: data, training, figures and limits.
        schema: `records.Schema` of a network for records, else None.
    """

    name: str
    model: Model
    explainer: Explainer
    card: Card
    schema: Any = None

    def inputs(self, x: Any) -> Any:
        """The inputs of the network: tensors for records, a list of dicts; else `x` itself."""
        is_raw = self.schema is not None and not isinstance(x, Mapping)
        return self.schema.read(x) if is_raw else x

    def explain(self, x: Any, show: Show | None = None) -> Sequence[Explanation]:
        """Why each top-bag gets its class: a list of explanations, which can be printed.

        Args:
            x: top-bags: texts, records, or inputs of the network.
            show: as in `Explainer.explain`.
        """
        return self.explainer.explain(self.inputs(x), show)

    def predict(self, x: Any) -> np.ndarray[Any, Any]:
        """The outputs of the network for top-bags as in `explain`: float32 [top-bags, outputs]."""
        outputs: np.ndarray[Any, Any] = self.model.predict(self.inputs(x), verbose=0)
        return outputs

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {figure:.4f}" for name, figure in self.card.figures.items())
        return f"<Pretrained {self.name!r}: {figures}>"


def load(name: str) -> Pretrained:
    """A trained network with its rules and its card, from files of the package.

    Args:
        name: "cora", "mutagenicity", and others: see the page "Pretrained networks".

    Raises:
        ValueError: if there is none of that name (the message lists all), or a file is damaged.
        ImportError: if the network reads texts, and tensorflow-text is not installed.

    Example:

    >>> network = zoo.load("mutagenicity")
    >>> network.explain(datasets.molecules.load("Mutagenicity")[:1])
    """
    folder, about = _weights.find(name)
    text = _weights.check_file(folder, _NETWORK, about).read_text(encoding="utf-8")
    model = keras.models.model_from_json(text)
    _weights.set_weights(model, _weights.read_weights(folder, about), about, name)
    if _WORDS in about["files"]:
        path = _weights.check_file(folder, _WORDS, about)
        words = json.loads(path.read_text(encoding="utf-8"))
        model = with_text(model, words["vocabulary"], words["splitter"])
    schema = None
    if _SCHEMA in about["files"]:
        path = _weights.check_file(folder, _SCHEMA, about)
        schema = Schema.load(path)
    explainer = Explainer.load(folder / _RULES, model)
    return Pretrained(name, model, explainer, card(name), schema)


def write(
    folder: PathLike,
    explainer: Explainer,
    model: Model,
    facts: Mapping[str, Any],
    *,
    vocabulary: Sequence[str] | None = None,
    splitter: str = "tensorflow-text",
    schema: Any = None,
) -> None:
    """Write a trained network and its rules to an existing folder, for `load`.

    Args:
        folder: to write to.
        explainer: fitted to the network.
        model: the network.
        facts: for its card, as JSON: "name", "command", "figures", and any others.
        vocabulary: the token of each id, for a network that reads ids of tokens.
        splitter: of its texts, see `keras_mmil.text`.
        schema: `records.Schema` of a network that reads records.
    """
    folder = Path(folder)
    (folder / _NETWORK).write_text(model.to_json(indent=1) + "\n", encoding="utf-8")
    arrays, about = _weights.pack(model.get_weights())
    np.savez_compressed(folder / _weights.WEIGHTS, **arrays)  # type: ignore[arg-type]
    if vocabulary is not None:
        words = {"splitter": splitter, "vocabulary": [*vocabulary]}
        (folder / _WORDS).write_text(_compact(words), encoding="utf-8")
    if schema is not None:
        schema.save(folder / _SCHEMA)
    files = {path.name: checksum_of_file(path) for path in sorted(folder.iterdir())}
    explainer.save(folder / _RULES)
    manifest = folder / _RULES / "manifest.json"  # half of it is indentation
    manifest.write_text(_compact(json.loads(manifest.read_text("utf-8"))), encoding="utf-8")
    content = {**facts, "files": files, "weights": about, "fingerprint": fingerprint(model)}
    write_json(folder / _weights.CARD, _weights.card_of(content))


def _compact(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
