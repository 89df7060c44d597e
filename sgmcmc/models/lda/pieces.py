"""Documents cut into pieces of equal length, so the time depends on their tokens."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

LENGTH = 16  # tokens of a piece: most documents fill all but a part of their last one
AT_ONCE = 2**17  # numbers in a block, which fit into the cache


class Pieces(NamedTuple):
    """Blocks of pieces; those that are used come first."""

    words: tf.Tensor  # int32 [blocks, pieces, tokens], negative where there is no token
    documents: tf.Tensor  # int32 [blocks, pieces]: the document of each piece
    n_used: tf.Tensor  # int32: the number of blocks that have a token


def in_pieces(words: tf.Tensor, numbers_per_token: int) -> Pieces:
    """Pieces of the documents, int32 [n, longest], each its words and then negative numbers."""
    n_documents, longest = words.shape
    length = min(LENGTH, longest)
    padded = tf.pad(words, [[0, 0], [0, -longest % length]], constant_values=-1)
    pieces = tf.reshape(padded, [n_documents, -1, length])
    each = pieces.shape[1]
    n_pieces = n_documents * each
    used = pieces[:, :, 0] >= 0
    n_of_document = tf.reduce_sum(tf.cast(used, tf.int32), axis=1)
    # Those of one document after those of another; the last place is for all that are unused.
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
