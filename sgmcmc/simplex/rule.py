"""What a simplex sampler is: how unnormalised probabilities theta > 0 move, given estimated category counts.

Probabilities are omega = theta / sum(theta) over the last axis. With z_i the categories of observation i, their
distribution given all data is Dirichlet(alpha + sum_i z_i).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.random import Stream


class Numbers(NamedTuple):
    """The random numbers of one iteration, for the elements of one parameter of all chains."""

    stream: Stream
    counter: tf.Tensor  # uint32, a scalar
    elements: tf.Tensor  # int32 [m], each with numbers of its own

    def log_gamma(self, shape: tf.Tensor) -> tf.Tensor:
        """Logarithms of Gamma(shape, 1) draws, [C, ...]."""
        return self._of(self.stream.log_gamma, shape)

    def poisson(self, mean: tf.Tensor) -> tf.Tensor:
        """Poisson draws, [C, ...]."""
        return self._of(self.stream.poisson, mean)

    def normal(self, like: tf.Tensor) -> tf.Tensor:
        """Standard normals of this shape, [C, ...]."""
        z = self.stream.normal(self.counter[None], self.elements, tf.float32)  # far more exact than a stepsize
        return tf.reshape(tf.cast(z, like.dtype), like.shape)

    def _of(self, draw: Callable, parameter: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(parameter, [1, parameter.shape[0], -1])
        return tf.reshape(draw(self.counter[None], self.elements, flat), parameter.shape)


class Rule(NamedTuple):
    """A Markov transition of theta.

    Parameters
    ----------
    step : callable
        ``step(numbers, theta, alpha, counts, h) -> log theta'``, all [C, ..., d] or broadcast to it. The counts are
        those of a minibatch times N/n. The result is a logarithm because theta may be too small for a float.
    total : callable
        ``total(alpha, n_observations) -> [C, ...]``: the sum of theta with which a chain begins, about where it
        settles.
    """

    step: Callable[[Numbers, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    total: Callable[[tf.Tensor, float], tf.Tensor]
