"""Minibatches of an epoch forwards, then backwards (Paulin, Whalley, Chada & Leimkuhler 2024).

A random permutation has R = floor(N/n) minibatches, as in `reshuffled`. They come in the
order 1, ..., R, R, ..., 1, and then those of a fresh permutation. What the noise of a
minibatch does to the chain in first order is then undone within 2R gradients, and so is
what depends on the order of two minibatches.
"""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.types import Minibatch, Part, Tree
from sgmcmc.minibatch.reshuffled import of_permutation


def symmetric(n_data: int, size: int) -> Minibatch:
    per_epoch = n_data // size

    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, None]:
        length = tf.constant(2 * per_epoch, tf.uint32)
        place = tf.bitcast(counters % length, tf.int32)
        return of_permutation(stream, counters // length, tf.minimum(place, 2 * per_epoch - 1 - place), n_data, size)

    return Minibatch(size, draw, scale=n_data / size, without_replacement=True, simple=True, independent=False)
