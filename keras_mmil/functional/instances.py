"""The features that instances have in a model's input."""

from collections.abc import Sequence

import keras

from keras_mmil.functional.graph import call_arguments, nodes_under
from keras_mmil.functional.input_uses import id_limits
from keras_mmil.functional.tree import BagTree

__all__ = ["instance_features"]


def instance_features(
    model: keras.Model, tree: BagTree, names: Sequence[str]
) -> tuple[int, keras.KerasTensor]:
    """The input that instances are computed from, whose features have names.

    Args:
        model: a functional Keras model.
        tree: its bag-layers.
        names: of the features.

    Returns:
        The index of the bag-layer that reads the instances, and the input.

    Raises:
        ValueError: if there are no instances, or several kinds of them, that are no records with
            fields; or if they are not computed from one input of numbers, [top-bags, (n), …,
            features], with a feature for each name.
    """
    plain = [
        i
        for i, record in enumerate(tree.records[:-1])
        if record.has_other and not record.bags and not record.fields
    ]
    if len(plain) != 1:
        readers = [tree.nodes[i].operation.name for i in plain]
        raise ValueError(
            "Expected one bag-layer of instances that are vectors, for feature_names; fields of "
            f"records have names of their own. Received: {readers}"
        )
    (index,) = plain
    node = tree.nodes[index]
    tensor = call_arguments(node)["inputs"]
    sources = [each.outputs[0] for each in nodes_under([tensor], ()) if each.is_input]
    rank = 3 + _n_above(tree, index)  # top-bags, instances, features, and the bags between
    shapes = {x.name: (tuple(x.shape), x.dtype) for x in sources}
    are_vectors = (
        len(sources) == 1
        and "members" not in call_arguments(node)
        and len(tensor.shape) == len(sources[0].shape) == rank
        and sources[0].shape[-1] == len(names)
        and keras.backend.standardize_dtype(sources[0].dtype).startswith(("float", "int", "uint"))
        and [id(x) for x in model.inputs].index(id(sources[0])) not in id_limits(model)
    )
    if not are_vectors:
        raise ValueError(
            f"Expected instances that are computed from one input of {len(names)} numbers for "
            f"each, which {len(names)} feature_names can be of. Received: bag-layer "
            f"{node.operation.name!r}, whose instances are computed from {shapes}"
        )
    return index, sources[0]


def _n_above(tree: BagTree, index: int) -> int:
    """How many bag-layers are above one."""
    parent = tree.parents[index]
    return 0 if parent == len(tree.nodes) else 1 + _n_above(tree, parent)
