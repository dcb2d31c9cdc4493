"""Padded to equal sizes, with masks: what plain Keras users do."""

import tensorflow as tf

from competitors._tensorflow import TensorFlowStep

__all__ = ["Step"]


class Step(TensorFlowStep):
    """Dense tensors [top-bags, n, m, ...] and masks."""

    unknown_axes = 3

    def read(self, batch):
        splits = [batch.top_splits, batch.sub_splits]
        bags = tf.RaggedTensor.from_nested_row_splits(batch.instances, splits)
        ones = bags.with_flat_values(tf.ones(len(batch.instances), tf.bool))
        return {"bags": bags.to_tensor(), "mask": ones.to_tensor()}

    def forward(self, batch):
        bags, mask = batch["bags"], batch["mask"]  # (top-bags, n, m, ...), (top-bags, n, m)
        flat = tf.reshape(bags, tf.concat([[-1], tf.shape(bags)[3:]], 0))
        x = self.encode(flat, tf.reshape(mask, [-1]))
        x = tf.reshape(x, tf.concat([tf.shape(mask), x.shape[1:]], 0))
        for level in (1, 2):
            x = self.transform(x, level)
            parts = tf.split(x, len(self.workload.aggregations), axis=-1)
            reduced = [
                _REDUCTIONS[name](part, mask)
                for name, part in zip(self.workload.aggregations, parts, strict=True)
            ]
            x, mask = tf.concat(reduced, axis=-1), tf.reduce_any(mask, axis=-1)
        return self.output(x)


def _max(x, mask):
    # ReLU leaves nothing below 0, so that zeros never win over a member.
    return tf.reduce_max(tf.where(mask[..., None], x, 0.0), axis=-2)


def _mean(x, mask):
    weights = tf.cast(mask, x.dtype)[..., None]
    return tf.math.divide_no_nan(
        tf.reduce_sum(x * weights, axis=-2), tf.reduce_sum(weights, axis=-2)
    )


_REDUCTIONS = {"max": _max, "mean": _mean}
