"""Minibatches that are successive parts of a random permutation, one for each epoch.

An epoch has R = floor(N/n) minibatches, so it uses each observation at most once. The N - R n observations at the end
of the permutation are left out of that epoch; the next epoch leaves out others. All minibatches then have n
observations of weight N/n, and each one is a uniform sample without replacement: the estimate of the gradient is
unbiased. A shorter last minibatch would need another weight and another program.

In a Gaussian model the error of SGLD's variance falls from h + R h to h + (R h)^2 (Shaw & Whalley 2025).
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.trees import Tree
from sgmcmc.minibatch import Minibatch, Part


def reshuffled(n_data: int, size: int) -> Minibatch:
    return of_permutations(n_data, size, n_data // size, lambda number: number)


def of_permutations(n_data: int, size: int, length: int, place: Callable[[tf.Tensor], tf.Tensor]) -> Minibatch:
    """`length` minibatches from each permutation in turn; the k-th (int32) is the one at `place(k)` in it."""

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, None]:
        every = tf.constant(length, tf.uint32)
        begin = place(tf.bitcast(counters % every, tf.int32))[:, None] * size
        return stream.permutation(counters // every, begin + tf.range(size)[None], n_data), None

    return Minibatch(size, draw, scale=n_data / size, without_replacement=True, simple=True, independent=False)
