"""The covariance-controlled adaptive Langevin thermostat (Shang, Zhu, Leimkuhler & Storkey 2015, algorithm 1).

SGNHT with an additional friction that removes the energy from the gradient noise, in each direction:

    u'     = u + eps * grad - eps/2 V' u - alpha u + N(0, 2 a eps)
    theta' = theta + u'
    alpha' = alpha + <u', u'>/p - eps
    V'     = (1 - 1/t) V + 1/t * covariance,   t = 1, 2, ...

with u ~ N(0, eps) and alpha = a at the start; `covariance` is that of the gradient noise, (N^2/n) times the empirical
covariance of the observations' gradients in the minibatch. V tends to its average over the chain. In the paper's h and
A, eps = h^2, a = A h and u = h p.

In equilibrium E u^2 = eps. With alpha at rest at xi, on a Gaussian of precision lambda_j in direction j, with gradients
of noise variance v_j, and gamma_j = xi + eps v_j/2 for the friction:

    E u_j^2     = (2 a eps + eps^2 v_j) / (gamma_j (2 - gamma_j - eps lambda_j/2)),   whose mean is eps: this gives xi
    E theta_j^2 = E u_j^2/eps (1 - gamma_j/2) / lambda_j,   E theta_j u_j = E u_j^2/2
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.covariance import Covariance
from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary, equilibrium_friction, iterations, matrices, unstable

SWINGING, SWINGING_ALONE = 0.5, 0.03  # the largest stepsizes, relative to the friction and absolute, as for SGNHT


def ccadl(a: float, covariance: Covariance) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {
            "unit_momentum": given.noise,  # u/sqrt(eps), whose distribution does not change with eps
            "thermostat": tf.constant(a, theta.dtype),
            "covariance": tf.zeros(covariance.shape(theta.shape), theta.dtype),
            "t": tf.zeros([], theta.dtype),
        }

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        eps, alpha, t = given.eps, memory["thermostat"], memory["t"] + 1.0
        u = tf.sqrt(eps) * memory["unit_momentum"]
        V = memory["covariance"] + (given.covariance - memory["covariance"]) / t  # noqa: N806
        friction = alpha * u + 0.5 * eps * covariance.times(V, u)
        u = u + eps * given.gradient - friction + tf.sqrt(2.0 * a * eps) * given.noise
        alpha = alpha + tf.reduce_mean(u**2) - eps
        return theta + u, {"unit_momentum": u / tf.sqrt(eps), "thermostat": alpha, "covariance": V, "t": t}

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        temperature = tf.reduce_mean(memory["unit_momentum"] ** 2)
        alpha = memory["thermostat"]
        friction = alpha + 0.5 * given.eps * covariance.mean_variance(memory["covariance"])
        return {"kinetic_temperature": temperature, "thermostat": alpha, "variance_ratio": 1.0 - 0.5 * friction}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        speed, own = eps * precision, eps * noise / 2

        def temperatures(xi: float) -> np.ndarray:
            friction = xi + own
            return (2 * a + eps * noise) / (friction * (2 - friction - speed / 2))

        xi = equilibrium_friction(lambda xi: temperatures(xi).mean(), (1 - speed / 4 - own).min())
        if xi is None or eps > min(SWINGING * (xi + own.mean()), SWINGING_ALONE):
            return unstable(precision)
        hot, friction = temperatures(xi), xi + own
        variance = hot * (1 - friction / 2) / precision
        F = matrices(1 - speed, 1 - friction, -speed, 1 - friction)  # noqa: N806
        return Stationary(variance, iterations(F, np.stack([variance, eps * hot / 2], -1)))

    return Dynamics(step, init=init, stats=stats, stationary=stationary, covariance=covariance.value, momentum=True)
