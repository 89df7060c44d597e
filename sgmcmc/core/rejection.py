"""Rejection sampling for many elements at once: only rejected elements are proposed again.

The accepted value of an element depends on its own random numbers alone, not on how many
others were rejected.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

REFUSED = np.nan
FEW = 4096  # so few elements are all proposed again: cheaper than to find the rejected ones
SHARE = 16  # one in so many elements fits into the queue


def drawn(
    propose: Callable[..., tf.Tensor], param: tf.Tensor, quick: Callable[..., tf.Tensor] | None = None
) -> tf.Tensor:
    """The first accepted proposal of each element.

    Parameters
    ----------
    propose : callable
        ``propose(attempt, at, param)``: the proposals of this attempt, `REFUSED` where they are rejected. `at`, int32
        [m], has the elements in C order, and `param`, [m], their parameters. If `at` is None, the proposals are for all
        elements, in their shape.
    param : tf.Tensor
        The parameters of the distributions, of any shape.
    quick : callable, optional
        A cheaper `propose` for attempt 0. Every value that it accepts is the same as by `propose`.

    Returns
    -------
    tf.Tensor
        Of the same shape. (A reshape between the words of the generator and their use would make XLA's code grow
        exponentially, so shapes are kept.)
    """
    size = param.shape.num_elements()
    if size <= FEW:
        none = tf.fill(param.shape, tf.constant(REFUSED, param.dtype))
        return _accepted(lambda attempt: propose(attempt, None, param), none, 0)
    value = tf.reshape((quick or propose)(tf.constant(0), None, param), [-1])
    flat, queue = tf.reshape(param, [-1]), max(size // SHARE, FEW)

    def again(value: tf.Tensor) -> tuple[tf.Tensor]:
        at = _first_refused(value, queue)
        place = tf.minimum(at, size - 1)
        of_queue = tf.gather(flat, place)
        some = tf.where(at < size, tf.constant(REFUSED, value.dtype), tf.zeros([queue], value.dtype))
        some = _accepted(lambda attempt: propose(attempt, place, of_queue), some, 0 if quick else 1)
        longer = tf.concat([value, tf.zeros([1], value.dtype)], axis=0)  # the last place is for unused slots
        return (tf.tensor_scatter_nd_update(longer, at[:, None], some)[:size],)

    (value,) = tf.while_loop(lambda value: tf.reduce_any(tf.math.is_nan(value)), again, (value,))
    return tf.reshape(value, param.shape)


def _accepted(propose: Callable[[tf.Tensor], tf.Tensor], value: tf.Tensor, attempt: int) -> tf.Tensor:
    """The values, with further attempts until none is rejected."""
    _, value = tf.while_loop(
        lambda attempt, value: tf.reduce_any(tf.math.is_nan(value)),
        lambda attempt, value: (attempt + 1, tf.where(tf.math.is_nan(value), propose(attempt), value)),
        (tf.constant(attempt), value),
    )
    return value


def _first_refused(value: tf.Tensor, n: int) -> tf.Tensor:
    """The places of the first n rejected elements, int32 [n], padded with the size."""
    size = value.shape[0]
    refused = tf.math.is_nan(value)
    rank = _running_count(refused)
    slot = tf.where(refused & (rank <= n), rank - 1, n)
    places = tf.tensor_scatter_nd_update(tf.fill([n + 1], size), slot[:, None], tf.range(size))
    return places[:n]


def _running_count(flags: tf.Tensor) -> tf.Tensor:
    """The cumulative count, int32; by rows first, since XLA's cumsum is quadratic."""
    size, width = flags.shape[0], 64
    padded = tf.pad(tf.cast(flags, tf.float32), [[0, -size % width]])
    rows = tf.reshape(padded, [-1, width])
    within = tf.matmul(rows, tf.linalg.band_part(tf.ones([width, width]), 0, -1))  # exact: whole numbers up to 64
    totals = tf.cast(within[:, -1], tf.int32)
    before = tf.cumsum(totals, exclusive=True)
    return tf.reshape(tf.cast(within, tf.int32) + before[:, None], [-1])[:size]
