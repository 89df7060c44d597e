"""How the sticks and the components move, given counts: drawn exactly, or by a rule for the simplex.

Both are stored as logarithms of Gamma draws. Divided by their sum, the draws of a component,
or the pair of a stick, have a Dirichlet distribution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.simplex.rule import Numbers, Rule, expected_counts


class Both(NamedTuple):
    """An array for the sticks, [C, K, 2], and one for the components, [C, K, d]."""

    sticks: tf.Tensor
    theta: tf.Tensor


def drawn(stream: Stream, iteration: tf.Tensor, shapes: Both) -> Both:
    """Logarithms of Gamma draws with these shapes."""
    flat = _joined(shapes)
    return _split(Numbers(stream, iteration, tf.range(flat.shape[1])).log_gamma(flat), shapes)


def moved_by(
    rule: Rule, stream: Stream, iteration: tf.Tensor, at: Both, prior: Both, counts: Both, h: Both, last: tf.Tensor
) -> Both:
    """One step of a rule; components behind the last occupied one are drawn from the prior.

    Both use the same random numbers, but for each component only one result is kept.
    """
    theta = Both(*(tf.exp(x) for x in at))
    # By softmax: a whole component may be too small for a float.
    expected = Both(*(expected_counts(tf.nn.softmax(x), c) for x, c in zip(at, counts, strict=True)))
    steps = Both(*(tf.broadcast_to(step, x.shape) for step, x in zip(h, prior, strict=True)))
    flat = [_joined(x) for x in (theta, prior, counts, expected, steps)]
    by_rule = _split(rule.step(Numbers(stream, iteration, tf.range(flat[0].shape[1])), *flat), prior)
    anew = drawn(stream, iteration, prior)
    return Both(*(tf.where(upto(last, x), x, y) for x, y in zip(by_rule, anew, strict=True)))


def scaled(rule: Rule, at: Both, prior: Both, counts: Both) -> Both:
    """The same sticks and components, with the sums with which a chain of this rule begins."""
    return Both(
        *(
            tf.nn.log_softmax(x) + tf.math.log(rule.total(a, tf.reduce_sum(c, axis=-1)))[..., None]
            for x, a, c in zip(at, prior, counts, strict=True)
        )
    )


def _joined(both: Both) -> tf.Tensor:
    return tf.concat([tf.reshape(x, [x.shape[0], -1]) for x in both], axis=1)


def _split(flat: tf.Tensor, like: Both) -> Both:
    parts = tf.split(flat, [math.prod(x.shape[1:]) for x in like], axis=1)
    return Both(*(tf.reshape(part, x.shape) for part, x in zip(parts, like, strict=True)))


def upto(last: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Which components are up to the last occupied one, [C, K, 1]."""
    return (tf.range(like.shape[1]) < last[:, None])[:, :, None]
