"""Other random numbers, made of standard normals, one of each."""

from __future__ import annotations

import tensorflow as tf


def uniform(z: tf.Tensor) -> tf.Tensor:
    """On (0, 1)."""
    return 0.5 * tf.math.erfc(-(0.5**0.5) * z)


def exponential(z: tf.Tensor) -> tf.Tensor:
    """With the mean 1, precise in both tails."""
    tail = 0.5 * tf.math.erfc((0.5**0.5) * tf.abs(z))
    return tf.where(z > 0.0, -tf.math.log(tail), -tf.math.log1p(-tail))
