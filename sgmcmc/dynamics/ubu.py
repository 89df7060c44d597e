"""Underdamped Langevin dynamics by the splitting UBU (Sanz-Serna & Zygalakis 2021).

An iteration takes one gradient, in the middle of its step:

    U   the exact motion without force, for half a step
    B   u = u + eps * grad
    U   the same again

eps is the square of the paper's stepsize h, u = h v and 1 - alpha = exp(-gamma h). With G = gamma h, U over the time
t h is

    u(t)     = exp(-G t) u + noise
    theta(t) = theta + (1 - exp(-G t))/G u + noise

with the covariance 2 G eps int_0^t f f^T ds of the noises, f(s) = ((1 - exp(-G s))/G, exp(-G s)).

The second half of a step and the first of the next draw six numbers, of which only three sums matter: the noise of
theta after the step, that of theta at the next gradient, and that of u there. So three normals are drawn, and the
memory holds the first half of the next step: u there, and how far theta is `ahead`. The first of all steps begins at B.

The kinetic temperature T is that of the momentum in the middle of B, the mean of those before and after it. On a
Gaussian without gradient noise and with little friction, T and E theta^2 lambda are both 1 - eps lambda/6. With noise,
as eps tends to 0, E theta^2 lambda = 1 + r (T - 1), where r = 1/(2 G) / (c^2/(1 - c^2) + 1/4) with c = 1 - alpha.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary, covariances, iterations, matrices

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


def ubu(alpha: float) -> Dynamics:
    G = -np.log1p(-alpha)  # noqa: N806
    reach, keep = -np.expm1(-G / 2) / G, np.exp(-G / 2)  # of half a step
    of_half = _noise_of_half(G)
    (a, _, _), (b, c, _), (d, e, f) = _noise_of_step(of_half, reach, keep).tolist()

    def init(theta: tf.Tensor, given: Given) -> Memory:
        # u/sqrt(eps), whose distribution does not change with eps
        return {
            "unit_momentum": given.noise,
            "ahead": tf.zeros_like(theta),
            "kinetic_temperature": tf.ones([], theta.dtype),
        }

    def drift(theta: tf.Tensor, memory: Memory) -> tf.Tensor:
        return theta + memory["ahead"]

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        h, (first, second, third) = tf.sqrt(given.eps), given.noise
        before = memory["unit_momentum"]
        u = before + h * given.gradient
        return theta + h * (reach * u + a * first), {
            "unit_momentum": keep**2 * u + d * first + e * second + f * third,
            "ahead": h * (reach * keep * u + b * first + c * second),
            "kinetic_temperature": tf.reduce_mean(((before + u) / 2) ** 2),
        }

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        w = eps * precision
        U, B = matrices(1.0, reach, 0.0, keep), matrices(np.ones_like(w), 0.0, -w, 1.0)  # noqa: N806
        F, kicked = U @ B @ U, U @ B  # noqa: N806
        added = kicked @ of_half @ kicked.mT + eps * noise[:, None, None] * U @ np.diag([0.0, 1.0]) @ U.mT + of_half
        settles = np.abs(np.linalg.eigvals(F)).max(axis=-1) < 1
        still = np.where(settles[:, None, None], F, 0.0)
        covariance = covariances(still, added)[..., 0]  # of theta and u with theta, over eps
        variance = np.where(settles, eps * covariance[:, 0], np.inf)
        return Stationary(variance, iterations(still, covariance))

    r = 1 / (2 * G) / (1 / np.expm1(2 * G) + 1 / 4)  # c^2 / (1 - c^2) = 1 / (exp(2 G) - 1)
    return Dynamics(
        step,
        init=init,
        drift=drift,
        stats=lambda memory, given: {"kinetic_temperature": memory["kinetic_temperature"]},
        noises=3,
        stationary=stationary,
        momentum=True,
        variance=(float(1 - r), float(r)),
    )


def _noise_of_half(G: float) -> np.ndarray:  # noqa: N803
    """The covariance of the noises of theta and u in U over half a step, over eps, by Gauss's quadrature."""
    s = (NODES + 1) / 4
    f = np.stack([-np.expm1(-G * s) / G, np.exp(-G * s)])
    return 2 * G * (f * WEIGHTS / 4) @ f.T


def _noise_of_step(of_half: np.ndarray, reach: float, keep: float) -> np.ndarray:
    """The root of the covariance of what three normals give: theta, and after the next half step theta and u."""
    first = np.array([[1.0, 0.0], [0.0, reach], [0.0, keep]])
    second = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    return np.linalg.cholesky(first @ of_half @ first.T + second @ of_half @ second.T)
