"""Underdamped Langevin dynamics by the splitting BAOAB (Leimkuhler & Matthews 2013).

An iteration takes one gradient, for the last half kick of one step and the first of the next:

    B   u     = u + eps * grad
    A   theta = theta + u/2
    O   u     = (1 - alpha) u + N(0, alpha (2 - alpha) eps)
    A   theta = theta + u/2

with u ~ N(0, eps) at the start; eps is the square of the paper's stepsize h, u = h p and 1 - alpha = exp(-gamma h).
alpha = 1 is the method of Leimkuhler & Matthews that uses each noise twice.

With c = 1 - alpha, on a Gaussian of precision lambda with gradients of noise variance v, w = eps lambda:

    E u^2     = eps + eps^2 v / ((1 - w/4) (1 - c^2)) =: d,   of u after the kick
    E theta^2 = (d (1 + c)^2 + eps (1 - c) (3 + c)) / (4 w)

Without noise E theta^2 is 1/lambda for every stepsize with w < 4. The kinetic temperature is d/eps. For a Gaussian the
variance divided by the posterior's is 1 + (d/eps - 1) (1 + c)^2/4.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary, iterations, matrices


def baoab(alpha: float) -> Dynamics:
    c, s = 1.0 - alpha, alpha * (2.0 - alpha)

    def init(theta: tf.Tensor, given: Given) -> Memory:
        # u/sqrt(eps), whose distribution does not change with eps
        return {"unit_momentum": given.noise, "kinetic_temperature": tf.ones([], theta.dtype)}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        h = tf.sqrt(given.eps)
        kicked = memory["unit_momentum"] + h * given.gradient
        p = c * kicked + s**0.5 * given.noise
        return theta + 0.5 * h * (kicked + p), {"unit_momentum": p, "kinetic_temperature": tf.reduce_mean(kicked**2)}

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        hot = memory["kinetic_temperature"]
        return {"kinetic_temperature": hot, "variance_ratio": 1.0 + (hot - 1.0) * (1.0 + c) ** 2 / 4.0}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        w = eps * precision
        settles = w < 4
        w = np.where(settles, w, 1.0)
        kicked = eps + eps**2 * noise / ((1 - w / 4) * s)  # E u^2 after the kick
        variance = (kicked * (1 + c) ** 2 + eps * alpha * (3 + c)) / (4 * w)
        with_u = (kicked * c * (1 + c) + eps * alpha * (2 + c)) / 4
        F = matrices(1 - w * (1 + c) / 2, (1 + c) / 2, -c * w, c)  # noqa: N806
        slow = iterations(F, np.stack([variance, with_u], -1))
        return Stationary(np.where(settles, variance, np.inf), slow)

    return Dynamics(step, init=init, stats=stats, stationary=stationary, momentum=True)
