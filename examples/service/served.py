"""A trained network with its rules, from the files that it was saved to."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

import keras_mmil
from keras_mmil import ragged
from service.answer import Answer
from service.problem import Problem

__all__ = ["Served"]


@dataclass(frozen=True)
class Served:
    """A network and its rules.

    Attributes:
        model: the network, whose outputs are probabilities.
        explainer: its rules.
        read: from records to what the network takes; it raises TypeError, ValueError or UserWarning
            for those that it cannot read.
        join: from several of what `read` returns to one.
        about: what the records have to be, for JSON.
        blank: a record in which everything is missing.
    """

    model: keras.Model
    explainer: keras_mmil.Explainer
    read: Callable[[list[Any]], Any]
    join: Callable[[Sequence[Any]], Any]
    about: dict[str, Any]
    blank: Any

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a `NestedClassifier` that was saved after it had been asked for its rules; or a
        folder with the network of texts, `model.keras`, and its rules, `rules`.

        Raises:
            ValueError: if it is neither, or of several labels.
        """
        folder = Path(folder)
        if (folder / "estimator.json").is_file():
            return cls._of_records(folder)
        if (folder / "model.keras").is_file() and (folder / "rules").is_dir():
            return cls._of_texts(folder)
        raise ValueError(
            "Expected the folder of a saved NestedClassifier, or one with model.keras and rules. "
            f"Received: {folder}"
        )

    @classmethod
    def _of_records(cls, folder: Path) -> Self:
        estimator = keras_mmil.NestedClassifier.load(folder)
        if estimator.is_multilabel_:
            raise ValueError(f"Expected a classifier of one label. Received: several, in {folder}")
        schema, target = estimator.schema_, estimator.target_
        parts = [
            {"path": part.path, "kind": part.kind}
            for part in schema
            if not part.is_left_out and part.path != target
        ]
        about = {"kind": "records", "classes": list(estimator.explainer_.classes_), "parts": parts}
        return cls(
            estimator.model_,
            estimator.explainer_,
            read=lambda records: schema.read(
                _objects(records), without=target or (), unseen="error"
            ),
            join=ragged.concat,
            about=about,
            blank={},
        )

    @classmethod
    def _of_texts(cls, folder: Path) -> Self:
        model = keras.models.load_model(folder / "model.keras")
        explainer = keras_mmil.Explainer.load(folder / "rules", model)
        about = {"kind": "texts", "classes": list(explainer.classes_), "parts": []}
        return cls(
            model, explainer, _texts, lambda parts: [*itertools.chain(*parts)], about, blank=""
        )

    def warm_up(self) -> None:
        """Answer once, so that no client waits until TensorFlow has traced the network.

        Raises:
            ValueError: if the outputs of the network are no probabilities of the rules' classes.
        """
        for n in (1, 2):  # the second time for any number
            self.answers([self.read([self.blank] * n)], [n])

    def read_records(self, records: list[Any], is_batch: bool) -> Any:
        """Records as the network takes them.

        Raises:
            Problem: if they are not as the network has learned them.
        """
        try:
            return self.read(records)
        except (TypeError, ValueError, UserWarning) as error:
            message, _, number = str(error).rpartition(", in record ")
            message = (message or number).removesuffix(", and are read as missing.")
            where = f"records[{number}]" if is_batch and message != number else None
            raise Problem(422, "wrong_record", message, where) from None

    def answers(self, inputs: Sequence[Any], sizes: Sequence[int]) -> list[list[Answer]]:
        """What network and rules say of the records of several requests, computed at once.

        Args:
            inputs: for each request what `read` made of its records.
            sizes: numbers of these records.
        """
        x = self.join(inputs) if len(inputs) > 1 else inputs[0]
        # Each client counts from 0.
        numbers = [i for size in sizes for i in range(size)]
        explanations = self.explainer.explain(
            x, show=lambda at: str(at[-1] if len(at) > 1 else numbers[at[0]])
        )
        probabilities = self._probabilities(x)
        names = self.explainer.classes_
        answers = (
            Answer.of(dict(zip(names, row.tolist(), strict=True)), explanation)
            for row, explanation in zip(probabilities, explanations, strict=True)
        )
        return [[next(answers) for _ in range(size)] for size in sizes]

    def _probabilities(self, x: Any) -> np.ndarray:
        """Those of each class, [records, classes]."""
        outputs = np.asarray(self.model.predict_on_batch(x), np.float64)
        if outputs.ndim == 2 and outputs.shape[1] == 1:
            outputs = np.concatenate([1 - outputs, outputs], axis=1)
        n_classes = len(self.explainer.classes_)
        if outputs.shape[1:] != (n_classes,) or not np.allclose(outputs.sum(axis=1), 1, atol=1e-3):
            raise ValueError(
                f"Expected probabilities of {n_classes} classes from the network. "
                f"Received: outputs of shape {outputs.shape}"
            )
        return outputs


def _texts(records: list[Any]) -> list[str]:
    return _all_of(str, "a text", records)


def _objects(records: list[Any]) -> list[dict[str, Any]]:
    """Records that are objects: a schema would take a text for the path of a file."""
    return _all_of(dict, "an object", records)


def _all_of(type_: type, expected: str, records: list[Any]) -> list[Any]:
    for number, record in enumerate(records):
        if not isinstance(record, type_):
            raise TypeError(
                f"Expected {expected}. Received: {type(record).__name__}, in record {number}"
            )
    return records
