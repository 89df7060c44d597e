"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014, algorithm 2).

    u'     = u + eps * grad - alpha u + N(0, 2 a eps)
    theta' = theta + u'
    alpha' = alpha + <u', u'>/p - eps

with u ~ N(0, eps) and alpha = a at the start. Each parameter array has one thermostat alpha; p is the number of its
elements, and <., .> the inner product over all of them. The memory holds u/sqrt(eps), whose distribution does not
change with eps.

In equilibrium E u^2 = eps for every a. But on a Gaussian the variance is 1 - alpha/2 times the posterior's, and alpha
tends to 1 - sqrt(1 - 2 a) as eps tends to 0, so a should be small. If 2 a + eps V >= 1, with V the variance of grad, no
friction balances the noise, and alpha grows without bound.

This holds at any stepsize: with d = theta - m, E d'^2 = E d^2 gives E d u = eps/2. The equation of u times d then gives
for a Gaussian the variance 1 - xi/2 times the posterior's, with xi the mean of alpha.

With alpha at rest at xi, on a Gaussian of precision lambda_j in direction j, with gradients of noise variance v_j:

    E u_j^2     = (2 a eps + eps^2 v_j) / (xi (2 - xi - eps lambda_j/2)),   whose mean is eps: this gives xi
    E theta_j^2 = E u_j^2/eps (1 - xi/2) / lambda_j,   E theta_j u_j = E u_j^2/2

But alpha is not constant: it follows the kinetic energy with a delay, and oscillates around xi with the frequency
sqrt(2 eps) and the damping xi. Its steps of size eps excite this oscillation if eps is of the order of xi. For a single
element, alpha has the standard deviation sqrt(eps). In simulations the equations hold within 2% for eps up to xi/2 and
0.03. A few times larger, chains are too hot and diverge.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary, equilibrium_friction, iterations, matrices, unstable

SWINGING, SWINGING_ALONE = 0.5, 0.03  # largest stepsizes for a nearly constant alpha: relative to xi, and absolute


def sgnht(a: float) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"unit_momentum": given.noise, "thermostat": tf.constant(a, theta.dtype)}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        eps, u, alpha = given.eps, tf.sqrt(given.eps) * memory["unit_momentum"], memory["thermostat"]
        u = u + eps * given.gradient - alpha * u + tf.sqrt(2.0 * a * eps) * given.noise
        return theta + u, {"unit_momentum": u / tf.sqrt(eps), "thermostat": alpha + tf.reduce_mean(u**2) - eps}

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        temperature, alpha = tf.reduce_mean(memory["unit_momentum"] ** 2), memory["thermostat"]
        return {"kinetic_temperature": temperature, "thermostat": alpha, "variance_ratio": 1.0 - 0.5 * alpha}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        speed = eps * precision

        def temperatures(xi: float) -> np.ndarray:
            return (2 * a + eps * noise) / (xi * (2 - xi - speed / 2))

        # The mean falls with xi, from infinity at 0 up to half the bound on xi in the fastest direction.
        xi = equilibrium_friction(lambda xi: temperatures(xi).mean(), 1 - speed.max() / 4)
        if xi is None or eps > min(SWINGING * xi, SWINGING_ALONE):
            return unstable(precision)
        hot = temperatures(xi)
        variance = hot * (1 - xi / 2) / precision
        F = matrices(1 - speed, 1 - xi, -speed, 1 - xi)  # noqa: N806
        return Stationary(variance, iterations(F, np.stack([variance, eps * hot / 2], -1)))

    return Dynamics(step, init=init, stats=stats, stationary=stationary, momentum=True)
