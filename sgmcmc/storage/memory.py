"""Rows kept as NumPy arrays in memory."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Tree


class Memory:
    """Arrays for `n_rows` rows with these specs, {group: {name: [C, ...]}}, and the leaves of the state after them."""

    def __init__(self, n_rows: int, specs: Tree, leaves: list[tf.Tensor]) -> None:
        def empty(spec: tf.TensorSpec) -> np.ndarray:
            return np.empty((spec.shape[0], n_rows, *spec.shape[1:]), spec.dtype.as_numpy_dtype)

        self._arrays = {group: {name: empty(spec) for name, spec in of.items()} for group, of in specs.items()}
        self._by_row = [array.swapaxes(0, 1) for array in tf.nest.flatten(self._arrays)]
        self.stored, self.leaves = 0, leaves

    def append(self, rows: list[np.ndarray], count: int) -> None:
        """Store the first `count` rows, [>= count, C, ...], by group and name."""
        for array, row in zip(self._by_row, rows, strict=True):
            array[self.stored : self.stored + count] = row[:count]
        self.stored += count

    def reached(self, iteration: int, leaves: list[tf.Tensor]) -> None:
        self.leaves = leaves

    def close(self) -> None:
        pass

    def commit(self) -> None:
        pass

    def result(self) -> Tree:
        return tf.nest.map_structure(lambda array: array[:, : self.stored], self._arrays)
