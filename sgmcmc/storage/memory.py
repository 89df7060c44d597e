"""Draws kept as NumPy arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Memory:
    """Room for `n_draws` draws, filled block by block.

    Parameters
    ----------
    n_draws : int
    specs : mapping of str to (shape, dtype)
        What one draw is: {name: ([...], dtype)}.
    """

    def __init__(self, n_draws: int, specs: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        self._arrays = {name: np.empty((n_draws, *shape), dtype) for name, (shape, dtype) in specs.items()}
        self.stored = 0

    def append(self, block: Mapping[str, np.ndarray], count: int) -> None:
        """Keep the first `count` rows of a block {name: [>= count, ...]}."""
        for name, array in self._arrays.items():
            array[self.stored : self.stored + count] = block[name][:count]
        self.stored += count

    def result(self) -> dict[str, np.ndarray]:
        """What has been stored so far, {name: [stored, ...]}."""
        return {name: array[: self.stored] for name, array in self._arrays.items()}
