"""Dynamics of ten lines that the package has never heard of run through its generic `build` and obey their own laws.

One without memory, one with memory, one that uses everything a dynamics may: init, refresh, drift and leaps.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dynamics import Dynamics, Given, Memory
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from tests.statistical.laws import (
    GaussianMean,
    Linear,
    accept,
    chains,
    moments_z,
    reject,
    scaled_noise,
    simulate,
)

N, n, C = 90, 9, 4000
NORMAL = GaussianMean(N, 10.0)
WITH = with_replacement(N, n)
V = NORMAL.noise_with_replacement(n)


def preconditioned(G: float) -> Dynamics:
    """theta' = theta + eps/2 G grad + N(0, eps G)."""

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        return theta + 0.5 * given.eps * G * given.gradient + tf.sqrt(given.eps * G) * given.noise, memory

    return Dynamics(step)


def exact_friction(gamma: float) -> Dynamics:
    """Underdamped Langevin with the exact Ornstein-Uhlenbeck flow.

    u' = c u + eps grad + N(0, (1 - c^2) eps), theta' = theta + u'
    """
    c = np.exp(-gamma)

    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"momentum": tf.sqrt(given.eps) * given.noise}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        u = c * memory["momentum"] + given.eps * given.gradient + tf.sqrt((1 - c**2) * given.eps) * given.noise
        return theta + u, {"momentum": u}

    return Dynamics(step, init=init)


def leapfrog(L: int, rho: float) -> Dynamics:
    """Position Verlet, L leaps after a partial refresh u' = rho u + N(0, (1 - rho^2) eps):

    theta <- theta + u/2;  u <- u + eps grad;  theta <- theta + u/2
    """

    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"momentum": tf.sqrt(given.eps) * given.noise}

    def refresh(theta: tf.Tensor, memory: Memory, given: Given) -> Memory:
        return {"momentum": rho * memory["momentum"] + tf.sqrt((1 - rho**2) * given.eps) * given.noise}

    def drift(theta: tf.Tensor, memory: Memory) -> tf.Tensor:
        return theta + 0.5 * memory["momentum"]

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        u = memory["momentum"] + given.eps * given.gradient
        return theta + 0.5 * u, {"momentum": u}

    return Dynamics(step, init=init, refresh=refresh, drift=drift, leaps=L)


def run(dynamics, eps, covariance, minibatch=WITH):
    return simulate(chains(NORMAL, dynamics, minibatch, eps, C, NORMAL.mean, covariance), 300, 6)


def check(title, dynamics, eps, linear, minibatch=WITH, posterior=None):
    covariance = linear.stationary_covariance()
    mean = np.array([NORMAL.mean, 0.0])[: len(covariance)]
    draws = run(dynamics, eps, covariance, minibatch)
    accept(title, moments_z(draws, mean, covariance))
    posterior = covariance.copy()
    posterior[0, 0] = 1 / NORMAL.a
    reject("true posterior in place of the law", moments_z(draws, mean, posterior))
    return draws, mean, covariance


def test_preconditioned_langevin():
    eps, G = 0.2 / NORMAL.a, 2.0
    law = Linear(np.array([[1 - eps * G * NORMAL.a / 2]]), np.array([[eps * G + (eps * G) ** 2 * V / 4]]))
    draws, mean, covariance = check("toy: preconditioned Langevin", preconditioned(G), eps, law)
    plain = Linear(np.array([[1 - eps * NORMAL.a / 2]]), np.array([[eps + eps**2 * V / 4]])).stationary_covariance()
    reject("law without the preconditioner", moments_z(draws, mean, plain))
    reject(
        "toy, noise * sqrt(2)",
        moments_z(run(scaled_noise(preconditioned(G), np.sqrt(2)), eps, covariance), mean, covariance),
    )


def test_underdamped_langevin_with_exact_friction():
    eps, gamma = 0.1 / NORMAL.a, 0.5
    c, a = np.exp(-gamma), NORMAL.a
    kick = np.array([1.0, 1.0])  # u enters both theta' and u'
    law = Linear(np.array([[1 - eps * a, c], [-eps * a, c]]), ((1 - c**2) * eps + eps**2 * V) * np.outer(kick, kick))
    draws, mean, _ = check("toy: underdamped, exact friction", exact_friction(gamma), eps, law)
    other = Linear(law.A, ((1 - c) * eps + eps**2 * V) * np.outer(kick, kick)).stationary_covariance()
    reject("law of noise (1 - c) eps", moments_z(draws, mean, other))


def test_leapfrog_with_partial_refresh():
    """Refresh, drift and leaps together, with minibatches without replacement."""
    eps, L, rho, a = 0.1 / NORMAL.a, 3, 0.6, NORMAL.a
    half = Linear(np.array([[1, 0.5], [0, 1]]), np.zeros((2, 2)))
    kick = Linear(np.array([[1, 0], [-eps * a, 1]]), np.diag([0, eps**2 * NORMAL.noise_without_replacement(n)]))
    partial = Linear(np.diag([1, rho]), np.diag([0, (1 - rho**2) * eps]))
    law = partial.then(half.then(kick).then(half).repeated(L))
    draws, mean, _ = check("toy: leapfrog, partial refresh", leapfrog(L, rho), eps, law, without_replacement(N, n))
    whole = Linear(np.diag([1.0, 0.0]), np.diag([0.0, eps]))
    other = whole.then(half.then(kick).then(half).repeated(L)).stationary_covariance()
    reject("law of a whole refresh", moments_z(draws, mean, other))
    each = partial.then(half).then(kick).then(half).stationary_covariance()
    reject("law of a refresh at every leap", moments_z(draws, mean, each))
