"""The reference: flat instances, segment ids, TensorFlow's own segment operations.

It is the design of the public program of the paper's authors.
"""

import numpy as np
import tensorflow as tf

from competitors._tensorflow import TensorFlowStep

__all__ = ["Step"]

_REDUCTIONS = {"max": tf.math.segment_max, "mean": tf.math.segment_mean}


class Step(TensorFlowStep):
    """Flat instances and segment ids."""

    def read(self, batch):
        return {
            "instances": batch.instances,
            "sub_ids": _segment_ids(batch.sub_splits),
            "top_ids": _segment_ids(batch.top_splits),
        }

    def forward(self, batch):
        x = self.encode(batch["instances"])
        for level, name in enumerate(("sub_ids", "top_ids"), start=1):
            x = self.transform(x, level)
            parts = tf.split(x, len(self.workload.aggregations), axis=1)
            x = tf.concat(
                [
                    _REDUCTIONS[name_](part, batch[name])
                    for name_, part in zip(self.workload.aggregations, parts, strict=True)
                ],
                axis=1,
            )
        return self.output(x)


def _segment_ids(splits):
    return np.repeat(np.arange(len(splits) - 1), np.diff(splits))
