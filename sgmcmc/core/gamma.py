"""Proposals of gamma draws from two words each.

By rejection (Marsaglia and Tsang 2000, "A simple method for generating gamma
variables"). For a shape below 1, log(U) / shape is added to a draw for shape + 1, so tiny
draws keep their relative precision.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.rejection import REFUSED
from sgmcmc.core.words import normal, open_uniform, polynomial


def log_proposal(high: tf.Tensor, low: tf.Tensor, attempt: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """The logarithm of a draw, or `REFUSED`; not a number where the shape is none."""
    d = tf.where(shape < 1, shape + 1, shape) - 1 / 3
    y = tf.cast(normal(high), shape.dtype) / (3 * tf.sqrt(d))
    far = tf.maximum(y, -0.999999)
    # log v - v + 1 + x^2/2d for v = (1 + y)^3, of which all but the rest of the series of the logarithm cancels.
    rest = tf.where(
        tf.abs(y) < 0.25,
        (y * y) * (y * y) * polynomial(y, (1 / 11, -1 / 10, 1 / 9, -1 / 8, 1 / 7, -1 / 6, 1 / 5, -1 / 4)),
        tf.math.log1p(far) - far * (1 - far * (1 / 2 - far / 3)),
    )
    log_u, log_accepted = tf.math.log(open_uniform(low, low, shape.dtype)), 3 * d * rest
    # Among the accepted, U over the probability of acceptance is uniform again.
    boost = tf.where(shape < 1, (log_u - log_accepted) / shape, tf.zeros_like(shape))
    value = tf.math.log(d) + 3 * tf.math.log1p(far) + boost
    return tf.where((y > -0.999999) & (log_u < log_accepted), value, tf.constant(REFUSED, shape.dtype))
