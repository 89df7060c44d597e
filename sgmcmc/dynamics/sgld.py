"""Stochastic gradient Langevin dynamics (Welling & Teh 2011, eq. 4), in R's parametrisation.

One update, with eps the stepsize:

    theta' = theta + eps/2 * grad + N(0, eps)
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Aux, Dynamics, Mean


def sgld() -> Dynamics:
    def step(
        eps: tf.Tensor, theta: tf.Tensor, aux: Aux, grad: tf.Tensor, noise: tf.Tensor, mean: Mean
    ) -> tuple[tf.Tensor, Aux]:
        return theta + 0.5 * eps * grad + tf.sqrt(eps) * noise, aux

    return Dynamics(step)
