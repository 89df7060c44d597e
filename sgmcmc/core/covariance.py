"""The covariance of the gradient noise, estimated from the minibatch itself."""

from __future__ import annotations

import enum
import math

import tensorflow as tf


class Covariance(enum.Enum):
    """The part of the covariance that is estimated for one parameter array."""

    DIAGONAL = "diag"
    FULL = "full"

    def shape(self, theta: tf.TensorShape) -> list[int]:
        if self is Covariance.DIAGONAL:
            return list(theta)
        size = math.prod(theta)
        return [size, size]

    def of_sum(self, terms: tf.Tensor) -> tf.Tensor:
        """The covariance of the sum of n >= 2 independent `terms`, [n, *shape]: n times their empirical covariance."""
        n = terms.shape[0]
        deviations = terms - tf.reduce_mean(terms, axis=0)
        if self is Covariance.DIAGONAL:
            return tf.reduce_sum(deviations**2, axis=0) * (n / (n - 1))
        flat = tf.reshape(deviations, [n, -1])
        return tf.matmul(flat, flat, transpose_a=True) * (n / (n - 1))

    def times(self, covariance: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
        """The product of the covariance with `u`, which has the parameter's shape."""
        if self is Covariance.DIAGONAL:
            return covariance * u
        return tf.reshape(tf.linalg.matvec(covariance, tf.reshape(u, [-1])), u.shape)

    def mean_variance(self, covariance: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(covariance if self is Covariance.DIAGONAL else tf.linalg.diag_part(covariance))
