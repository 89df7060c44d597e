"""The tables of an estimator, with a row for each observation, beside the rest of its memory.

An estimate sees the rows of its minibatch in place of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from sgmcmc.core import xla
from sgmcmc.core.rows import of_table, put
from sgmcmc.core.types import FIRST, Memory, Tree


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
