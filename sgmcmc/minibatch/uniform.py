"""Minibatches in which every observation is equally likely; each drawn one weighs N/n."""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.types import Minibatch


def without_replacement(n_data: int, size: int) -> Minibatch:
    """n distinct observations, all subsets equally likely."""

    def draw(stream: random.Stream, step: tf.Tensor, state: tuple) -> tuple[tf.Tensor, tuple, tuple]:
        return stream.distinct_integers(step, size, n_data), (), state

    return Minibatch(size, draw, scale=n_data / size)


def with_replacement(n_data: int, size: int) -> Minibatch:
    """n independent observations."""

    def draw(stream: random.Stream, step: tf.Tensor, state: tuple) -> tuple[tf.Tensor, tuple, tuple]:
        return stream.integers(step, size, n_data), (), state

    return Minibatch(size, draw, scale=n_data / size)
