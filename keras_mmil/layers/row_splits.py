"""Whether tensors that belong together are bags of the same sizes."""

import tensorflow as tf

__all__ = ["assert_same_splits", "splits_of"]


def splits_of(structure, item_rank=0):
    """Row splits of the bags of each level, outermost first; those of dense axes are made.

    Args:
        structure: RaggedTensor or dense tensor [batch, (n₁), …, (n_K), *item].
        item_rank: rank of its items.

    Returns:
        List of K tensors of ints.
    """
    is_ragged = isinstance(structure, tf.RaggedTensor)
    splits = list(structure.nested_row_splits) if is_ragged else []
    flat = structure.flat_values if is_ragged else structure
    n_axes = flat.shape.rank - item_rank
    sizes = tf.shape(flat, tf.int64)[:n_axes] if n_axes > 1 else None
    for axis in range(1, n_axes):
        splits.append(tf.range(tf.reduce_prod(sizes[:axis]) + 1) * sizes[axis])
    return splits


def assert_same_splits(pairs, expected):
    """Raise where row splits are not equal: statically where that is known, else in the graph.

    Splits that are one tensor cost nothing, as those of a RaggedTensor and of another that was made
    from it by `with_values`. All others are compared at once.

    Args:
        pairs: dict from names to pairs of lists of row splits: the right ones, of the bags of each
            level, and those received by that name.
        expected: what was expected.

    Raises:
        ValueError: if there are more or fewer levels, or other known numbers of bags.
        InvalidArgumentError: if the splits differ.
    """
    different = []
    for name, (right, received) in pairs.items():
        new = [(a, b) for a, b in zip(right, received, strict=False) if a is not b]
        if len(right) != len(received):
            raise ValueError(
                f"{expected}, nested {len(right)} times. "
                f"Received: {name} nested {len(received)} times"
            )
        if not all(a.shape.is_compatible_with(b.shape) for a, b in new):
            raise ValueError(f"{expected}. Received: {name} with another number of bags")
        different += new
    if not different:
        return
    right, received = map(_joined, zip(*different, strict=True))
    # As both begin with the sizes, it is enough to compare what both have.
    n = tf.minimum(tf.size(right), tf.size(received))
    are_equal = tf.reduce_all(tf.equal(right[:n], received[:n]))
    message = f"{expected}. Received: bags of other sizes in {' or '.join(pairs)}"
    # Not `tf.debugging.assert_equal`, whose conditional costs more than the comparison.
    tf.raw_ops.Assert(condition=are_equal, data=[message])


def _joined(splits):
    """Row splits end to end, behind their sizes, so that no two lists of them are joined alike."""
    splits = [tf.cast(x, tf.int64) for x in splits]
    sizes = tf.stack([tf.size(x, tf.int64) for x in splits])
    return tf.concat([sizes, *splits], axis=0)
