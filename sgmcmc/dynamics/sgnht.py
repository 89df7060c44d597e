"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014, algorithm 2).

    u'     = u + eps * grad - alpha u + N(0, 2 a eps)
    theta' = theta + u'
    alpha' = alpha + <u', u'>/p - eps

with u ~ N(0, eps) and alpha = a at the start; one thermostat alpha for each parameter array, p its number of
elements, <., .> the inner product over all of them whatever the rank.

In equilibrium E u^2 = eps, whatever a; but of a Gaussian the variance is 1 - alpha/2 times the posterior's, and alpha
tends to 1 - sqrt(1 - 2 a) as eps falls: a small a is right. From 2 a + eps V = 1 on, with V the variance of grad, no
friction takes away what the noises bring, and alpha grows without end.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Dynamics, Given, Memory


def sgnht(a: float) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"momentum": tf.sqrt(given.eps) * given.noise, "thermostat": tf.constant(a, theta.dtype)}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        eps, u, alpha = given.eps, memory["momentum"], memory["thermostat"]
        u = u + eps * given.gradient - alpha * u + tf.sqrt(2.0 * a * eps) * given.noise
        return theta + u, {"momentum": u, "thermostat": alpha + tf.reduce_mean(u**2) - eps}

    def stats(memory: Memory, given: Given) -> dict[str, tf.Tensor]:
        temperature = tf.reduce_mean(memory["momentum"] ** 2) / given.eps
        return {"kinetic_temperature": temperature, "thermostat": memory["thermostat"]}

    return Dynamics(step, init=init, stats=stats)
