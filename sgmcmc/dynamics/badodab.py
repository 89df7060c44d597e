"""The adaptive Langevin thermostat by the splitting BADODAB (Leimkuhler & Shang 2016).

The dynamics of SGNHT, split so that the variance of a Gaussian is right for every a. An iteration takes one gradient,
for the last half kick of one step and the first of the next:

    B   u     = u + eps * grad
    A   theta = theta + u/2
    D   alpha = alpha + (<u, u>/p - eps)/2
    O   u     = exp(-alpha) u + N(0, eps a (1 - exp(-2 alpha)) / alpha)
    D   alpha = alpha + (<u, u>/p - eps)/2
    A   theta = theta + u/2

with u ~ N(0, eps) and alpha = a at the start. Each parameter array has one thermostat alpha; p is the number of its
elements. The parametrisation is SGNHT's: eps is the square of the paper's stepsize h, and a = A h.

With alpha at rest at xi, c = exp(-xi), on a Gaussian of precision lambda with gradients of noise variance v, and
w = eps lambda, s = eps a (1 - c^2)/xi:

    E u^2     = (s + eps^2 v/(1 - w/4)) / (1 - c^2) =: d  before O and c^2 d + s after it, whose mean is eps: gives xi
    E theta^2 = (d (1 + c)^2 + s (3 + c)/(1 + c)) / (4 w)

In simulations this holds within 2% for eps up to 0.1, even if alpha oscillates around xi, unless the noise in some
directions is many times that in others.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary, equilibrium_friction, iterations, matrices, unstable

SMALL = 1e-4  # of alpha: below it (1 - exp(-2 alpha))/alpha is 2 (1 - alpha) to float32's precision
FASTEST = 3.0  # the largest friction that is tried
RESTING = 0.1  # the largest stepsize at which alpha is nearly constant


def badodab(a: float) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        # u/sqrt(eps), whose distribution does not change with eps
        one = tf.ones([], theta.dtype)
        return {"unit_momentum": given.noise, "thermostat": a * one, "kinetic_temperature": one}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        eps = given.eps
        kicked = tf.sqrt(eps) * memory["unit_momentum"] + eps * given.gradient
        alpha = memory["thermostat"] + 0.5 * (tf.reduce_mean(kicked**2) - eps)
        rest = tf.abs(alpha) < SMALL
        heat = tf.where(
            rest, 2.0 * (1.0 - alpha), -tf.math.expm1(-2.0 * alpha) / tf.where(rest, tf.ones_like(alpha), alpha)
        )
        u = tf.exp(-alpha) * kicked + tf.sqrt(eps * a * heat) * given.noise
        alpha = alpha + 0.5 * (tf.reduce_mean(u**2) - eps)
        temperature = 0.5 * (tf.reduce_mean(kicked**2) + tf.reduce_mean(u**2)) / eps
        return theta + 0.5 * (kicked + u), {
            "unit_momentum": u / tf.sqrt(eps),
            "thermostat": alpha,
            "kinetic_temperature": temperature,
        }

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        return {key: memory[key] for key in ("kinetic_temperature", "thermostat")}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        w = eps * precision
        if w.max() >= 4:
            return unstable(precision)

        def kinetic(xi: float) -> tuple[float, float, np.ndarray]:
            c = np.exp(-xi)
            s = eps * a * (1 - c**2) / xi
            return c, s, (s + eps**2 * noise / (1 - w / 4)) / (1 - c**2)

        def temperature(xi: float) -> float:
            c, s, kicked = kinetic(xi)
            return float(((1 + c**2) * kicked + s).mean() / (2 * eps))

        xi = equilibrium_friction(temperature, FASTEST)
        if xi is None or eps > RESTING:
            return unstable(precision)
        c, s, kicked = kinetic(xi)
        variance = (kicked * (1 + c) ** 2 + s * (3 + c) / (1 + c)) / (4 * w)
        with_u = (kicked * c * (1 + c) + s * (2 + c) / (1 + c)) / 4
        F = matrices(1 - w * (1 + c) / 2, (1 + c) / 2, -c * w, c)  # noqa: N806
        return Stationary(variance, iterations(F, np.stack([variance, with_u], -1)))

    return Dynamics(step, init=init, stats=stats, stationary=stationary, momentum=True)
