"""How the sticks and the components move, given counts: drawn exactly, or by a rule for the simplex.

Both are held as logarithms of Gamma draws: a component, or a stick as a pair, has the shares of these in their sum, and
so is Dirichlet distributed with the shapes of the Gammas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.simplex.rule import Numbers, Rule


class Both(NamedTuple):
    """Something of the sticks, [C, K, 2], and of the components, [C, K, d]."""

    sticks: tf.Tensor
    theta: tf.Tensor


def drawn(stream: Stream, iteration: tf.Tensor, shapes: Both) -> Both:
    """Logarithms of Gamma draws with these shapes."""
    sizes = [math.prod(x.shape[1:]) for x in shapes]
    flat = tf.concat([tf.reshape(x, [x.shape[0], -1]) for x in shapes], axis=1)
    made = tf.split(Numbers(stream, iteration, tf.range(sum(sizes))).log_gamma(flat), sizes, axis=1)
    return Both(*(tf.reshape(x, like.shape) for x, like in zip(made, shapes, strict=True)))


def moved_by(
    rule: Rule, stream: Stream, iteration: tf.Tensor, at: Both, prior: Both, counts: Both, h: Both, last: tf.Tensor
) -> Both:
    """One step of a rule from where they are; components behind the last that has observations are drawn anew.

    A number of the stream is used in one of the two, since for each component only one of them is kept.
    """
    sizes = [math.prod(x.shape[1:]) for x in prior]
    made = []
    for elements, x, a, c, step, anew in zip(
        tf.split(tf.range(sum(sizes)), sizes), at, prior, counts, h, drawn(stream, iteration, prior), strict=True
    ):
        by_rule = rule.step(Numbers(stream, iteration, elements), tf.exp(x), a, c, step)
        made.append(tf.where(upto(last, x), by_rule, anew))
    return Both(*made)


def upto(last: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Which components are not behind the last that has observations, [C, K, 1]."""
    return (tf.range(like.shape[1]) < last[:, None])[:, :, None]
