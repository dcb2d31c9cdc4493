"""Matrix products of rows that are given by id, or as several ids side by side."""

import tensorflow as tf

from keras_mmil.layers.segments import gather_rows

__all__ = ["project", "project_tuples"]


def project(rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    """w φ + b for every row.

    Args:
        rows: features [rows, features], or integer ids [rows] that stand for one-hot vectors.
        kernel: w, [features, units].
        bias: b, [units], or None for 0.

    Returns:
        [rows, units].
    """
    x = tf.gather(kernel, rows) if rows.dtype.is_integer else rows @ kernel
    return x if bias is None else x + bias


def project_tuples(
    rows: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None, tuples: tf.Tensor
) -> tf.Tensor:
    """w φ + b for every instance φ = [φ¹; …; φᴾ] that is the concatenation of P rows.

    As w φ = w¹ φ¹ + … + wᴾ φᴾ, every row is multiplied once with each wᵖ, however many instances
    it is in; then the products are gathered and added.

    Args:
        rows: features [rows, features], or integer ids [rows] that stand for one-hot vectors.
        kernel: w, [P * features, units].
        bias: b, [units], or None for 0.
        tuples: the P rows of each instance, int [instances, P].

    Returns:
        [instances, units].
    """
    kernels = tf.split(kernel, tuples.shape[1])
    biases = [bias] + [None] * (len(kernels) - 1)
    return tf.add_n(
        [
            gather_rows(project(rows, kernel, bias), members)
            for kernel, bias, members in zip(
                kernels, biases, tf.unstack(tuples, axis=1), strict=True
            )
        ]
    )
