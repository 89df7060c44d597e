"""Minibatches that are the parts, in order, of a fresh random permutation of the data in every epoch.

An epoch is R = floor(N/n) minibatches, so each observation is seen at most once in it; the N - R n that are left over
at the end of the permutation are left out of that epoch, others in the next. All minibatches thus have n observations
of weight N/n, and each by itself is a uniform sample without replacement: the estimate of the gradient is unbiased. A
shorter last minibatch would need a weight and a program of its own.

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
        begin = tf.bitcast(counters % length, tf.int32)[:, None] * size
        return stream.permutation(counters // length, begin + tf.range(size)[None], n_data), None

    return Minibatch(size, draw, scale=n_data / size, without_replacement=True)
