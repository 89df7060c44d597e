"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014, eq. 15).

An iteration draws nu ~ N(0, eps) and then makes L leaps, each with its own minibatch:

    theta' = theta + nu
    nu'    = (1 - alpha) nu + eps * grad(theta') + N(0, 2 alpha eps)

alpha is the friction; eps is a squared leapfrog step, and the variance of nu. The kinetic temperature T, the mean of
nu^2/eps, is 1 in the first leap, and each leap makes it (1 - alpha)^2 T + 2 alpha, which tends to 1/(1 - alpha/2). That
is right for the positions, unless gradient noise heats the chain. If the variance v of that noise is
estimated, from the gradients of the observations in the minibatch, the injected noise becomes
N(0, 2 max(alpha - betaHat, 0) eps) with betaHat = eps v/2 (their section 3.3, and the Fisher information of Ahn,
Korattikara & Welling 2012).

On a Gaussian of precision lambda, with gradients of noise variance v, an iteration maps theta to F theta + noise. Let
g_k be the distance after k leaps from theta = 0 with momentum 1 (g_0 = 0, g_1 = 1), and s = 2 alpha eps + eps^2 v. The
variance of that noise is eps g_L^2 + s (g_0^2 + ... + g_{L-1}^2).

As eps tends to 0, a change of the momentum in leap j moves theta by w_j = sum_{i < L - j} (1 - alpha)^i times that
change by the end of the iteration. Let s eps be the variance that friction and gradient add to the momentum in a leap.
The temperature after L leaps is then q + s (1 - q)/(alpha (2 - alpha)) with q = (1 - alpha)^(2 L). An iteration leaves
E (theta - m)^2 unchanged if

    2 lambda Var sum_{j = 1}^{L - 1} w_j = w_0^2 + s sum_{j = 1}^{L - 1} w_j^2,

which gives the variance, a linear function of the temperature.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary


def sghmc(alpha: float, L: int, fisher: bool = False) -> Dynamics:  # noqa: N803 - the paper's name
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"momentum": tf.sqrt(given.eps) * given.noise}

    def refresh(theta: tf.Tensor, memory: Memory, given: Given) -> Memory:
        return init(theta, given)

    def drift(theta: tf.Tensor, memory: Memory) -> tf.Tensor:
        return theta + memory["momentum"]

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        eps, nu = given.eps, memory["momentum"]
        rest = tf.maximum(alpha - 0.5 * eps * given.covariance, 0.0) if fisher else alpha
        nu = (1.0 - alpha) * nu + eps * given.gradient + tf.sqrt(2.0 * rest * eps) * given.noise
        return theta, {"momentum": nu}

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        return {"kinetic_temperature": tf.reduce_mean(memory["momentum"] ** 2) / given.eps}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        def leap(theta: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            theta = theta + nu
            return theta, (1 - alpha) * nu - eps * precision * theta

        one, zero = np.ones_like(precision), np.zeros_like(precision)
        rest = np.maximum(alpha - eps * noise / 2, 0) if fisher else alpha
        of_theta, of_nu, squares = (one, zero), (zero, one), zero
        for _ in range(L):
            squares = squares + of_nu[0] ** 2
            of_theta, of_nu = leap(*of_theta), leap(*of_nu)
        F, added = of_theta[0], eps * of_nu[0] ** 2 + (2 * rest * eps + eps**2 * noise) * squares  # noqa: N806
        settles = np.abs(F) < 1
        F = np.where(settles, F, 0.0)  # noqa: N806
        return Stationary(np.where(settles, added / (1 - F**2), np.inf), np.maximum((1 + F) / (1 - F), 1.0))

    return Dynamics(
        step,
        init=init,
        refresh=refresh,
        drift=drift,
        stats=stats,
        leaps=L,
        stationary=stationary,
        covariance="diag" if fisher else None,
        momentum=True,
        temperature=(1 - alpha / 2 * (1 - alpha) ** (2 * L)) / (1 - alpha / 2),
        variance=_variance(alpha, L) if L > 1 else None,
    )


def _variance(alpha: float, L: int) -> tuple[float, float]:  # noqa: N803
    w, q = (1 - (1 - alpha) ** np.arange(L, 0, -1)) / alpha, (1 - alpha) ** (2 * L)
    twice = 2 * np.sum(w[1:])
    slope = alpha * (2 - alpha) / (1 - q) * np.sum(w[1:] ** 2) / twice
    return float(w[0] ** 2 / twice - q * slope), float(slope)
