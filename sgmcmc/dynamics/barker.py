"""Stochastic gradient Barker dynamics (Mauri & Zanella 2024).

The noise of SGLD, whose sign depends on the gradient:

    z      ~ N(0, eps)
    theta' = theta + b z,  b = 1 with probability sigmoid(z grad), else -1

For small eps the mean of b z is eps/2 grad. The mean of its square is eps, whatever the gradient is.

Gradient noise of variance V brings the probability nearer to 1/2. Since sigmoid(x) is near Phi(x/1.702), over
normal noise the corrected probability

    sigmoid(alpha z grad),  alpha = 1 / sqrt(1 - (z/1.702)^2 V)

has nearly the mean sigmoid(z E grad). Where there is no such alpha, b has the sign of z grad. For a small eps V this
removes 2/1.702^2 = 0.69 of the effect of the noise on the mean of b, since there sigmoid is steeper than Phi(x/1.702).

In a chain that has settled E (theta - m)^2 is constant, so with f(g) the mean of b z at the gradient g,
E (theta - m) f = -eps/2. On a Gaussian of precision lambda the chain is nearly normal, and E (theta - m) f =
E f' E (theta - m) grad. So the variance, divided by the posterior's, is R with

    1/R = E z^2/eps alpha sech(alpha z grad/2)^2,  grad ~ N(0, lambda R + V),

and the autocorrelation 1 - eps lambda/(2 R). Without the correction R is near 1 + 3/4 eps (lambda + V). In several
dimensions, of precision H, noise V and S = H + V, the covariance is near H^-1 + eps X with

    H X + X H = S/2 + diag(S).

So directions behave as if they were independent, with gradients of covariance (S + 2 diag(S))/3.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import tensorflow as tf

from sgmcmc.core.variates import uniform
from sgmcmc.dynamics import Dynamics, Given, Memory, Stationary

PROBIT = 1.702
NO_ALPHA = 1e-12  # sigmoid(x / sqrt of this) is a step
STEEPEST = 10.0  # the largest alpha of the statistic: a step has no derivative
GRID = 0.05  # of logarithms
STEPS = 12


def barker(corrected: bool = False) -> Dynamics:
    def init(theta: tf.Tensor, given: Given) -> Memory:
        return {"variance_ratio": tf.ones([], theta.dtype)}

    def step(theta: tf.Tensor, memory: Memory, given: Given) -> tuple[tf.Tensor, Memory]:
        first, second = given.noise
        z = tf.sqrt(given.eps) * first
        alpha = tf.ones_like(z)
        if corrected:
            alpha = tf.math.rsqrt(tf.maximum(1.0 - (z / PROBIT) ** 2 * given.covariance, NO_ALPHA))
        move = tf.where(uniform(second) < tf.sigmoid(alpha * z * given.gradient), z, -z)
        smooth = tf.minimum(alpha, STEEPEST)
        slope = smooth * (1.0 - tf.tanh(0.5 * smooth * z * given.gradient) ** 2)
        move = tf.where(tf.math.is_nan(given.gradient), given.gradient, move)  # which a comparison would hide
        return theta + move, {"variance_ratio": 1.0 + tf.reduce_mean(first**2 * (1.0 - slope))}

    def stationary(eps: float, precision: np.ndarray, noise: np.ndarray) -> Stationary:
        speed = eps * precision
        ratio = _ratio(speed, eps * noise)
        return Stationary(ratio / precision, np.maximum(4 * ratio / speed - 1, 1.0))

    def along(noise: np.ndarray, own: np.ndarray) -> np.ndarray:
        return (noise + 2 * own) / 3

    return Dynamics(
        step,
        init=init,
        stats=lambda memory, given: {"variance_ratio": memory["variance_ratio"]},
        noises=2,
        stationary=None if corrected else stationary,
        along=along,
        covariance="diag" if corrected else None,
    )


def _ratio(speed: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """R with R H(speed R + heat) = 1, where H(t) = E z^2 sech(sqrt(t) z g/2)^2 for standard normals z and g."""
    log_t, scaled = _table()
    ratio = 0.75 * speed + np.sqrt((0.75 * speed) ** 2 + 1 + 1.5 * heat)
    for _ in range(STEPS):  # which contract by a factor of at most 1/2, since H falls at most as 1/sqrt(t)
        t = speed * ratio + heat
        ratio = np.sqrt(1 + 1.5 * t) / np.interp(np.log(t), log_t, scaled)
    return ratio


@cache
def _table() -> tuple[np.ndarray, np.ndarray]:
    """The logarithms of some t, and H(t) sqrt(1 + 3/2 t) there, which is nearly constant beyond both ends."""
    z, log_root = np.exp(np.arange(-8, 2.3, GRID)), np.arange(-5, 6, GRID)
    y = np.exp(np.arange(len(z) + len(log_root) - 1) * GRID + log_root[0] - 8)
    # E sech(y g/2)^2, by the trapezoidal rule, in steps of y g where that is the narrower function
    u, width = np.arange(-40, 40, 0.1), np.maximum(y, 1.0)[:, None]
    g = u / width
    over_g = (np.exp(-(g**2) / 2) / np.cosh(np.minimum(y[:, None] * np.abs(g), 80.0) / 2) ** 2 / width).sum(axis=1)
    over_z = np.exp(-(z**2) / 2) * z**3  # one z from the differential
    windows = np.lib.stride_tricks.sliding_window_view(over_g, len(z)) @ over_z
    H = windows * 0.1 * 2 * GRID / (2 * np.pi)  # noqa: N806
    return 2 * log_root, H * np.sqrt(1 + 1.5 * np.exp(2 * log_root))
