"""Minibatches in which all observations are equally likely, with the weight N/n."""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.core.trees import Tree
from sgmcmc.minibatch import Minibatch, Part


def without_replacement(n_data: int, size: int) -> Minibatch:
    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, None]:
        return stream.permutation(counters, (part * size + tf.range(size))[None], n_data), None

    return Minibatch(size, draw, scale=n_data / size, without_replacement=True, simple=True)


def with_replacement(n_data: int, size: int) -> Minibatch:
    def draw(stream: Stream, counters: tf.Tensor, constants: Tree, part: Part = 0) -> tuple[tf.Tensor, None]:
        return stream.integers(counters, part * size + tf.range(size), n_data), None

    return Minibatch(size, draw, scale=n_data / size, simple=True)
