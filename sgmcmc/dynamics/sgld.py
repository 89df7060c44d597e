"""Stochastic gradient Langevin dynamics (Welling & Teh 2011, eq. 4), in R's parametrisation.

One update, with eps the stepsize:

    theta' = theta + eps/2 * grad + N(0, eps)
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Dynamics, Given, Memory


def sgld() -> Dynamics:
    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        return theta + 0.5 * given.eps * given.gradient + tf.sqrt(given.eps) * given.noise, memory

    return Dynamics(step, by_rows=True)
