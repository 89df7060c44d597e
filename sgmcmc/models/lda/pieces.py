"""Documents cut into pieces of equal length, so the time depends on their tokens."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

LENGTH = 32  # tokens of a piece
AT_ONCE = 2**17  # numbers in a block, which fit into the cache


class Pieces(NamedTuple):
    """Blocks of pieces; those that are used come first."""

    words: tf.Tensor  # int32 [blocks, pieces, tokens], negative where there is no token
    documents: tf.Tensor  # int32 [blocks, pieces]: the document of each piece
    n_used: tf.Tensor  # int32: the number of blocks that have a token


def in_pieces(words: tf.Tensor, numbers_per_token: int) -> Pieces:
    """Pieces of the documents, int32 [n, longest], padded with negative numbers."""
    n_documents, longest = words.shape
    length = min(LENGTH, longest)
    padded = tf.pad(words, [[0, 0], [0, -longest % length]], constant_values=-1)
    pieces = tf.reshape(padded, [-1, length])
    n_pieces = pieces.shape[0]
    used = pieces[:, 0] >= 0
    order = tf.argsort(tf.cast(used, tf.int32), direction="DESCENDING", stable=True)
    n_at_once = max(1, min(AT_ONCE // (length * numbers_per_token), n_pieces))
    rest = -n_pieces % n_at_once
    ordered = tf.pad(tf.gather(pieces, order), [[0, rest], [0, 0]], constant_values=-1)
    documents = tf.pad(order // (n_pieces // n_documents), [[0, rest]])
    n_used = tf.reduce_sum(tf.cast(used, tf.int32))
    return Pieces(
        tf.reshape(ordered, [-1, n_at_once, length]),
        tf.reshape(documents, [-1, n_at_once]),
        (n_used + n_at_once - 1) // n_at_once,
    )
