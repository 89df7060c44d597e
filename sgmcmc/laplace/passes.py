"""How much of the data the work before the first iteration has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np


class Passes:
    """The observations for which a derivative of the log likelihood was computed, with repeats.

    Parameters
    ----------
    n_data : int
        N, the observations of one pass.
    """

    def __init__(self, n_data: int) -> None:
        self._n_data, self._observations = n_data, Counter[str]()
        self.watch: Callable[[float], None] | None = None  # called with the passes for gradients so far
        self.refused: np.ndarray | None = None  # the last position at which the log posterior was not finite

    def count(self, derivative: str, observations: int) -> None:
        """Count a pass over these observations, for this derivative."""
        self._observations[derivative] += observations
        if self.watch is not None:
            self.watch(self.of("first", "directed"))

    def of(self, *derivatives: str) -> float:
        """The passes over all N observations for these derivatives together."""
        return sum(self._observations[name] for name in derivatives) / self._n_data
