"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014, algorithm 2).

    u'     = u + eps * grad - alpha u + N(0, 2 a eps)
    theta' = theta + u'
    alpha' = alpha + <u', u'>/p - eps

with u ~ N(0, eps) and alpha = a at the start; one thermostat alpha for each parameter array, p its number of
elements, <., .> the inner product over all of them whatever the rank.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Aux, Dynamics, Mean


def sgnht(a: float) -> Dynamics:
    def init(eps: tf.Tensor, theta: tf.Tensor, noise: tf.Tensor) -> Aux:
        return {"momentum": tf.sqrt(eps) * noise, "thermostat": tf.constant(a, theta.dtype)}

    def step(
        eps: tf.Tensor, theta: tf.Tensor, aux: Aux, grad: tf.Tensor, noise: tf.Tensor, mean: Mean
    ) -> tuple[tf.Tensor, Aux]:
        u, alpha = aux["momentum"], aux["thermostat"]
        u = u + eps * grad - alpha * u + tf.sqrt(2.0 * a * eps) * noise
        return theta + u, {"momentum": u, "thermostat": alpha + mean(u**2) - eps}

    def stats(eps: tf.Tensor, aux: Aux) -> dict[str, tf.Tensor]:
        temperature = tf.reduce_mean(aux["momentum"] ** 2) / eps
        return {"kinetic_temperature": temperature, "thermostat": aux["thermostat"]}

    return Dynamics(step, init=init, stats=stats)
