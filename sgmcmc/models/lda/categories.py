"""Draws of categories for many tokens at once, each from one uniform number.

The K categories are divided into groups of about sqrt(K). First a group is drawn, then one
of its members. This takes one pass over the products of weights.
"""

from __future__ import annotations

import math

import tensorflow as tf


def grouped(weights: tf.Tensor) -> tf.Tensor:
    """Weights [..., K] in groups, [..., groups, members], with zeros at the end."""
    n = weights.shape[-1]
    groups = math.isqrt(n - 1) + 1
    members = -(-n // groups)
    before = [[0, 0]] * (len(weights.shape) - 1)
    padded = tf.pad(weights, [*before, [0, groups * members - n]])
    return tf.reshape(padded, [*weights.shape[:-1], groups, members])


def drawn(of_tokens: tf.Tensor, of_rows: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """A category for each token, in proportion to the product of its own weights and those of its row.

    Parameters
    ----------
    of_tokens : tf.Tensor
        [rows, tokens, groups, members].
    of_rows : tf.Tensor
        [rows, groups, members].
    uniforms : tf.Tensor
        On [0, 1], [rows, tokens].

    Returns
    -------
    tf.Tensor
        int32 [rows, tokens]. A category of weight 0 is never drawn where another has a positive one.
    """
    n_rows, n_tokens, groups, members = of_tokens.shape
    n = n_rows * n_tokens
    sums = tf.reshape(tf.reduce_sum(of_tokens * of_rows[:, None], axis=3), [n, groups])
    group, rest = _place(sums, tf.reshape(uniforms, [n]))
    rows = tf.repeat(tf.range(n_rows), n_tokens)
    own = tf.gather(tf.reshape(of_tokens, [n * groups, members]), tf.range(n) * groups + group)
    shared = tf.gather(tf.reshape(of_rows, [n_rows * groups, members]), rows * groups + group)
    member, _ = _place(own * shared, rest)
    return tf.reshape(group * members + member, [n_rows, n_tokens])


def _place(weights: tf.Tensor, share: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where the running sum of weights [n, m] reaches this share, and how far into it."""
    m = weights.shape[1]
    sums = tf.matmul(weights, tf.linalg.band_part(tf.ones([m, m], weights.dtype), 0, -1))
    x = (share * sums[:, -1])[:, None]
    passed = (sums <= x) & (sums < sums[:, -1:])
    place = tf.reduce_sum(tf.cast(passed, tf.int32), axis=1)
    before = tf.reduce_sum(tf.where(passed, weights, 0.0), axis=1)
    weight = tf.reduce_sum(tf.where(tf.range(m) == place[:, None], weights, 0.0), axis=1)
    return place, tf.clip_by_value((x[:, 0] - before) / weight, 0.0, 1.0)
