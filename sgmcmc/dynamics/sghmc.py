"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014, eq. 15).

An iteration draws nu ~ N(0, eps) and then makes L leaps, each with a minibatch of its own:

    theta' = theta + nu
    nu'    = (1 - alpha) nu + eps * grad(theta') + N(0, 2 alpha eps)

alpha is the friction; eps is a squared leapfrog step, and the variance of nu: the kinetic temperature, the mean of
nu^2/eps, stays at 1 unless the noise of the gradients heats the chain.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Aux, Dynamics, Mean


def sghmc(alpha: float, L: int) -> Dynamics:  # noqa: N803 - the paper's name
    def fresh(eps: tf.Tensor, theta: tf.Tensor, noise: tf.Tensor) -> Aux:
        return {"momentum": tf.sqrt(eps) * noise}

    def refresh(eps: tf.Tensor, theta: tf.Tensor, aux: Aux, noise: tf.Tensor) -> Aux:
        return fresh(eps, theta, noise)

    def drift(theta: tf.Tensor, aux: Aux) -> tf.Tensor:
        return theta + aux["momentum"]

    def step(
        eps: tf.Tensor, theta: tf.Tensor, aux: Aux, grad: tf.Tensor, noise: tf.Tensor, mean: Mean
    ) -> tuple[tf.Tensor, Aux]:
        nu = (1.0 - alpha) * aux["momentum"] + eps * grad + tf.sqrt(2.0 * alpha * eps) * noise
        return theta, {"momentum": nu}

    def stats(eps: tf.Tensor, aux: Aux) -> dict[str, tf.Tensor]:
        return {"kinetic_temperature": tf.reduce_mean(aux["momentum"] ** 2) / eps}

    return Dynamics(step, init=fresh, refresh=refresh, drift=drift, stats=stats, inner_steps=L)
