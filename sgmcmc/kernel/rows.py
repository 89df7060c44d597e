"""Rows of parameters and of tables: gathered, and put back."""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.xla import written
from sgmcmc.dynamics import Memory


def has_rows(theta: tf.Tensor, memory: tf.Tensor) -> bool:
    """Whether a memory has the shape of the parameter, and so moves with its rows."""
    return memory.shape == theta.shape


def take(theta: tf.Tensor, memory: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The rows [C, k, ...] of theta or of a memory of its shape; any other memory as a whole."""
    return tf.gather(memory, rows, batch_dims=1) if has_rows(theta, memory) else memory


def take_memory(theta: tf.Tensor, memory: Memory, rows: tf.Tensor) -> Memory:
    return {key: take(theta, value, rows) for key, value in memory.items()}


def put(whole: tf.Tensor, rows: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """Write the rows back. Occurrences of the same row are equal, so their order does not matter."""
    flat, positions = _flat(whole, rows)
    part = tf.reshape(part, [-1, *whole.shape[2:]])
    return tf.reshape(tf.tensor_scatter_nd_update(flat, tf.reshape(positions, [-1, 1]), part), whole.shape)


def of_table(table: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The rows [C, k, ...] of a table [C, N, ...], in time that does not depend on N."""
    flat, positions = _flat(table, rows)
    rows_of = tf.TensorSpec([*positions.shape, *flat.shape[1:]], flat.dtype)
    # Without this, XLA might read some rows after the table is overwritten, and would have to copy it.
    return written(lambda: {"rows": tf.gather(flat, positions)}, positions[0, 0] < 0, {"rows": rows_of})["rows"]


def _flat(whole: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows of all chains along one axis, and the positions of `rows` in it."""
    n_chains, n_rows = whole.shape[:2]
    flat = tf.reshape(whole, [n_chains * n_rows, *whole.shape[2:]])
    return flat, tf.range(n_chains)[:, None] * n_rows + tf.cast(rows, tf.int32)
