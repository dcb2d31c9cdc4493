"""Members of bags that are left out at random."""

from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.checks import check_int, check_number
from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._checks import assert_same_splits, check_ids, splits_of
from keras_mmil.layers.grouping import depth_of

__all__ = ["MemberDropout"]


@keras.saving.register_keras_serializable("keras_mmil")
class MemberDropout(RawInputs):
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
        RaggedTensors [bags, (n)]; `members` may have a last axis of size `window_size`.

    Output shape:
        The weights for a `BagLayer`, RaggedTensor [bags, (n)]: 0 for those that are left out.

    Raises:
        ValueError: if the rate is out of range, or the inputs are no bags of ids.
        InvalidArgumentError: if the weights are bags of other sizes.

    Example:

    >>> rows, words, papers = Distinct()(bag_inputs(depth=2))
    >>> members, weights = words
    >>> weights = MemberDropout(0.5)(members, weights)
    >>> x = BagLayer(250, vocabulary_size=1433)(rows, members, weights)

    Reference:
        Iyyer et al., Deep Unordered Composition Rivals Syntactic Methods for Text Classification,
        2015; Rong et al., DropEdge, 2020.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if check_number("rate", rate, 0, 1) == 1:
            raise ValueError(f"Expected a rate from 0 to below 1. Received: rate={rate!r}")
        self.rate = float(rate)
        self.seed = check_int("seed", seed, optional=True)
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def build(self, members_shape: Shape | None = None, weights_shape: Shape | None = None) -> None:
        """Nothing to create."""

    def call(
        self,
        members: tf.RaggedTensor,
        weights: tf.RaggedTensor | None = None,
        training: bool = False,
    ) -> tf.RaggedTensor:
        self._check(members)
        flat = self._flat_weights(members, weights)
        if training and self.rate:
            scores = keras.random.uniform(tf.shape(flat), dtype="float32", seed=self.seed_generator)
            flat = tf.where(scores < self.rate, tf.zeros_like(flat), flat)
        return tf.RaggedTensor.from_row_splits(flat, members.row_splits, validate=False)

    def _flat_weights(self, members: tf.RaggedTensor, weights: tf.RaggedTensor | None) -> tf.Tensor:
        if weights is None:
            return tf.ones(tf.shape(members.values)[:1], self.compute_dtype)
        assert_same_splits(
            {"weights": ([members.row_splits], splits_of(weights))},
            f"MemberDropout '{self.name}' expected one weight for each member, in bags of the same "
            "sizes",
        )
        return weights.values

    def compute_output_spec(
        self,
        members: keras.KerasTensor,
        weights: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        self._check(members)
        dtype = self.compute_dtype if weights is None else weights.dtype
        return keras.KerasTensor(members.shape[:2], dtype=dtype, ragged=True)

    def _check(self, members: tf.RaggedTensor | keras.KerasTensor) -> None:
        symbolic = isinstance(members, keras.KerasTensor)
        is_ragged = members.ragged if symbolic else isinstance(members, tf.RaggedTensor)
        depth = depth_of(members.shape) - 1 if symbolic else getattr(members, "ragged_rank", 0)
        if not is_ragged or depth != 1:
            raise ValueError(
                f"MemberDropout '{self.name}' expected ragged ids [bags, (n)]. "
                f"Received: members.shape={tuple(members.shape)}, ragged={is_ragged}"
            )
        check_ids(self, members=members)

    def get_config(self) -> Config:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
