"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014, eq. 15).

An iteration draws nu ~ N(0, eps) and then makes L leaps, each with a minibatch of its own:

    theta' = theta + nu
    nu'    = (1 - alpha) nu + eps * grad(theta') + N(0, 2 alpha eps)

alpha is the friction; eps is a squared leapfrog step, and the variance of nu. The kinetic temperature, the mean of
nu^2/eps, is 1 in the first leap and tends to 1/(1 - alpha/2) in later ones, where the positions are right, unless the
noise of the gradients heats the chain.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Dynamics, Given, Memory


def sghmc(alpha: float, L: int) -> Dynamics:  # noqa: N803 - the paper's name
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"momentum": tf.sqrt(given.eps) * given.noise}

    def refresh(theta: tf.Tensor, memory: Memory, given: Given) -> Memory:
        return init(theta, given)

    def drift(theta: tf.Tensor, memory: Memory) -> tf.Tensor:
        return theta + memory["momentum"]

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        eps, nu = given.eps, memory["momentum"]
        nu = (1.0 - alpha) * nu + eps * given.gradient + tf.sqrt(2.0 * alpha * eps) * given.noise
        return theta, {"momentum": nu}

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        return {"kinetic_temperature": tf.reduce_mean(memory["momentum"] ** 2) / given.eps}

    return Dynamics(step, init=init, refresh=refresh, drift=drift, stats=stats, leaps=L)
