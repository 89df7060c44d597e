"""Stochastic gradient Langevin dynamics (Welling & Teh 2011, eq. 4), in R's parametrisation.

One update, with eps the stepsize:

    theta' = theta + eps/2 * grad + N(0, eps)

Under the posterior the mean of -(theta - m) * grad is 1 for each element. In a chain that has settled E (theta - m)^2
is constant, so this mean is 1 + eps/4 E grad^2 for every posterior, where grad includes its noise. For a Gaussian this
is the variance divided by the posterior's. The gradients alone give it, far more precisely than theta does.

On a Gaussian of precision lambda, with gradients of noise variance v, theta is an autoregression with coefficient
1 - eps lambda/2 and variance (1 + eps v/4) / (1 - eps lambda/4) / lambda.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary


def sgld() -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"variance_ratio": tf.ones([], theta.dtype)}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        ratio = 1.0 + tf.reduce_mean(0.25 * given.eps * given.gradient**2)
        # In brackets: the drift is far smaller than the noise, and would be lost in rounding if added alone.
        theta = theta + (0.5 * given.eps * given.gradient + tf.sqrt(given.eps) * given.noise)
        return theta, {"variance_ratio": ratio}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        speed = eps * precision
        variance = (1 + eps * noise / 4) / np.where(speed < 4, 1 - speed / 4, np.nan) / precision
        return Stationary(np.where(speed < 4, variance, np.inf), np.maximum(4 / speed - 1, 1.0))

    return Dynamics(
        step,
        init=init,
        stats=lambda memory, given: {"variance_ratio": memory["variance_ratio"]},
        by_rows=True,
        stationary=stationary,
    )
