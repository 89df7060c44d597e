"""The stochastic Cox-Ingersoll-Ross process (Baker, Fearnhead, Fox and Nemeth 2018, algorithm 1).

    a = alpha + (N/n) sum_{i in S} z_i,   J ~ Poisson(theta e^-h / (1 - e^-h)),
    theta' ~ (1 - e^-h) Gamma(a + J, 1)

is the exact kernel over a time h of d theta = (a - theta) dt + sqrt(2 theta) dW. Its stationary distribution is
Gamma(a, 1). Without minibatch noise there is no error, for any stepsize.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.simplex import Numbers, Rule


def scir() -> Rule:
    def step(
        numbers: Numbers, theta: tf.Tensor, alpha: tf.Tensor, counts: tf.Tensor, expected: tf.Tensor, h: tf.Tensor
    ) -> tf.Tensor:
        forgotten = -tf.math.expm1(-h)  # 1 - e^-h
        jumps = numbers.poisson(theta * tf.exp(-h) / forgotten)
        return tf.math.log(forgotten) + numbers.log_gamma(alpha + counts + jumps)

    return Rule(step, total=lambda alpha, n_counts: tf.reduce_sum(alpha, axis=-1) + n_counts)
