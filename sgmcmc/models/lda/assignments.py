"""Gibbs sweeps over the topic assignments of the tokens, in pieces of equal length.

The K categories are divided into groups, about as many as a group has members. First a
group is drawn, then one of its members. This takes one pass over the products of weights.

    z_di | theta_d ~ Categorical(theta_dk phi_kw, for all topics k),    w the word of token i of document d
    theta_d | z ~ Dirichlet(alpha + n_d),                               n_dk the tokens of d that have topic k

The documents are independent given phi, and so are the tokens given theta, so all are
drawn at once. Expectations given the words are means over the second half of the sweeps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.random import Stream

LENGTH = 16  # tokens of a piece: most documents fill all but a part of their last one
AT_ONCE = 2**17  # numbers in a block, which fit into the cache


class Pieces(NamedTuple):
    """Blocks of pieces; those that are used come first."""

    words: tf.Tensor  # int32 [blocks, pieces, tokens], negative where there is no token
    documents: tf.Tensor  # int32 [blocks, pieces]: the document of each piece
    n_used: tf.Tensor  # int32: the number of blocks that have a token


def in_pieces(words: tf.Tensor, numbers_per_token: int) -> Pieces:
    """Pieces of the documents, int32 [n, longest], each its words padded with negative numbers."""
    n_documents, longest = words.shape
    length = min(LENGTH, longest)
    padded = tf.pad(words, [[0, 0], [0, -longest % length]], constant_values=-1)
    pieces = tf.reshape(padded, [n_documents, -1, length])
    each = pieces.shape[1]
    n_pieces = n_documents * each
    used = pieces[:, :, 0] >= 0
    n_of_document = tf.reduce_sum(tf.cast(used, tf.int32), axis=1)
    # Used pieces come in order of documents; the last place is for all unused ones.
    place = tf.cumsum(n_of_document, exclusive=True)[:, None] + tf.range(each)
    place = tf.reshape(tf.where(used, place, n_pieces), [n_pieces, 1])
    n_at_once = max(1, min(AT_ONCE // (length * numbers_per_token), n_pieces))
    blocks = -(-n_pieces // n_at_once)
    none = tf.fill([max(blocks * n_at_once, n_pieces + 1)], n_pieces)
    order = tf.tensor_scatter_nd_update(none, place, tf.range(n_pieces))[: blocks * n_at_once]
    with_none = tf.pad(tf.reshape(pieces, [n_pieces, length]), [[0, 1], [0, 0]], constant_values=-1)
    return Pieces(
        tf.reshape(tf.gather(with_none, order), [blocks, n_at_once, length]),
        tf.reshape(tf.minimum(order, n_pieces - 1) // each, [blocks, n_at_once]),
        (tf.reduce_sum(n_of_document) + n_at_once - 1) // n_at_once,
    )


LANES = 8  # float32 numbers that a processor adds at once; the number of groups is a multiple


def grouped(weights: tf.Tensor) -> tf.Tensor:
    """Weights [..., K] in groups, [..., members, groups], with zeros at the end."""
    n = weights.shape[-1]
    groups = LANES * max(1, round(math.sqrt(n) / LANES))
    members = -(-n // groups)
    before = [[0, 0]] * (len(weights.shape) - 1)
    padded = tf.pad(weights, [*before, [0, groups * members - n]])
    return tf.reshape(padded, [*weights.shape[:-1], members, groups])


def drawn(of_words: tf.Tensor, words: tf.Tensor, of_rows: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """A category for each token, int32 [rows, tokens], in proportion to the product of two weights.

    The weights are those of its word, [V, members, groups], and of its row, [rows, members, groups]. A category of
    weight 0 is never drawn if another has positive weight. Words are from 0 to V - 1, uniforms on [0, 1].
    """
    n_rows, n_tokens = words.shape
    _, members, groups = of_words.shape
    n, size = n_rows * n_tokens, members * groups
    products = tf.gather(of_words, words) * of_rows[:, None]
    sums = _running_sums(tf.reshape(tf.reduce_sum(products, axis=2), [n, groups]))
    group, rest = _place(sums, tf.reshape(uniforms, [n]) * sums[:, -1])
    # From the tables, since the products would have to be stored.
    of_group, rows = group[:, None] + groups * tf.range(members), tf.repeat(tf.range(n_rows), n_tokens)
    own = tf.gather(tf.reshape(of_words, [-1]), tf.reshape(words, [n, 1]) * size + of_group)
    shared = tf.gather(tf.reshape(of_rows, [-1]), rows[:, None] * size + of_group)
    member, _ = _place(_running_sums(own * shared), rest)
    return tf.reshape(member * groups + group, [n_rows, n_tokens])


def _running_sums(weights: tf.Tensor) -> tf.Tensor:
    """Running sums along the rows of weights [n, m], by a matrix product, since XLA's cumsum is slow."""
    m = weights.shape[1]
    return tf.matmul(weights, tf.linalg.band_part(tf.ones([m, m], weights.dtype), 0, -1))


def _place(sums: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where running sums [n, m] reach x, [n], and how far x is into that place."""
    passed = (sums <= x[:, None]) & (sums < sums[:, -1:])
    before = tf.reduce_max(tf.where(passed, sums, 0.0), axis=1)
    return tf.reduce_sum(tf.cast(passed, tf.int32), axis=1), x - before


LEAST_SHARE = 1e-30  # of a topic in a document: smaller products underflow in float32


class Expected(NamedTuple):
    counts: tf.Tensor  # [K, V]: the tokens of each word that have each topic
    shares: tf.Tensor  # [n, K]: the mean of theta


def expected(
    words: tf.Tensor, topics: tf.Tensor, prior: float | tf.Tensor, sweeps: int | tf.Tensor, seed: tf.Tensor
) -> Expected:
    """Means over the second half of the sweeps, given topics [K, V], for programs that XLA compiles.

    `words`, int32 [n, longest], has the tokens of each document, padded with negative numbers; `prior` is alpha. A
    word with probability 0 in all topics is treated as equally probable in all. The seed is int32 [2].
    """
    n_documents = words.shape[0]
    n_topics, n_words = topics.shape
    table = _relative_weights(tf.cast(topics, tf.float32))
    groups, members = table.shape[1:]
    pieces = in_pieces(words, groups * members)
    _, n_pieces, length = pieces.words.shape
    stream = Stream(tf.bitcast(seed, tf.uint32)[None])
    n_kept, zero = sweeps - sweeps // 2, tf.constant(0)
    lengths = tf.reduce_sum(tf.cast(words >= 0, tf.float32), axis=1, keepdims=True)

    def sweep(s: tf.Tensor, theta: tf.Tensor, counts: tf.Tensor, shares: tf.Tensor) -> tuple:
        kept = s >= sweeps - n_kept

        def block(b: tf.Tensor, of_documents: tf.Tensor, counts: tf.Tensor) -> tuple:
            in_block, documents = pieces.words[b], pieces.documents[b]
            there = tf.reshape(tf.cast(in_block >= 0, tf.float32), [-1])
            in_block = tf.maximum(in_block, 0)
            uniforms = _uniforms(stream, 2 * s, b, n_pieces * length)
            weights = grouped(tf.gather(theta, documents))
            topic = drawn(table, in_block, weights, tf.reshape(uniforms, [n_pieces, length]))
            of_documents = _added(of_documents, tf.broadcast_to(documents[:, None], topic.shape), topic, there)
            counted = tf.cast(there, tf.int32) * tf.cast(kept, tf.int32)
            return b + 1, of_documents, _added(counts, in_block, topic, counted)

        none = tf.zeros([n_documents, n_topics])
        _, of_documents, counts = tf.while_loop(lambda b, *_: b < pieces.n_used, block, (zero, none, counts))
        parameters = of_documents + prior
        shares += tf.cast(kept, tf.float32) * parameters / (lengths + n_topics * prior)
        return s + 1, _dirichlet(stream, 2 * s + 1, parameters), counts, shares

    equal = tf.fill([n_documents, n_topics], 1 / n_topics)
    # In int32, since float32 could not count beyond 2^24 occurrences of a word.
    start = (zero, equal, tf.zeros([n_words, n_topics], tf.int32), tf.zeros([n_documents, n_topics]))
    _, _, counts, shares = tf.while_loop(lambda s, *_: s < sweeps, sweep, start)
    n = tf.cast(n_kept, tf.float32)
    means = tf.cast(tf.transpose(counts), topics.dtype) / tf.cast(n_kept, topics.dtype)
    return Expected(means, tf.cast(shares / n, topics.dtype))


def _relative_weights(topics: tf.Tensor) -> tf.Tensor:
    """phi of each word relative to its largest value, so rare words do not underflow."""
    by_word = tf.transpose(topics)
    largest = tf.reduce_max(by_word, axis=1, keepdims=True)
    return grouped(tf.where(largest > 0, by_word / largest, tf.ones_like(by_word)))


def _uniforms(stream: Stream, counter: tf.Tensor, block: tf.Tensor, n: int) -> tf.Tensor:
    high, _ = stream.bits(counter[None], block * n + tf.range(n))
    return (tf.cast(tf.bitwise.right_shift(high[0, 0], tf.constant(9, tf.uint32)), tf.float32) + 0.5) * 2.0**-23


def _dirichlet(stream: Stream, counter: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
    n, k = parameters.shape
    log_gamma = stream.log_gamma(counter[None], tf.range(n * k), tf.reshape(parameters, [1, 1, n * k]))
    return tf.maximum(tf.nn.softmax(tf.reshape(log_gamma, [n, k]), axis=1), LEAST_SHARE)


def _added(counts: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, what: tf.Tensor) -> tf.Tensor:
    places = tf.stack([tf.reshape(rows, [-1]), tf.reshape(columns, [-1])], axis=1)
    return tf.tensor_scatter_nd_add(counts, places, what)
