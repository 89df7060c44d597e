"""Minibatches that are successive parts of a random permutation, one for each epoch.

An epoch has R = floor(N/n) minibatches, so it uses each observation at most once. The
N - R n observations at the end of the permutation are left out of that epoch; the next
epoch leaves out others. All minibatches then have n observations of weight N/n, and
each one is a uniform sample without replacement: the estimate of the gradient is
unbiased. A shorter last minibatch would need another weight and another program.

In a Gaussian model the error of SGLD's variance falls from h + R h to h + (R h)^2 (Shaw & Whalley 2025).
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.types import Minibatch, Part, Tree


def reshuffled(n_data: int, size: int) -> Minibatch:
    per_epoch = n_data // size

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, None]:
        length = tf.constant(per_epoch, tf.uint32)
        return of_permutation(stream, counters // length, tf.bitcast(counters % length, tf.int32), n_data, size)

    return Minibatch(size, draw, scale=n_data / size, without_replacement=True, simple=True, independent=False)


def of_permutation(
    stream: Stream, numbers: tf.Tensor, places: tf.Tensor, n_data: int, size: int
) -> tuple[tf.Tensor, None]:
    """The minibatches at these places, int32 [K], of the permutations with these numbers, uint32 [K]."""
    return stream.permutation(numbers, places[:, None] * size + tf.range(size)[None], n_data), None
