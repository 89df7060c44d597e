"""Proposals of Poisson draws from two words each.

By inversion for means below 10, else by transformed rejection (Hoermann 1993, "The
transformed rejection method for generating Poisson random variables", algorithm PTRS).
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.rejection import REFUSED
from sgmcmc.core.words import open_uniform, polynomial

INVERTED_BELOW = 10.0  # means
LAST_COUNT = 60  # of a mean below 10, exceeded with probability 1e-26
QUICK_COUNT = 12
QUICK_TAIL, QUICK_ERROR = 1e-5, 4e-7  # smaller probabilities, and differences, are left to float64
LOG_FACTORIALS = np.cumsum(np.log(np.maximum(np.arange(16), 1)))


def quick_proposal(high: tf.Tensor, low: tf.Tensor, attempt: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """A cheap draw in float32, or `REFUSED` where the full method is needed."""
    u, mean32 = open_uniform(high, low, tf.float32), tf.cast(tf.minimum(mean, INVERTED_BELOW), tf.float32)
    state, near = _first_count(mean32), tf.zeros_like(u, tf.bool)
    for _ in range(QUICK_COUNT):
        near |= tf.abs(u - state[2]) < QUICK_ERROR
        state = _next_count(u, mean32, *state)
    _, _, tail, few = state
    refused = tf.constant(REFUSED, mean.dtype)
    small = tf.where((u < tail) | (u < QUICK_TAIL) | near, refused, tf.cast(few, mean.dtype))
    count, squeezed, _ = _transformed(high, low, mean)
    return tf.where(mean < INVERTED_BELOW, small, tf.where(squeezed, count, refused))


def proposal(high: tf.Tensor, low: tf.Tensor, attempt: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """A draw, or `REFUSED`."""
    # Inversion needs one attempt.
    few = _inverted(open_uniform(high, low, tf.float64), tf.where(attempt == 0, mean, tf.zeros_like(mean)))
    count, squeezed, ratio = _transformed(high, low, mean)
    accepted = squeezed | ((count >= 0) & (ratio <= log_probability(tf.maximum(count, 0), mean)))
    large = tf.where(accepted, count, tf.constant(REFUSED, mean.dtype))
    return tf.where(mean < INVERTED_BELOW, tf.cast(few, mean.dtype), large)


def _inverted(u: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """How many of P(X > 0), P(X > 1), ... exceed u, for means below `INVERTED_BELOW`; 0 for others.

    In float64: in float32 the rounding of a small tail would turn into counts that are far too large.
    """
    mean = tf.cast(tf.where(mean < INVERTED_BELOW, mean, tf.zeros_like(mean)), tf.float64)
    _, _, _, count = tf.while_loop(
        lambda k, mass, tail, count: (k < LAST_COUNT) & tf.reduce_any(u < tail),
        lambda *state: _next_count(u, mean, *state),
        _first_count(mean),
    )
    return count


def _first_count(mean: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """k = 0, P(X = 0), P(X > 0), and no count yet."""
    return tf.constant(0), tf.exp(-mean), -tf.math.expm1(-mean), tf.zeros_like(mean)


def _next_count(
    u: tf.Tensor, mean: tf.Tensor, k: tf.Tensor, mass: tf.Tensor, tail: tf.Tensor, count: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The same for k + 1, where u < P(X > k)."""
    exceeds = u < tail
    mass *= mean / tf.cast(k + 1, mean.dtype)
    return k + 1, mass, tf.where(exceeds, tail - mass, tail), count + tf.cast(exceeds, mean.dtype)


def _transformed(high: tf.Tensor, low: tf.Tensor, mean: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A proposal of PTRS, whether it is accepted without its probability, and otherwise up to which log probability."""
    mean = tf.maximum(mean, INVERTED_BELOW)
    b = 0.931 + 2.53 * tf.sqrt(mean)
    a = -0.059 + 0.02483 * b
    u = open_uniform(high, high, mean.dtype) - 0.5
    v = open_uniform(low, low, mean.dtype)
    us = 0.5 - tf.abs(u)
    us = tf.maximum(us, 2.0**-33)
    count = tf.floor((2 * a / us + b) * u + mean + 0.43)
    squeezed = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    ratio = tf.math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b))
    hopeless = (us < 0.013) & (v > us)
    return count, squeezed, tf.where(hopeless, tf.constant(np.inf, mean.dtype), ratio)


def log_probability(count: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """The log probability of a count, for means of at least 10.

    For large counts by Loader's deviance (2000, "Fast and accurate computation of binomial probabilities"), in which
    nothing large cancels.
    """
    mean = tf.maximum(mean, INVERTED_BELOW)
    factorials = tf.constant(LOG_FACTORIALS, mean.dtype)
    last = len(LOG_FACTORIALS) - 1
    few = tf.gather(factorials, tf.cast(tf.minimum(count, last), tf.int32))
    direct = count * tf.math.log(mean) - mean - few
    k = tf.maximum(count, last)
    e = (k - mean) / mean
    near = e**2 * polynomial(e, (1 / 56, -1 / 42, 1 / 30, -1 / 20, 1 / 12, -1 / 6, 1 / 2))
    deviance = mean * tf.where(tf.abs(e) < 0.05, near, k / mean * tf.math.log(k / mean) - e)
    stirling = (1 / 12 - (1 / 360 - 1 / (1260 * k**2)) / k**2) / k
    return tf.where(count < last, direct, -deviance - stirling - 0.5 * tf.math.log(2 * np.pi * k))
