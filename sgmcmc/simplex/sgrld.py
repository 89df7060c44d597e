"""Stochastic gradient Riemannian Langevin dynamics, expanded mean (Patterson and Teh 2013, section 4).

    theta_j' = |theta_j + h (alpha_j - theta_j + (N/n) sum_{i in S} (z_ij - omega_j z_i.)) + sqrt(2 h theta_j) N(0, 1)|

with z_i. = sum_j z_ij. This is an Euler step of size eps = 2 h in the paper's notation. Its error is largest near the
boundary of the simplex, where omega_j is small. Without the term with omega, the target of theta is the Gamma
distribution.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.simplex import Numbers, Rule


def sgrld() -> Rule:
    def step(
        numbers: Numbers, theta: tf.Tensor, alpha: tf.Tensor, counts: tf.Tensor, expected: tf.Tensor, h: tf.Tensor
    ) -> tf.Tensor:
        drift = alpha - theta + counts - expected
        moved = tf.abs(theta + h * drift + tf.sqrt(2 * h * theta) * numbers.normal(theta.dtype))
        return tf.math.log(tf.maximum(moved, np.finfo(theta.dtype.as_numpy_dtype).tiny))

    return Rule(step, total=lambda alpha, n_counts: tf.reduce_sum(alpha, axis=-1))
