"""Rows of parameters and of estimators' tables: gathered, and put back.

An estimate sees the rows of its minibatch in place of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from sgmcmc.core import xla
from sgmcmc.core.trees import Tree
from sgmcmc.core.xla import written
from sgmcmc.dynamics import Memory
from sgmcmc.gradients import FIRST


def has_rows(theta: tf.Tensor, memory: tf.Tensor) -> bool:
    """Whether a memory has the shape of the parameter, and so moves with its rows."""
    return memory.shape == theta.shape


def take(theta: tf.Tensor, memory: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The rows [C, k, ...] of theta or of a memory of its shape.

    Any other memory is returned as a whole.
    """
    return tf.gather(memory, rows, batch_dims=1) if has_rows(theta, memory) else memory


def take_memory(theta: tf.Tensor, memory: Memory, rows: tf.Tensor) -> Memory:
    """The memory of a dynamics; entries of theta's shape are cut to the rows."""
    return {key: take(theta, value, rows) for key, value in memory.items()}


def put(whole: tf.Tensor, rows: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """Write the rows back.

    Occurrences of the same row are equal, so their order does not matter.
    """
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


class Tables:
    """The tables {name: width} of C chains over N observations."""

    def __init__(self, widths: Mapping[str, int], n_chains: int, n_data: int, dtype: tf.DType) -> None:
        self._widths, self._n_chains, self._n_data, self._dtype = widths, n_chains, n_data, dtype

    def begun(self, constants: Tree) -> Memory:
        """Each table before the first estimate, [C, N, width]."""
        tables = {}
        for name, width in self._widths.items():
            first = constants.get(FIRST, {}).get(name)
            table = tf.zeros([self._n_data, width], self._dtype) if first is None else first
            tables[name] = tf.tile(table[None], [self._n_chains, 1, 1])
        return tables

    def rows_of_batch(self, memory: Memory, indices: tf.Tensor) -> Memory:
        """The memory with the rows of a minibatch in place of the tables; indices are [C, n], or [1, n] if shared."""
        if not self._widths:
            return memory
        places = self._places(indices)
        return memory | self._each(lambda name: of_table(memory[name], places))

    def written(self, memory: Memory, indices: tf.Tensor, before: Memory, after: Memory) -> Memory:
        """The memory after an estimate, which was given `before` and returned `after`."""
        if not self._widths:
            return after
        places = self._places(indices)
        return after | self._each(lambda name: put(memory[name], places, xla.after(before[name], after[name])))

    def _places(self, indices: tf.Tensor) -> tf.Tensor:
        return tf.broadcast_to(indices, [self._n_chains, indices.shape[1]])

    def _each(self, table: Callable[[str], tf.Tensor]) -> Memory:
        return {name: table(name) for name in self._widths}
