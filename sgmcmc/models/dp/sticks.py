"""The stick-breaking weights of a Dirichlet process.

    w_j = v_j (1 - v_1) ... (1 - v_{j-1}),   v_j | alpha ~ Beta(1, alpha)

A stick v_j is stored as the logarithms of two Gamma draws, [C, K, 2]: it is the first
divided by their sum. In the prior they are Gamma(1) and Gamma(alpha). Given the assignments
z of all observations, of which m_j are in component j,

    v_j | z, alpha ~ Beta(1 + m_j, alpha + sum_{l > j} m_l).

The concentration has the prior Gamma(b1, rate b2). Let Z* be the last component that has
observations. The assignments do not depend on the sticks behind it. With these sticks
integrated out, the density of alpha given z and v_1, ..., v_Z* is its prior times
prod_{j <= Z*} alpha (1 - v_j)^(alpha - 1):

    alpha | v_1, ..., v_Z*, z ~ Gamma(b1 + Z*, rate b2 - sum_{j <= Z*} log(1 - v_j)).

The sticks behind Z* must then be drawn anew, from their prior with the new alpha. Both
together are a draw of (alpha, v_{Z*+1}, v_{Z*+2}, ...) given z and v_1, ..., v_Z*.
"""

from __future__ import annotations

import tensorflow as tf


def last_occupied(sizes: tf.Tensor) -> tf.Tensor:
    """Z*, counted from 1, [C], from the sizes of the components, [C, K]."""
    return tf.reduce_max(tf.where(sizes > 0, tf.range(1, sizes.shape[1] + 1), 0), axis=1)


def counts_of_sticks(sizes: tf.Tensor) -> tf.Tensor:
    """What the data add to the shapes (1, alpha): m_j and sum_{l > j} m_l, [C, K, 2]."""
    return tf.stack([sizes, tf.cumsum(sizes, axis=1, exclusive=True, reverse=True)], axis=2)


def prior_of_sticks(alpha: tf.Tensor, n_components: int) -> tf.Tensor:
    """The shapes (1, alpha), [C, K, 2], for alpha [C]."""
    shapes = tf.stack([tf.ones_like(alpha), alpha], axis=1)
    return tf.tile(shapes[:, None], [1, n_components, 1])


def log_rests(sticks: tf.Tensor) -> tf.Tensor:
    """log(1 - v_j), [C, K]."""
    return -tf.math.softplus(sticks[..., 0] - sticks[..., 1])


def log_weights(sticks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """log w_j, [C, K], and the logarithm of the weight of all components behind the K, [C]."""
    rests = log_rests(sticks)
    of_stick = -tf.math.softplus(sticks[..., 1] - sticks[..., 0])
    return of_stick + tf.cumsum(rests, axis=-1, exclusive=True), tf.reduce_sum(rests, axis=-1)


def concentration(sticks: tf.Tensor, last: tf.Tensor, prior: tuple[float, float]) -> tuple[tf.Tensor, tf.Tensor]:
    """The shape and the rate of alpha, [C] each, given the sticks up to the last occupied component."""
    b1, b2 = prior
    upto = tf.range(sticks.shape[1]) < last[:, None]
    rests = tf.where(upto, log_rests(sticks), tf.zeros([], sticks.dtype))
    return b1 + tf.cast(last, sticks.dtype), b2 - tf.reduce_sum(rests, axis=1)
