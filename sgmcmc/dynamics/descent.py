"""Searches for the mode: dynamics that climb the estimated log posterior and add no noise.

With eps the stepsize:

    sgd    theta' = theta + eps * grad
    adam   m' = b1 m + (1 - b1) grad,  v' = b2 v + (1 - b2) grad^2   (Kingma & Ba 2015, algorithm 1)
           theta' = theta + eps * (m' / (1 - b1^t)) / (sqrt(v' / (1 - b2^t)) + delta)
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory


def sgd() -> Dynamics:
    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        return theta + given.eps * given.gradient, memory

    return Dynamics(step, noises=0, by_rows=True)


def adam(b1: float = 0.9, b2: float = 0.999, delta: float = 1e-8) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        one = tf.ones_like(theta)
        # The powers are stored for each element, so that gathered rows count their own steps.
        return {"m": tf.zeros_like(theta), "v": tf.zeros_like(theta), "b1_power": one, "b2_power": one}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        m = b1 * memory["m"] + (1.0 - b1) * given.gradient
        v = b2 * memory["v"] + (1.0 - b2) * given.gradient**2
        b1_power, b2_power = b1 * memory["b1_power"], b2 * memory["b2_power"]
        theta = theta + given.eps * (m / (1.0 - b1_power)) / (tf.sqrt(v / (1.0 - b2_power)) + delta)
        return theta, {"m": m, "v": v, "b1_power": b1_power, "b2_power": b2_power}

    return Dynamics(step, init=init, noises=0, by_rows=True)
