"""Minibatches of a chain that stays on one shard of the data for some iterations, and then hops to another.

A stay is on shard k with probability N_k / N, so that each observation is equally likely, and n observations of the
shard have the weight N/n. Over many hops the estimate of a sum over all data is unbiased; within a stay it estimates
the shard's sum times N / N_k.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.trees import Tree
from sgmcmc.minibatch import Minibatch, Part

CHOICE = 2**30  # the number of the draw that chooses a shard: those of observations are smaller


def within_shards(sizes: Sequence[int], size: int, hop: int, replace: bool = False) -> Minibatch:
    """`size` observations of a shard, distinct unless `replace`; the next stay begins after `hop` minibatches."""
    n_data, starts = sum(sizes), np.cumsum(sizes) - sizes

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, None]:
        shard = shard_of(stream, counters // tf.constant(hop, tf.uint32), sizes)
        first, bound = (tf.gather(tf.constant(x, tf.int32), shard) for x in (starts, sizes))
        numbers = tf.range(size)
        if replace:
            return first + stream.integers(counters, numbers, bound), None
        return first + stream.permutation(counters, numbers[None], bound, min(sizes)), None

    return Minibatch(size, draw, scale=n_data / size, without_replacement=not replace, simple=True)


def shard_of(stream: Stream, stays: tf.Tensor, sizes: Sequence[int]) -> tf.Tensor:
    """The shard of each chain in these stays, uint32 [K]: int32 [K, C, 1]."""
    at = stream.integers(stays, tf.constant([CHOICE]), sum(sizes))
    ends = tf.constant(np.cumsum(sizes)[:-1], tf.int32)
    return tf.reduce_sum(tf.cast(at >= ends, tf.int32), axis=2, keepdims=True)
