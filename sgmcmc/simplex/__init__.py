"""The rule of a simplex sampler: how theta > 0 moves, given estimated category counts.

The probabilities are omega = theta / sum(theta) over the last axis. With z_i the counts of observation i, their
posterior is Dirichlet(alpha + sum_i z_i).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.random import Stream


class Numbers(NamedTuple):
    """The random numbers of one iteration, for m elements of all chains."""

    stream: Stream
    counter: tf.Tensor  # uint32, a scalar
    elements: tf.Tensor  # int32 [m], each with its own random numbers

    def log_gamma(self, shape: tf.Tensor) -> tf.Tensor:
        """[C, ...] with m elements a chain, as of `poisson`."""
        return self._of(self.stream.log_gamma, shape)

    def poisson(self, mean: tf.Tensor) -> tf.Tensor:
        return self._of(self.stream.poisson, mean)

    def normal(self, dtype: tf.DType) -> tf.Tensor:
        """Standard normals, [C, m]; float32 is precise enough for an Euler step."""
        return tf.cast(self.stream.normal(self.counter[None], self.elements, tf.float32)[0], dtype)

    def _of(self, draw: Callable[..., tf.Tensor], parameter: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(parameter, [1, parameter.shape[0], -1])
        return tf.reshape(draw(self.counter[None], self.elements, flat), parameter.shape)


class Rule(NamedTuple):
    """A Markov kernel of theta, element by element.

    ``step(numbers, theta, alpha, counts, expected, h) -> log theta'``, all [C, m] or broadcast to it. The counts are
    those of a minibatch times N/n. `expected` is their sum times omega, or 0 for the Gamma distribution. The result is
    a logarithm because theta may be too small for a float. ``total(alpha, n_counts)`` is the initial sum of theta over
    the last axis, close to its stationary mean, for this many counts of each row in all observations.
    """

    step: Callable[[Numbers, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    total: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def expected_counts(omega: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """The sum of the counts over the last axis, divided in proportion to the probabilities."""
    return omega * tf.reduce_sum(counts, axis=-1, keepdims=True)
