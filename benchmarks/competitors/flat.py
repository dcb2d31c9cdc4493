"""The reference: flat instances, segment ids, TensorFlow's own segment operations.

It is the design of the public program of the paper's authors.
"""

import keras
import numpy as np
import tensorflow as tf

from competitors._tensorflow import TensorFlowStep, loss_of, signature_of

__all__ = ["AdversarialStep", "Step"]

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
        return self.reduce(self.encode(batch["instances"]), batch)

    def reduce(self, x, batch):
        """Logits [top-bags, 1] of encoded instances."""
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


class AdversarialStep(Step):
    """The same with virtual adversarial training: a perturbation for the features of each instance.

    Its parameters are those of the authors' program.
    """

    epsilon, xi = 2.2, 0.1

    def make_step(self, variables, example):
        optimizer = keras.optimizers.Adam(0.001)
        optimizer.build(variables)

        @tf.function(input_signature=[signature_of(example)])
        def step(batch):
            h = tf.gather(self.table, batch["instances"])  # (instances, 3, features)

            def predict(perturbation):
                return self.reduce(self.encode_features(h + perturbation), batch)

            direction = _normalized(tf.random.normal(tf.shape(h)))
            with tf.GradientTape() as tape:
                logits = predict(0.0)
                target = tf.stop_gradient(tf.sigmoid(logits))
                with tf.GradientTape(watch_accessed_variables=False) as inner:
                    inner.watch(direction)
                    divergence = _divergence(target, predict(self.xi * direction))
                direction = _normalized(tf.stop_gradient(inner.gradient(divergence, direction)))
                supervised = loss_of(batch["y"], logits)
                loss = supervised + _divergence(target, predict(self.epsilon * direction))
            optimizer.apply(tape.gradient(loss, variables), variables)
            return supervised

        return step


def _normalized(x):
    return x / (tf.sqrt(tf.reduce_sum(tf.square(x), axis=[1, 2], keepdims=True)) + 1e-12)


def _divergence(p, logits):
    """KL between the probabilities p and those of logits, averaged."""
    entropy = -p * tf.math.log(p + 1e-7) - (1 - p) * tf.math.log(1 - p + 1e-7)
    return loss_of(p, logits) - tf.reduce_mean(entropy)


def _segment_ids(splits):
    return np.repeat(np.arange(len(splits) - 1), np.diff(splits))
