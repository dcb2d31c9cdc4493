"""Whether rules that were saved are about the bag-layers and fields of a network."""

from collections.abc import Sequence

from keras_mmil.interpretation.fitting.plan import field_names
from keras_mmil.interpretation.network.capture import Network
from keras_mmil.interpretation.rules.level import Level, all_clusters, titles

__all__ = ["difference"]


def difference(levels: Sequence[Level], network: Network) -> str:
    """The first thing in which a network is another than the one that some levels were made of.

    Its weights are not compared.

    Args:
        levels: from the instances upwards.
        network: to compare with.

    Returns:
        Text: what the network has, and what it would have to have; empty if there is nothing.
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
            return f"{names[level.record]} with {_shown(found)} instead of {_shown(expected)}"
    return ""


def _shown(fields: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in fields) or "no fields"
