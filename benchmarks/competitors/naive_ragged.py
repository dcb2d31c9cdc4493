"""RaggedTensors, reduced by `tf.reduce_max` and `tf.reduce_mean`."""

import tensorflow as tf

from competitors._tensorflow import TensorFlowStep

__all__ = ["Step"]

_REDUCTIONS = {"max": tf.reduce_max, "mean": tf.reduce_mean}


class Step(TensorFlowStep):
    """RaggedTensors as they come."""

    def read(self, batch):
        splits = [batch.top_splits, batch.sub_splits]
        return {"bags": tf.RaggedTensor.from_nested_row_splits(batch.instances, splits)}

    def forward(self, batch):
        bags = batch["bags"]
        x = bags.with_flat_values(self.encode(bags.flat_values))  # [top-bags, (n), (m), features]
        for level in (1, 2):
            flat = self.transform(x.flat_values, level)
            parts = tf.split(flat, len(self.workload.aggregations), axis=1)
            reduced = [
                _REDUCTIONS[name](x.with_flat_values(part), axis=x.ragged_rank)
                for name, part in zip(self.workload.aggregations, parts, strict=True)
            ]
            x = reduced[0] if len(reduced) == 1 else tf.concat(reduced, axis=-1)
        x = tf.ensure_shape(x, [None, self.weights["kernel"].shape[0]])
        return self.output(x)
