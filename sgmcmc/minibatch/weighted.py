"""Minibatches drawn with replacement from given probabilities p_i; a drawn observation weighs 1/(n p_i).

The estimate of a sum over the data stays unbiased whatever the p_i > 0 are.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.types import Minibatch


def weighted(probabilities: np.ndarray, size: int, dtype: tf.DType) -> Minibatch:
    """Draws by inversion: log2(N) halvings of the cumulative sum for each index, so O(n log N) for a minibatch."""
    n_data = len(probabilities)
    upper_edges = np.cumsum(probabilities, dtype=np.float64)
    cumulative = tf.constant(upper_edges / upper_edges[-1])  # float64 [N]: float32 would merge neighbours
    inverse = tf.constant(1.0 / (size * np.asarray(probabilities, np.float64)), dtype)  # [N]
    halvings = max(n_data - 1, 1).bit_length()

    def draw(stream: Stream, counters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        indices = invert(stream.uniform(counters, size))
        return indices, tf.gather(inverse, indices)

    def invert(u: tf.Tensor) -> tf.Tensor:
        low = tf.zeros(u.shape, tf.int32)
        high = tf.fill(u.shape, n_data - 1)
        for _ in range(halvings):
            middle = (low + high) // 2
            right = u >= tf.gather(cumulative, middle)
            low, high = tf.where(right, tf.minimum(middle + 1, high), low), tf.where(right, high, middle)
        return low

    return Minibatch(size, draw)
