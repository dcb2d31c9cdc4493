"""Explainers on disk: JSON and npz, bound to the weights of the network they explain."""

import contextlib
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_mmil._support import archives
from keras_mmil._support.digests import checksum_of_file, checksum_of_json, fingerprint
from keras_mmil._support.files import atomic_write, part_of, remove_abandoned
from keras_mmil._support.types import Array, Config, PathLike
from keras_mmil._version import __version__
from keras_mmil.rules.encoding import decode, decode_target, encode, with_tuples
from keras_mmil.rules.fitting.fitter import Fitted
from keras_mmil.rules.fitting.plan import field_names
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.targets import Target, TargetFunction
from keras_mmil.rules.trees.level import Level, all_clusters, titles

__all__ = ["Saved", "difference", "fingerprint", "read", "write"]

_FORMAT = "keras-mmil rules"
_VERSION = 7
_MANIFEST = "manifest.json"
_ARRAYS = re.compile(r"arrays-([0-9a-f]{16})\.npz")  # named after their content
_DECODE_ERRORS = (AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class Saved:
    """What is saved of an explainer: its arguments, what fitting found, and the target.

    A target that is a function is not saved.
    """

    parameters: Config
    fitted: Fitted
    target: Target


def write(folder: PathLike, saved: Saved, weights: str) -> None:
    """Save an explainer.

    The file of arrays is named after its content, and the manifest names it, so the folder turns
    from the old explainer into the new one in one step, when the manifest is replaced. The manifest
    also has a checksum of its own content, which does not depend on its indentation.

    Args:
        folder: made if it does not exist. It must be empty, or hold an explainer, which is
            replaced, or what an interrupted save left.
        saved: the explainer.
        weights: `fingerprint` of the model.

    Raises:
        TypeError: if JSON has no form for a parameter.
        ValueError: if the folder holds anything else.
    """
    folder = Path(folder)
    if folder.exists():
        _check_replaceable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data, arrays = encode(saved.fitted)
    content = _packed(arrays)
    checksum = hashlib.sha256(content).hexdigest()
    file = f"arrays-{checksum[:16]}.npz"
    manifest = {
        "library": __version__,
        "arrays": {"file": file, "sha256": checksum},
        "weights": weights,
        "parameters": saved.parameters | ({"target": None} if saved.target.function else {}),
        "target": saved.target.to_dict(),
        "fitted": data,
    }
    # As it will be read, with Python's numbers for NumPy's, and lists for tuples.
    manifest = json.loads(json.dumps(manifest, allow_nan=False, default=_plain))
    head = {"format": _FORMAT, "version": _VERSION, "sha256": checksum_of_json(manifest)}
    text = json.dumps(head | manifest, indent=1, ensure_ascii=False)
    with atomic_write(folder / file) as part:
        part.write_bytes(content)
    replaced = _arrays_of_saved(folder)
    with atomic_write(folder / _MANIFEST) as part:
        part.write_text(text, encoding="utf-8")
    if replaced is not None and replaced != file:
        (folder / replaced).unlink(missing_ok=True)
    # Only old ones, as others may be of a save that goes on at the same time.
    leftovers = [path for path in folder.iterdir() if path.name != file and _is_leftover(path)]
    remove_abandoned(folder / _MANIFEST, leftovers)


def read(
    folder: PathLike,
    network: Network,
    defaults: Config,
    function: TargetFunction | None = None,
) -> Saved:
    """Load what `write` saved.

    Args:
        folder: of the explainer.
        network: the model that was explained.
        defaults: the constructor's arguments with their defaults.
        function: the function that was its target, if that was a function.

    Raises:
        FileNotFoundError: if there is no explainer in the folder.
        ValueError: if it is damaged, of another version, explains another model, or if `function`
            is missing or superfluous.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder)
    with _refusing(folder / _MANIFEST, _DECODE_ERRORS):
        file, checksum = Path(manifest["arrays"]["file"]).name, manifest["arrays"]["sha256"]
    arrays = _read_arrays(folder / file, checksum)
    with _refusing(folder / _MANIFEST, _DECODE_ERRORS):
        parameters = with_tuples(manifest["parameters"])
        if parameters.keys() != defaults.keys():
            raise ValueError(f"its parameters are {sorted(parameters)}")
        fitted = decode(manifest["fitted"], arrays)
        target = decode_target(manifest["target"], len(fitted.classes))
    wrong = difference(fitted.levels, network)
    if wrong or manifest.get("weights") != fingerprint(network.model):
        raise ValueError(
            f"Expected the model whose rules were saved in {str(folder)!r}, with the weights it "
            f"had then. Received: model={network.model.name!r} with {wrong or 'other weights'}"
        )
    if (target.kind == "function") != callable(function):
        raise ValueError(
            "Expected the function that was the target, which is not saved, if it was one. "
            f"Received: target={function!r} for a saved target of kind {target.kind!r}"
        )
    if callable(function):
        parameters["target"], target = function, replace(target, function=function)
    return Saved(parameters, fitted, target)


def difference(levels: Sequence[Level], network: Network) -> str:
    """The first difference between a network and the one that levels were read from.

    It says what the network has instead of what; empty if there is none. Weights are not compared.
    """
    clusters = all_clusters(levels)
    n_layers = len(network.layers)
    if n_layers != len(clusters):
        return f"{n_layers} bag-layer{'s' if n_layers > 1 else ''} instead of {len(clusters)}"
    names = [*titles(clusters), "top-bags"]
    parents = {bag.level: level.record for level in levels for bag in level.clusters}
    for bag, layer, parent, path in zip(
        clusters, network.layers, network.parents, network.paths, strict=True
    ):
        what = f"bag-layer {bag.level}"
        if path != bag.path:
            return f"{what} on {path!r} instead of {bag.path!r}"
        if parent != parents[bag.level]:
            return f"{what} in {names[parent]} instead of {names[parents[bag.level]]}"
        units = len(bag.centroids[0] if bag.projection is None else bag.projection)
        if layer.units not in (None, units):
            return f"{what} of {layer.units} units instead of {units}"
    for level in levels:
        kinds = (encoder.kind for encoder in network.encoders[level.record])
        found = [*zip(field_names(network, level.record), kinds, strict=True)]
        expected = [(field.name, field.kind) for field in level.space.fields]
        if found != expected:
            return f"{names[level.record]} with {_listed(found)} instead of {_listed(expected)}"
    return ""


def _listed(fields: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in fields) or "no fields"


def _check_replaceable(folder: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"Expected a folder. Received: folder={str(folder)!r}, a file")
    if not all(map(_is_leftover, folder.iterdir())):
        try:
            _read_manifest(folder, check=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                "Expected a new or empty folder, or one with saved rules, which are replaced. "
                f"Received: folder={str(folder)!r}"
            ) from error


def _is_leftover(path: Path) -> bool:
    """Whether a file certainly comes from an interrupted save, and no manifest names it."""
    if part_of(path) == _MANIFEST or _ARRAYS.fullmatch(part_of(path) or ""):
        return True
    match = _ARRAYS.fullmatch(path.name)
    if not match or path.is_dir():
        return False
    try:
        return checksum_of_file(path).startswith(match[1])
    except FileNotFoundError:  # another save has just removed it
        return True


def _arrays_of_saved(folder: Path) -> str | None:
    """Name of the arrays' file of the explainer in a folder, None if there is none."""
    if not (folder / _MANIFEST).is_file():
        return None
    entry = _read_manifest(folder, check=False).get("arrays")
    name = entry.get("file") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and _ARRAYS.fullmatch(name) else None


def _read_manifest(folder: Path, check: bool = True) -> Config:
    path = folder / _MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"Expected saved rules. Received: no file {str(path)!r}")
    with _refusing(path, (ValueError, RecursionError)):
        manifest = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(manifest, dict) or manifest.pop("format", None) != _FORMAT:
        raise ValueError(f"Expected a manifest of saved rules. Received: {str(path)!r}")
    version, checksum = manifest.pop("version", None), manifest.pop("sha256", None)
    if check and version != _VERSION:
        raise ValueError(
            f"Expected rules saved in version {_VERSION} of the format; read others from their "
            f"network again. Received: version={version!r} in {str(path)!r}"
        )
    if check and checksum_of_json(manifest) != checksum:
        raise _damaged(path, "its checksum differs")
    return manifest


def _packed(arrays: Mapping[str, Any]) -> bytes:
    """Arrays as the content of an npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _read_arrays(path: Path, checksum: str) -> dict[str, Array]:
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected the arrays of saved rules. Received: no file {str(path)!r}"
        )
    if checksum_of_file(path) != checksum:
        raise _damaged(path, "its checksum differs")
    return archives.read_npz(path)


@contextlib.contextmanager
def _refusing(path: Path, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn these errors into one that names the damaged file."""
    try:
        yield
    except errors as error:
        raise _damaged(path, repr(error)) from error


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(
        f"Expected saved rules that are whole. Received: {str(path)!r}, damaged: {why}"
    )


def _plain(value: object) -> Any:
    """NumPy's numbers and arrays as Python's, for JSON."""
    if not isinstance(value, (np.generic, np.ndarray)):
        raise TypeError(f"Expected arguments of an explainer that JSON knows. Received: {value!r}")
    return value.tolist()
