"""The scale of a simplex sampler's parameters: theta > 0 or omega = theta / sum(theta), or their logarithms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Scale(NamedTuple):
    """The parameters as a function of theta."""

    normalised: bool  # probabilities omega, with the Dirichlet distribution, or theta, with the Gamma's
    log: bool  # logarithms of these

    def natural(self, params: tf.Tensor) -> tf.Tensor:
        return tf.exp(params) if self.log else params

    def theta(self, params: tf.Tensor, log_total: tf.Tensor | None) -> tf.Tensor:
        """Theta, given the logarithm of its sum over the last axis if parameters are normalised."""
        if log_total is None:
            return self.natural(params)
        return tf.exp(params + log_total[..., None]) if self.log else params * tf.exp(log_total[..., None])

    def of_log(self, log_params: tf.Tensor) -> tf.Tensor:
        return log_params if self.log else tf.exp(log_params)

    def log_density(self, shape: tf.Tensor, params: tf.Tensor) -> tf.Tensor:
        """The Dirichlet or Gamma log density of the natural parameters, unnormalised, summed to [C]."""
        smallest = np.finfo(params.dtype.as_numpy_dtype).tiny
        log_params = params if self.log else tf.math.log(tf.maximum(params, smallest))
        terms = (shape - 1) * log_params
        if not self.normalised:
            terms -= tf.exp(log_params)
        return tf.reduce_sum(tf.reshape(terms, [terms.shape[0], -1]), axis=1)
