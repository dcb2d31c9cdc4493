"""The shapes that a bag-layer accepts."""

__all__ = ["check_bag_shapes"]


def check_bag_shapes(layer, inputs_shape, members_shape):
    """Raise ValueError where the inputs of a bag-layer have the wrong rank.

    Args:
        layer: the `BagLayer`.
        inputs_shape: of the bags, or of the distinct rows where there are members.
        members_shape: of the members, or None.
    """
    is_ids, positions = layer.vocabulary_size is not None, layer.positions

    def expect(right, expected, **received):
        if not right:
            ((name, shape),) = received.items()
            shown = f"{name}=None" if shape is None else f"{name}.shape={tuple(shape)}"
            raise ValueError(f"BagLayer '{layer.name}' expected {expected}. Received: {shown}")

    rank = 0 if is_ids else 1
    if members_shape is None:
        axes = "ids [batch, (n)]" if is_ids else "[batch, (n), features]"
        right = len(inputs_shape) >= 2 + rank
        expect(right, f"bags, {axes} or deeper", inputs=inputs_shape)
        needed = f"members, {positions} rows for each instance"
        expect(positions is None, needed, members=None)
        return
    axes = "ids [rows]" if is_ids else "[rows, features]"
    expect(len(inputs_shape) == 1 + rank, f"distinct rows, {axes}", inputs=inputs_shape)
    if positions is None:
        right, axes = len(members_shape) >= 2, "[batch, (n)]"
    else:
        right = len(members_shape) >= 3 and members_shape[-1] == positions
        axes = f"[batch, (n), {positions}]"
    expect(right, f"bags of row ids, {axes} or deeper", members=members_shape)
