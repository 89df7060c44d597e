"""Gibbs sweeps over the topic assignments z of the tokens of some documents, given the topics phi.

    z_di | theta_d ~ Categorical(theta_dk phi_kw, for all topics k),    w the word of token i of document d
    theta_d | z ~ Dirichlet(alpha + n_d),                               n_dk the tokens of d that have topic k

The documents are independent given phi, and so are the tokens given theta, so all are
drawn at once. Expectations given the words are means over the second half of the sweeps.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.random import Stream
from sgmcmc.models.lda.categories import drawn, grouped
from sgmcmc.models.lda.pieces import in_pieces

LEAST_SHARE = 1e-30  # of a topic in a document: float32 loses smaller products


class Expected(NamedTuple):
    """Expectations given the words and the topics."""

    counts: tf.Tensor  # [K, V]: the tokens of each word that have each topic
    shares: tf.Tensor  # [n, K]: the mean of theta


def expected(
    words: tf.Tensor, topics: tf.Tensor, prior: float | tf.Tensor, sweeps: int | tf.Tensor, seed: tf.Tensor
) -> Expected:
    """Means over the second half of the sweeps, for programs that XLA compiles.

    Parameters
    ----------
    words : tf.Tensor
        int32 [n, longest]: the tokens of each document, padded with negative numbers.
    topics : tf.Tensor
        [K, V], each a distribution over the words. A word with probability 0 in all topics is treated as equally
        probable in all.
    prior : float or tf.Tensor
        The parameter alpha of the symmetric Dirichlet distribution of theta.
    sweeps : int or tf.Tensor
        At least 1.
    seed : tf.Tensor
        int32 [2].
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
            of_document = tf.broadcast_to(documents[:, None], topic.shape)
            of_documents = _added(of_documents, of_document, topic, there)
            return (
                b + 1,
                of_documents,
                _added(counts, in_block, topic, tf.cast(there, tf.int32) * tf.cast(kept, tf.int32)),
            )

        none = tf.zeros([n_documents, n_topics])
        _, of_documents, counts = tf.while_loop(lambda b, *_: b < pieces.n_used, block, (zero, none, counts))
        parameters = of_documents + prior
        shares += tf.cast(kept, tf.float32) * parameters / (lengths + n_topics * prior)
        return s + 1, _dirichlet(stream, 2 * s + 1, parameters), counts, shares

    equal = tf.fill([n_documents, n_topics], 1 / n_topics)
    # In int32, since float32 would stop at 2^24 occurrences of a word.
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
