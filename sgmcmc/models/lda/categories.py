"""Draws of categories for many tokens at once, each from one uniform number.

The K categories are divided into groups, about as many as a group has members. First a
group is drawn, then one of its members. This takes one pass over the products of weights.
"""

from __future__ import annotations

import math

import tensorflow as tf

LANES = 8  # float32 numbers that a processor adds at once, so that groups are a multiple of them


def grouped(weights: tf.Tensor) -> tf.Tensor:
    """Weights [..., K] in groups, [..., members, groups], with zeros at the end."""
    n = weights.shape[-1]
    groups = LANES * max(1, round(math.sqrt(n) / LANES))
    members = -(-n // groups)
    before = [[0, 0]] * (len(weights.shape) - 1)
    padded = tf.pad(weights, [*before, [0, groups * members - n]])
    return tf.reshape(padded, [*weights.shape[:-1], members, groups])


def drawn(of_words: tf.Tensor, words: tf.Tensor, of_rows: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """A category for each token, in proportion to the product of the weights of its word and of its row.

    Parameters
    ----------
    of_words : tf.Tensor
        [V, members, groups].
    words : tf.Tensor
        int32 [rows, tokens], from 0 to V - 1.
    of_rows : tf.Tensor
        [rows, members, groups].
    uniforms : tf.Tensor
        On [0, 1], [rows, tokens].

    Returns
    -------
    tf.Tensor
        int32 [rows, tokens]. A category of weight 0 is never drawn where another has a positive one.
    """
    n_rows, n_tokens = words.shape
    _, members, groups = of_words.shape
    n, size = n_rows * n_tokens, members * groups
    products = tf.gather(of_words, words) * of_rows[:, None]
    sums = _running_sums(tf.reshape(tf.reduce_sum(products, axis=2), [n, groups]))
    group, rest = _place(sums, tf.reshape(uniforms, [n]) * sums[:, -1])
    # From the tables, not from the products: these would have to be stored for it.
    of_group, rows = group[:, None] + groups * tf.range(members), tf.repeat(tf.range(n_rows), n_tokens)
    own = tf.gather(tf.reshape(of_words, [-1]), tf.reshape(words, [n, 1]) * size + of_group)
    shared = tf.gather(tf.reshape(of_rows, [-1]), rows[:, None] * size + of_group)
    member, _ = _place(_running_sums(own * shared), rest)
    return tf.reshape(member * groups + group, [n_rows, n_tokens])


def _running_sums(weights: tf.Tensor) -> tf.Tensor:
    """Along the rows of weights [n, m]; by a matrix, since XLA's cumsum is slow."""
    m = weights.shape[1]
    return tf.matmul(weights, tf.linalg.band_part(tf.ones([m, m], weights.dtype), 0, -1))


def _place(sums: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where running sums [n, m] reach x, [n], and how far x is into that place."""
    passed = (sums <= x[:, None]) & (sums < sums[:, -1:])
    before = tf.reduce_max(tf.where(passed, sums, 0.0), axis=1)
    return tf.reduce_sum(tf.cast(passed, tf.int32), axis=1), x - before
