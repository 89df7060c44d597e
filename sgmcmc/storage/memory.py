"""Rows kept as NumPy arrays in memory."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Tree


class Memory:
    """Arrays for `n_rows` rows, filled block by block.

    Parameters
    ----------
    n_rows : int
    specs : {group: {name: tf.TensorSpec [C, ...]}}
        The arrays of one row.
    leaves : list of tf.Tensor
        The leaves of the state before the first row.
    """

    def __init__(self, n_rows: int, specs: Tree, leaves: list[tf.Tensor]) -> None:
        self._arrays = {
            group: {
                name: np.empty((spec.shape[0], n_rows, *spec.shape[1:]), spec.dtype.as_numpy_dtype)
                for name, spec in members.items()
            }
            for group, members in specs.items()
        }
        self._by_row = [array.swapaxes(0, 1) for array in tf.nest.flatten(self._arrays)]
        self.stored, self.leaves = 0, leaves

    def append(self, rows: list[np.ndarray], count: int) -> None:
        """Store the first `count` rows, [>= count, C, ...], by group and name."""
        for array, row in zip(self._by_row, rows, strict=True):
            array[self.stored : self.stored + count] = row[:count]
        self.stored += count

    def reached(self, iteration: int, leaves: list[tf.Tensor]) -> None:
        """Record the state."""
        self.leaves = leaves

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def commit(self) -> None:
        """Do nothing: all rows are stored already."""

    def result(self) -> Tree:
        """The rows stored so far, {group: {name: [C, stored, ...]}}."""
        return {
            group: {name: array[:, : self.stored] for name, array in members.items()}
            for group, members in self._arrays.items()
        }
