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
    chain_axis : bool, default False
        Whether a draw begins with a chain axis; chains then come first in the result.
    """

    def __init__(
        self, n_draws: int, specs: Mapping[str, tuple[tuple[int, ...], np.dtype]], chain_axis: bool = False
    ) -> None:
        self._draw_axis = int(chain_axis)
        self._arrays = {
            name: np.empty((*shape[: self._draw_axis], n_draws, *shape[self._draw_axis :]), dtype)
            for name, (shape, dtype) in specs.items()
        }
        self.stored = 0

    def append(self, block: Mapping[str, np.ndarray], count: int) -> None:
        """Keep the first `count` rows of a block {name: [>= count, ...]}."""
        for name, array in self._arrays.items():
            np.moveaxis(array, self._draw_axis, 0)[self.stored : self.stored + count] = block[name][:count]
        self.stored += count

    def result(self) -> dict[str, np.ndarray]:
        """What has been stored so far, {name: [stored, ...]}, or [C, stored, ...]."""
        stored = (slice(None),) * self._draw_axis + (slice(self.stored),)
        return {name: array[stored] for name, array in self._arrays.items()}
