"""What fitting found as JSON and arrays, and back, with everything checked."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from types import UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from keras_mmil._support.checks import is_int
from keras_mmil._support.types import Array, Config
from keras_mmil.rules.fitting.fitter import Fitted
from keras_mmil.rules.fitting.search import GridPoint
from keras_mmil.rules.network.targets import Target
from keras_mmil.rules.trees import features
from keras_mmil.rules.trees.features import Space
from keras_mmil.rules.trees.fields import KINDS, Field
from keras_mmil.rules.trees.level import Clusters, Level, all_clusters
from keras_mmil.rules.trees.rule_set import Condition, Definition, Rule, RuleSet
from keras_mmil.rules.trees.tree import Tree

__all__ = ["decode", "decode_target", "encode", "with_tuples"]

_CLUSTER_ARRAYS = ("projection", "centroids", "sizes")
_DEFINITION_ARRAY = "definition"
_LEVEL = ("record", "word", "path")
_CLUSTERS = ("level", "names", "members", "path", "word")
_TREE_ARRAYS = ("feature", "threshold", "children", "label")
_TARGETS: dict[str, tuple[str, ...]] = {  # what a target of each kind has
    "argmax": ("n_outputs",),
    "is_argmax": ("n_outputs", "index"),
    "threshold": ("n_outputs", "index", "threshold"),
    "function": (),
}


def encode(fitted: Fitted) -> tuple[Config, dict[str, Array]]:
    """What fitting found as a dict for JSON, and a dict of arrays."""
    levels = fitted.levels
    arrays: dict[str, Array] = {}
    for index, level in enumerate(levels):
        arrays |= {f"tree_{name}_{index}": getattr(level.tree, name) for name in _TREE_ARRAYS}
    for clusters in all_clusters(levels):
        found = {name: getattr(clusters, name) for name in _CLUSTER_ARRAYS}
        if clusters.definition is not None:
            found[_DEFINITION_ARRAY] = clusters.definition.table
        arrays |= {f"{name}_{clusters.level}": x for name, x in found.items() if x is not None}
    arrays["used"] = fitted.used
    coded = {"grid": list(map(asdict, fitted.grid)), "levels": list(map(_level_to_dict, levels))}
    data = vars(fitted) | coded
    del data["used"]  # which is an array
    return data, arrays


def decode(data: Config, arrays: dict[str, Array]) -> Fitted:
    """The inverse of `encode`.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: if a part is missing, superfluous, of
            another type, shape or dtype, out of range, or at odds with another part.
    """
    arrays = dict(arrays)
    used = arrays.pop("used")
    levels = tuple(_level_from_dict(each, arrays, i) for i, each in enumerate(data["levels"]))
    if arrays:
        raise ValueError(f"no level has the arrays {sorted(arrays)}")
    grid = tuple(GridPoint(**with_tuples(point)) for point in data["grid"])
    fitted = Fitted(**(with_tuples(data) | {"levels": levels, "grid": grid, "used": used}))
    _check(fitted)
    return fitted


def with_tuples(data: Config) -> Config:
    """The same dict with tuples for lists."""
    return {key: tuple(x) if isinstance(x, list) else x for key, x in data.items()}


def decode_target(data: Config, n_classes: int) -> Target:
    """The inverse of `Target.to_dict`, checked like the rest."""
    target = Target(**data)
    _check_types(target)
    _require(target.kind in _TARGETS, f"the target is of kind {target.kind!r}")
    for name in ("n_outputs", "index", "threshold"):
        value, has = getattr(target, name), name in _TARGETS[target.kind]
        _require((value is not None) == has, f"{name} of the target is {value!r}")
    if target.index is not None and target.n_outputs is not None:
        _require(0 <= target.index < target.n_outputs, f"the target is output {target.index}")
    if target.kind != "function":
        _require(target.n_classes() == n_classes, f"the target does not have {n_classes} classes")
    return target


def _level_to_dict(level: Level) -> Config:
    rules = vars(level.rules) | {"rules": [rule.to_dict() for rule in level.rules]}
    del rules["columns"]  # which the space has
    return {
        **{name: getattr(level, name) for name in _LEVEL},
        "bags": [_clusters_to_dict(clusters) for clusters in level.clusters],
        "fields": list(map(asdict, level.space.fields)),
        **rules,
    }


def _clusters_to_dict(clusters: Clusters) -> Config:
    return {name: getattr(clusters, name) for name in _CLUSTERS} | {
        "feature": clusters.feature.name,
        "definition": clusters.definition and _definition_to_dict(clusters.definition),
    }


def _definition_to_dict(definition: Definition) -> Config:
    cases = [
        [[condition.to_dict() for condition in case] for case in of_cluster]
        for of_cluster in definition.cases
    ]
    return {"fields": list(map(asdict, definition.fields)), "cases": cases}


def _level_from_dict(data: Config, arrays: dict[str, Array], index: int) -> Level:
    """One level; takes its arrays out of `arrays`."""
    data = with_tuples(data)
    head = {name: data.pop(name) for name in _LEVEL}
    bags = tuple(_clusters_from_dict(each, arrays) for each in data.pop("bags"))
    space = Space(bags, _fields_from(data.pop("fields")))
    columns = {"rules": tuple(map(Rule.from_dict, data["rules"])), "columns": space.columns}
    rules = RuleSet(**(data | columns))
    of_tree = {name: arrays.pop(f"tree_{name}_{index}") for name in _TREE_ARRAYS}
    tree = Tree(**of_tree, n_features=len(space.columns))
    return Level(**head, space=space, tree=tree, rules=rules)


def _clusters_from_dict(data: Config, arrays: dict[str, Array]) -> Clusters:
    """The clusters of a bag-layer; takes their arrays out of `arrays`."""
    data = with_tuples(data)
    feature, layer = features.get(data.pop("feature")), data["level"]
    found: dict[str, Any] = {name: arrays.pop(f"{name}_{layer}", None) for name in _CLUSTER_ARRAYS}
    definition = data.pop("definition")
    if definition is not None:
        definition = _definition_from_dict(definition, arrays.pop(f"{_DEFINITION_ARRAY}_{layer}"))
    return Clusters(**data, **found, feature=feature, definition=definition)


def _definition_from_dict(data: Config, table: Array) -> Definition:
    cases = tuple(
        tuple(tuple(map(Condition.from_dict, case)) for case in of_cluster)
        for of_cluster in data.pop("cases")
    )
    return Definition(fields=_fields_from(data.pop("fields")), cases=cases, table=table, **data)


def _fields_from(data: Iterable[Config]) -> tuple[Field, ...]:
    found = tuple(Field(**with_tuples(each)) for each in data)
    _check_fields(found)
    return found


# Checks, as a file may be damaged or written by hand --------------------------------------------


def _check_types(instance: Any) -> None:
    """Raise ValueError unless the fields of a dataclass have their types; tuples are opaque."""
    for field in fields(instance):
        value = getattr(instance, field.name)
        is_bool_for_int = field.type is int and isinstance(value, bool)
        if not isinstance(value, _classes(field.type)) or is_bool_for_int:
            raise ValueError(f"{field.name} of a {type(instance).__name__} is {value!r}")


def _classes(hint: Any) -> tuple[type, ...]:
    """The classes that a type hint allows: of `tuple[int, ...] | None` they are tuple and None."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return tuple(each for part in get_args(hint) for each in _classes(part))
    # From Python 3.12 on, NumPy 2.5 has `NDArray` as a `TypeAliasType`, which is no class.
    return _classes(origin.__value__) if hasattr(origin, "__value__") else (origin,)


def _check(fitted: Fitted) -> None:
    _check_types(fitted)
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
        _check_types(point)
        ks = point.n_clusters
        _require(all(map(is_int, ks)) and len(ks) == len(clusters), f"a point of the grid is {ks}")


def _check_level(level: Level, index: int) -> None:
    _check_types(level)
    for bag in level.clusters:
        _check_clusters(bag)
        _require(bag.level < level.record, f"records hold bags of bag-layer {bag.level}")
    _check_rules(level, index)
    for name in _TREE_ARRAYS:
        dtype = np.float64 if name == "threshold" else np.int32
        n_nodes = len(level.tree.label)
        shape = (n_nodes, 2) if name == "children" else (n_nodes,)
        _check_array(f"tree_{name}", getattr(level.tree, name), dtype, shape)
    level.tree.check(len(level.rules.names))


def _check_clusters(clusters: Clusters) -> None:
    _check_types(clusters)
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
    _check_types(definition)
    _check_array("the table of definitions", definition.table, np.float64, (k, k))
    _require(bool((definition.table >= 0).all()), "the table of definitions has weights below 0")
    _require(len(definition.cases) == k, "there are not definitions for each cluster")
    _require(any(definition.cases), "there are no definitions")
    for condition in (each for cases in definition.cases for case in cases for each in case):
        _check_condition(condition, len(definition.columns), "a definition")


def _check_fields(found: Iterable[Field]) -> None:
    for each in found:
        _check_types(each)
        _require(each.kind in KINDS, f"a field is of kind {each.kind!r}")
        are_values = all(isinstance(value, str) or is_int(value) for value in each.values)
        are_values = are_values and len(set(each.values)) == len(each.values)
        _require(are_values, f"values of a field are {each.values}")


def _check_names(names: tuple[str, ...]) -> None:
    are_texts = all(isinstance(name, str) for name in names)
    _require(are_texts and len(set(names)) == len(names) > 0, f"names are {names}")


def _check_rules(level: Level, index: int) -> None:
    rules = level.rules
    _check_types(rules)
    _check_names(rules.names)
    are_bools = all(isinstance(each, bool) for each in rules.needed)
    _require(are_bools and len(rules.needed) == len(rules.names), f"needed is {rules.needed}")
    for rule in rules:
        _check_types(rule)
        _require(rule.level == index, f"a rule is of level {rule.level}")
        _require(0 <= rule.conclusion < len(rules.names), f"a rule concludes {rule.conclusion}")
        for condition in rule.conditions:
            _check_condition(condition, len(rules.columns), "a rule")


def _check_condition(condition: Condition, n_columns: int, whose: str) -> None:
    _check_types(condition)
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
