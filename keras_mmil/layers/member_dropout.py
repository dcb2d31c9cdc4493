"""Members of bags that are left out at random."""

import keras
import tensorflow as tf

from keras_mmil.layers.raw_inputs import RawInputs

__all__ = ["MemberDropout"]


@keras.saving.register_keras_serializable("keras_mmil")
class MemberDropout(RawInputs, keras.Layer):
    """Leave members out of their bags in training, each with the same probability.

    What is left keeps its weight: a mean is one of what is left, and a sum is smaller. This is word
    dropout where bags are texts, and edge dropout where they are neighbourhoods. For dropout of
    features, use `keras.layers.Dropout` on the rows that are members.

    Args:
        rate: probability that a member is left out, from 0 to below 1.
        seed: of the random numbers.
        name, dtype: as in `keras.layers.Dropout`.

    Call arguments:
        members: ragged ids of the members of each bag, as `Distinct` makes them.
        weights: their weights, or None for 1.
        training: whether to leave out any.

    Input shape:
        RaggedTensors [bags, (n)]; `members` may have a last axis of positions.

    Output shape:
        The weights for a `BagLayer`, RaggedTensor [bags, (n)]: 0 for those that are left out.

    Raises:
        ValueError: if the rate is out of range.

    Example:

    >>> rows, words, papers = Distinct()(bag_inputs(depth=2))
    >>> members, weights = words
    >>> weights = MemberDropout(0.5)(members, weights)
    >>> x = BagLayer(250, vocabulary_size=1433)(rows, members, weights)

    Reference:
        Iyyer et al., Deep Unordered Composition Rivals Syntactic Methods for Text Classification,
        2015; Rong et al., DropEdge, 2020.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"Expected a rate from 0 to below 1. Received: rate={rate!r}")
        self.rate = rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, members_shape=None, weights_shape=None):
        """Nothing to create."""

    def call(self, members, weights=None, training=False):
        flat = self._flat_weights(members, weights)
        if training and self.rate:
            lots = keras.random.uniform(tf.shape(flat), dtype="float32", seed=self.seed_generator)
            flat = tf.where(lots < self.rate, tf.zeros_like(flat), flat)
        return tf.RaggedTensor.from_row_splits(flat, members.row_splits, validate=False)

    def _flat_weights(self, members, weights):
        if weights is None:
            return tf.ones(tf.shape(members.values)[:1], self.compute_dtype)
        return weights.values

    def compute_output_spec(self, members, weights=None, training=False):
        dtype = self.compute_dtype if weights is None else weights.dtype
        return keras.KerasTensor(members.shape[:2], dtype=dtype, ragged=True)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
