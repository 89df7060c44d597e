"""Minibatches drawn with replacement from given probabilities p_i; a drawn observation weighs 1/(n p_i).

The estimate of a sum over the data stays unbiased whatever the p_i > 0 are. Its noise is least if they are in
proportion to the sizes of the terms (Putcha, Nemeth & Fearnhead 2023, eq. 11 and 12).
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.types import Minibatch, Part, Tree


def weighted(
    n_data: int, size: int, dtype: tf.DType, probabilities: np.ndarray | None = None, floor: float = 0.0
) -> Minibatch:
    """By these probabilities, [N], or by the importance of the observations: then with the share `floor` of uniform."""
    halvings = max(n_data - 1, 1).bit_length()

    def prepare(importance: np.ndarray | None) -> Tree:
        p = probabilities
        if p is None:
            assert importance is not None
            p = (1 - floor) * importance / importance.sum() + floor / n_data
        cumulative = np.cumsum(p, dtype=np.float64)
        return {
            "cumulative": tf.constant(cumulative / cumulative[-1]),  # float64 [N]: float32 would merge neighbours
            "inverse": tf.constant(1.0 / np.asarray(p, np.float64), dtype),  # [N]
        }

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, tf.Tensor]:
        u = stream.uniform(counters, part * size + tf.range(size))
        indices = inverted(u, constants["cumulative"], halvings)
        return indices, tf.gather(constants["inverse"], indices) / size

    return Minibatch(size, draw, prepare=prepare, wants_importance=probabilities is None)


def inverted(u: tf.Tensor, cumulative: tf.Tensor, halvings: int) -> tf.Tensor:
    """The first index whose cumulative probability exceeds u: O(log N) each."""
    low = tf.zeros(u.shape, tf.int32)
    high = tf.fill(u.shape, cumulative.shape[0] - 1)
    for _ in range(halvings):
        middle = (low + high) // 2
        right = u >= tf.gather(cumulative, middle)
        low, high = tf.where(right, tf.minimum(middle + 1, high), low), tf.where(right, high, middle)
    return low
