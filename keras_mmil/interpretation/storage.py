"""Explainers on disk: JSON and npz, bound to the weights of the network they explain."""

import hashlib
import io
import json
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from keras_mmil._atomic import replacing
from keras_mmil._version import __version__
from keras_mmil.interpretation import features
from keras_mmil.interpretation.fitting import Fitted
from keras_mmil.interpretation.level import Level
from keras_mmil.interpretation.rules import Rule, RuleSet
from keras_mmil.interpretation.search import GridPoint
from keras_mmil.interpretation.targets import Target
from keras_mmil.interpretation.tree import Tree

__all__ = ["fingerprint", "read", "write"]

_FORMAT = "keras-mmil rules"
_VERSION = 3
_MANIFEST = "manifest.json"
_TREE_ARRAYS = ("feature", "threshold", "children", "label")


def fingerprint(model):
    """SHA-256 of the shapes, dtypes and values of a model's weights, as hexadecimal digits."""
    digest = hashlib.sha256()
    for weight in model.weights:
        values = weight.numpy()
        digest.update(f"{values.shape} {values.dtype}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def write(folder, parameters, fitted, target, weights):
    """Save an explainer.

    The arrays' file is named after its content and the manifest names it, so that the folder turns
    from the old explainer into the new one at once, when the manifest is replaced.

    Args:
        folder: where to; made if needed. Must be empty, or hold an explainer, which is replaced.
        parameters: the constructor's arguments, a dict; a function as `target` is not saved.
        fitted: a `Fitted`.
        target: the `Target`.
        weights: `fingerprint` of the model.

    Raises:
        ValueError: if the folder holds something else.
    """
    folder = Path(folder)
    if folder.exists():
        _check_replaceable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **_arrays(fitted.levels))
    content = buffer.getvalue()
    checksum = hashlib.sha256(content).hexdigest()
    arrays = f"arrays-{checksum[:16]}.npz"
    manifest = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        "arrays": {"file": arrays, "sha256": checksum},
        "weights": weights,
        "parameters": {k: None if callable(v) else v for k, v in parameters.items()},
        "target": target.to_dict(),
        "classes": fitted.classes,
        "n_clusters": fitted.n_clusters,
        "fidelity": fitted.fidelity,
        "majority": fitted.majority,
        "grid": [asdict(point) for point in fitted.grid],
        "levels": [_level_to_dict(level) for level in fitted.levels],
    }
    with replacing(folder / arrays) as part:
        part.write_bytes(content)
    text = json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False, default=_plain)
    with replacing(folder / _MANIFEST) as part:
        part.write_text(text, encoding="utf-8")
    for old in folder.glob("arrays-*.npz"):
        if old.name != arrays:
            old.unlink()


def read(folder, model, function=None):
    """Load what `write` saved.

    Args:
        folder: where from.
        model: the Keras model that was explained.
        function: the function that was its target, if it was one.

    Returns:
        `parameters`, `fitted` and `target`.

    Raises:
        FileNotFoundError: if there is no explainer in the folder.
        ValueError: if it is damaged, of another version, explains another model, or if `function`
            is missing or superfluous.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder)
    if manifest.get("weights") != fingerprint(model):
        raise ValueError(
            f"Expected the model whose rules were saved in {str(folder)!r}, with the weights it "
            f"had then. Received: model={model.name!r}"
        )
    try:
        arrays = _read_arrays(folder, manifest["arrays"])
        levels = enumerate(manifest["levels"])
        fitted = Fitted(
            tuple(_level_from_dict(data, arrays, index) for index, data in levels),
            tuple(manifest["classes"]),
            tuple(GridPoint(**_tuples(point)) for point in manifest["grid"]),
            tuple(manifest["n_clusters"]),
            manifest["fidelity"],
            manifest["majority"],
        )
        parameters, target = _tuples(manifest["parameters"]), Target(**manifest["target"])
    except (KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder / _MANIFEST, repr(error)) from error
    if (target.kind == "function") != callable(function):
        raise ValueError(
            "Expected the function that was the target, which is not saved, if it was one. "
            f"Received: target={function!r} for a saved target of kind {target.kind!r}"
        )
    if callable(function):
        parameters["target"], target = function, replace(target, function=function)
    return parameters, fitted, target


def _check_replaceable(folder):
    if not folder.is_dir():
        raise ValueError(f"Expected a folder. Received: folder={str(folder)!r}, a file")
    if any(folder.iterdir()):
        try:
            _read_manifest(folder, any_version=True)
        except (OSError, ValueError) as error:
            raise ValueError(
                "Expected a new or empty folder, or one with saved rules, which are replaced. "
                f"Received: folder={str(folder)!r}"
            ) from error


def _read_manifest(folder, any_version=False):
    path = folder / _MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"Expected saved rules. Received: no file {str(path)!r}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ValueError(f"Expected a manifest of saved rules. Received: {str(path)!r}")
    if not any_version and manifest.get("version") != _VERSION:
        raise ValueError(
            f"Expected rules saved in version {_VERSION} of the format. "
            f"Received: version={manifest.get('version')!r} in {str(path)!r}"
        )
    return manifest


def _read_arrays(folder, entry):
    path = folder / Path(entry["file"]).name
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected the arrays of saved rules. Received: no file {str(path)!r}"
        )
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise _damaged(path, "its checksum differs")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path, why):
    return ValueError(
        f"Expected saved rules that are whole. Received: {str(path)!r}, damaged: {why}"
    )


def _arrays(levels):
    arrays = {}
    for index, level in enumerate(levels):
        arrays[f"centroids_{index}"] = level.centroids
        if level.projection is not None:
            arrays[f"projection_{index}"] = level.projection
        arrays[f"sizes_{index}"] = level.sizes
        arrays |= {f"tree_{name}_{index}": getattr(level.tree, name) for name in _TREE_ARRAYS}
    return arrays


def _level_to_dict(level):
    return {
        "word": level.word,
        "bag_word": level.bag_word,
        "feature": level.feature.name,
        "member_names": level.names,
        "names": level.rules.names,
        "needed": level.rules.needed,
        "rules": [rule.to_dict() for rule in level.rules],
    }


def _level_from_dict(data, arrays, index):
    centroids = arrays[f"centroids_{index}"]
    tree = Tree(*(arrays[f"tree_{name}_{index}"] for name in _TREE_ARRAYS), len(centroids))
    rules = RuleSet(
        tuple(Rule.from_dict(rule) for rule in data["rules"]),
        tuple(data["member_names"]),
        tuple(data["names"]),
        tuple(data["needed"]),
    )
    feature = features.get(data["feature"])
    words = data["word"], data["bag_word"]
    projection = arrays.get(f"projection_{index}")
    return Level(*words, projection, centroids, arrays[f"sizes_{index}"], feature, tree, rules)


def _plain(number):
    """NumPy's numbers as Python's, for JSON."""
    return number.item()


def _tuples(data):
    """A dict whose lists become the tuples that they were."""
    return {key: tuple(x) if isinstance(x, list) else x for key, x in data.items()}
