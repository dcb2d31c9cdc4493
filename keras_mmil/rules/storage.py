"""Explainers on disk: JSON and npz, bound to the weights of the network they explain."""

import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_mmil._support import archives
from keras_mmil._support.digests import checksum_of_file, fingerprint
from keras_mmil._support.files import atomic_write, part_of, remove_abandoned
from keras_mmil._support.state import decode, encode, peek_state, read_state, write_state
from keras_mmil._support.types import Array, Config, PathLike
from keras_mmil.rules.fitting.fitter import Fitted
from keras_mmil.rules.fitting.plan import field_names
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.targets import Target, TargetFunction
from keras_mmil.rules.trees.fields import KINDS, Field
from keras_mmil.rules.trees.level import Clusters, Level, all_clusters, titles
from keras_mmil.rules.trees.rule_set import Condition, Definition

__all__ = ["Saved", "difference", "fingerprint", "read", "write"]

_FORMAT = "keras-mmil rules"
_VERSION = 8
_MANIFEST = "manifest.json"
_ARRAYS = re.compile(r"arrays-([0-9a-f]{16})\.npz")  # named after their content
_TARGETS: dict[str, tuple[str, ...]] = {  # what a target of each kind has
    "argmax": ("n_outputs",),
    "is_argmax": ("n_outputs", "index"),
    "threshold": ("n_outputs", "index", "threshold"),
    "function": (),
}


@dataclass(frozen=True, eq=False)
class Saved:
    """What is saved of an explainer: its arguments, what fitting found, and the target.

    A target that is a function is not saved.
    """

    parameters: Config
    fitted: Fitted
    target: Target


@dataclass(frozen=True)
class _Arrays:
    """The file of arrays that a manifest names, in the same folder."""

    file: str
    sha256: str

    def __post_init__(self) -> None:
        _require(_ARRAYS.fullmatch(self.file) is not None, f"the file of arrays is {self.file!r}")


def write(folder: PathLike, saved: Saved, weights: str) -> None:
    """Save an explainer.

    The file of arrays is named after its content, and the manifest names it, so the folder turns
    from the old explainer into the new one in one step, when the manifest is replaced.

    Args:
        folder: made if it does not exist. It must be empty, or hold an explainer, which is
            replaced, or what an interrupted save left.
        saved: the explainer.
        weights: `fingerprint` of the model.

    Raises:
        ValueError: if the folder holds anything else, or JSON has no form for a parameter.
    """
    folder = Path(folder)
    if folder.exists():
        _check_replaceable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if saved.target.function is not None:
        parameters, target = (
            saved.parameters | {"target": None},
            replace(saved.target, function=None),
        )
        saved = replace(saved, parameters=parameters, target=target)
    arrays: dict[str, Array] = {}
    coded = encode(replace(saved, parameters={}), arrays)
    coded["parameters"] = encode(saved.parameters, where="parameters")
    content = _packed(arrays)
    checksum = hashlib.sha256(content).hexdigest()
    file = f"arrays-{checksum[:16]}.npz"
    with atomic_write(folder / file) as part:
        part.write_bytes(content)
    replaced = _arrays_of_saved(folder)
    about = {"weights": weights, "arrays": {"file": file, "sha256": checksum}}
    write_state(folder / _MANIFEST, _FORMAT, _VERSION, about | coded)
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
    content = read_state(folder / _MANIFEST, _FORMAT, _VERSION)
    weights = content.pop("weights", None)
    try:
        about = decode(_Arrays, content.pop("arrays", None), where="arrays")
        arrays = _read_arrays(folder / about.file, about.sha256)
        saved = decode(Saved, content, arrays)
        if arrays:
            raise ValueError(f"nothing has the arrays {sorted(arrays)}")
        if saved.parameters.keys() != defaults.keys():
            raise ValueError(f"its parameters are {sorted(saved.parameters)}")
        _check(saved.fitted)
        _check_target(saved.target, len(saved.fitted.classes))
    except ValueError as error:
        raise _damaged(folder / _MANIFEST, str(error)) from error
    wrong = difference(saved.fitted.levels, network)
    if wrong or weights != fingerprint(network.model):
        raise ValueError(
            f"Expected the model whose rules were saved in {str(folder)!r}, with the weights it "
            f"had then. Received: model={network.model.name!r} with {wrong or 'other weights'}"
        )
    if (saved.target.kind == "function") != callable(function):
        raise ValueError(
            "Expected the function that was the target, which is not saved, if it was one. "
            f"Received: target={function!r} for a saved target of kind {saved.target.kind!r}"
        )
    if callable(function):
        parameters, target = (
            saved.parameters | {"target": function},
            replace(saved.target, function=function),
        )
        return replace(saved, parameters=parameters, target=target)
    return saved


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
        kinds = (read.kind for read in network.fields[level.record])
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
    holds_rules = peek_state(folder / _MANIFEST, _FORMAT) is not None
    if not holds_rules and not all(map(_is_leftover, folder.iterdir())):
        raise ValueError(
            "Expected a new or empty folder, or one with saved rules, which are replaced. "
            f"Received: folder={str(folder)!r}"
        )


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
    entry = (peek_state(folder / _MANIFEST, _FORMAT) or {}).get("arrays")
    name = entry.get("file") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and _ARRAYS.fullmatch(name) else None


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


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(
        f"Expected saved rules that are whole. Received: {str(path)!r}, damaged: {why}"
    )


# Checks of what the types leave open, as a file may be written by hand --------------------------


def _check_target(target: Target, n_classes: int) -> None:
    _require(target.kind in _TARGETS, f"the target is of kind {target.kind!r}")
    for name in ("n_outputs", "index", "threshold"):
        value, has = getattr(target, name), name in _TARGETS[target.kind]
        _require((value is not None) == has, f"{name} of the target is {value!r}")
    if target.index is not None and target.n_outputs is not None:
        _require(0 <= target.index < target.n_outputs, f"the target is output {target.index}")
    if target.kind != "function":
        _require(target.n_classes() == n_classes, f"the target does not have {n_classes} classes")


def _check(fitted: Fitted) -> None:
    _check_array("used", fitted.used, np.uint64, (None,))
    levels, clusters = fitted.levels, all_clusters(fitted.levels)
    _require(bool(levels), "there are no levels")
    of_layers = [bag.level for bag in clusters]
    _require(of_layers == list(range(len(clusters))), f"clusters are of bag-layers {of_layers}")
    names = [*(bag.names for bag in clusters), fitted.classes]
    records = [level.record for level in levels]
    are_records = records == sorted(set(records)) and records[0] >= 0
    _require(are_records, f"rules are of records {records}")
    _require(records[-1] == len(clusters), "there are no rules of top-bags")
    for index, level in enumerate(levels):
        try:
            _check_level(level, index)
            _require(level.rules.names == names[level.record], "names differ between levels")
        except (IndexError, ValueError) as error:
            raise ValueError(f"level {index}: {error}") from error
    defined = [bag.level for bag in clusters if bag.definition is not None]
    _require(not {*defined} & {*records}, f"both rules and definitions are of rows {defined}")
    n_clusters = tuple(bag.n_clusters for bag in clusters)
    _require(fitted.n_clusters == n_clusters, "n_clusters is not the number of clusters")
    for point in fitted.grid:
        ks = point.n_clusters
        _require(len(ks) == len(clusters), f"a point of the grid is {ks}")


def _check_level(level: Level, index: int) -> None:
    _check_fields(level.space.fields)
    for bag in level.clusters:
        _check_clusters(bag)
        _require(bag.level < level.record, f"records hold bags of bag-layer {bag.level}")
    columns = level.space.columns
    _require(level.rules.columns == columns, f"rules are about {level.rules.columns}")
    _require(level.tree.n_features == len(columns), f"a tree is of {level.tree.n_features} columns")
    _check_rules(level, index)
    for name in ("feature", "threshold", "children", "label"):
        dtype = np.float64 if name == "threshold" else np.int32
        n_nodes = level.tree.label.size
        shape = (n_nodes, 2) if name == "children" else (n_nodes,)
        _check_array(f"{name} of the tree", getattr(level.tree, name), dtype, shape)
    level.tree.check(len(level.rules.names))
    n_leaves = level.tree.n_leaves
    _require(len(level.leaves) in (0, n_leaves), f"there are figures of {len(level.leaves)} leaves")
    is_share = all(0 <= each <= 1 for figures in level.leaves for each in figures)
    _require(is_share, "figures of leaves are no shares")


def _check_clusters(clusters: Clusters) -> None:
    k = clusters.n_clusters
    _check_array("centroids", clusters.centroids, np.float32, (k, None))
    _check_array("sizes", clusters.sizes, np.float64, (k,))
    if clusters.projection is not None:
        directions = clusters.centroids.shape[1]
        _check_array("projection", clusters.projection, np.float32, (None, directions))
    _check_names(clusters.names)
    _require(len(clusters.names) == k, "there is not a name for each cluster")
    if clusters.definition is not None:
        _check_definition(clusters.definition, k)


def _check_definition(definition: Definition, k: int) -> None:
    _check_array("the table of definitions", definition.table, np.float64, (k, k))
    _require(bool((definition.table >= 0).all()), "the table of definitions has weights below 0")
    _require(len(definition.cases) == k, "there are not definitions for each cluster")
    _require(any(definition.cases), "there are no definitions")
    _check_fields(definition.fields)
    for condition in (each for cases in definition.cases for case in cases for each in case):
        _check_condition(condition, len(definition.columns), "a definition")


def _check_fields(found: Iterable[Field]) -> None:
    for each in found:
        _require(each.kind in KINDS, f"a field is of kind {each.kind!r}")
        are_different = len(set(each.values)) == len(each.values)
        _require(are_different, f"values of a field are {each.values}")


def _check_names(names: tuple[str, ...]) -> None:
    _require(len(set(names)) == len(names) > 0, f"names are {names}")


def _check_rules(level: Level, index: int) -> None:
    rules = level.rules
    _check_names(rules.names)
    _require(len(rules.needed) == len(rules.names), f"needed is {rules.needed}")
    for rule in rules:
        _require(rule.level == index, f"a rule is of level {rule.level}")
        _require(0 <= rule.conclusion < len(rules.names), f"a rule concludes {rule.conclusion}")
        for condition in rule.conditions:
            _check_condition(condition, len(rules.columns), "a rule")


def _check_condition(condition: Condition, n_columns: int, whose: str) -> None:
    is_of_column = 0 <= condition.column < n_columns
    _require(is_of_column and condition.low < condition.high, f"{whose} has {condition}")


def _check_array(
    name: str, array: Array, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
) -> None:
    """Check an array's dtype, shape (None for any size, but 0) and that it is finite."""
    fits = array.ndim == len(shape) and array.dtype == dtype and array.size > 0
    fits = fits and all(n in (None, size) for n, size in zip(shape, array.shape, strict=True))
    _require(fits, f"{name} is of shape {array.shape} and dtype {array.dtype}")
    _require(bool(np.isfinite(array).all()), f"{name} is not finite")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
