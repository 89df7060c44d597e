"""How the sticks and the components move, given counts: drawn exactly, or by a rule for the simplex.

Both are held as logarithms of Gamma draws: a component, or a stick as a pair, has the shares of these in their sum, and
so is Dirichlet distributed with the shapes of the Gammas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.simplex.rule import Numbers, Rule, expected_counts


class Both(NamedTuple):
    """Something of the sticks, [C, K, 2], and of the components, [C, K, d]."""

    sticks: tf.Tensor
    theta: tf.Tensor


def joined(both: Both) -> tf.Tensor:
    """Of each chain all elements in a row, [C, m]."""
    return tf.concat([tf.reshape(x, [x.shape[0], -1]) for x in both], axis=1)


def split(flat: tf.Tensor, like: Both) -> Both:
    """What was joined, in the shapes of these."""
    parts = tf.split(flat, [math.prod(x.shape[1:]) for x in like], axis=1)
    return Both(*(tf.reshape(part, x.shape) for part, x in zip(parts, like, strict=True)))


def numbers_of(stream: Stream, iteration: tf.Tensor, joined: tf.Tensor) -> Numbers:
    """The random numbers of an iteration, for as many elements as [C, m] has."""
    return Numbers(stream, iteration, tf.range(joined.shape[1]))


def drawn(stream: Stream, iteration: tf.Tensor, shapes: Both) -> Both:
    """Logarithms of Gamma draws with these shapes."""
    flat = joined(shapes)
    return split(numbers_of(stream, iteration, flat).log_gamma(flat), shapes)


def moved_by(
    rule: Rule, stream: Stream, iteration: tf.Tensor, at: Both, prior: Both, counts: Both, h: Both, last: tf.Tensor
) -> Both:
    """One step of a rule from where they are; components behind the last that has observations are drawn anew.

    A number of the stream is used in one of the two, since for each component only one of them is kept.
    """
    theta = Both(*(tf.exp(x) for x in at))
    expected = Both(*(expected_counts(x, c) for x, c in zip(theta, counts, strict=True)))
    steps = joined(Both(*(tf.fill(x.shape, step) for x, step in zip(at, h, strict=True))))
    flat = joined(theta)
    numbers = numbers_of(stream, iteration, flat)
    stepped = split(rule.step(numbers, flat, joined(prior), joined(counts), joined(expected), steps), at)
    anew = drawn(stream, iteration, prior)
    return Both(*(tf.where(upto(last, x), x, new) for x, new in zip(stepped, anew, strict=True)))


def upto(last: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Which components are not behind the last that has observations, [C, K, 1]."""
    return (tf.range(like.shape[1]) < last[:, None])[:, :, None]
