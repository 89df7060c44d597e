"""Data that are packed into memory, as the only copy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sgmcmc.core.checksum import checksum
from sgmcmc.core.types import Tree
from sgmcmc.dataset.layout import Layout, aligned_zeros, shared_tensor
from sgmcmc.dataset.tables import Level


class InMemory:
    """Observations packed from ``{name: array [N, ...]}`` of 4- and 8-byte numbers; N is `size`.

    `levels` says for each entry of categories what its codes stand for.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], levels: Mapping[str, list[Level]] | None = None) -> None:
        self.size, self.levels = len(next(iter(arrays.values()))), dict(levels or {})
        self.layout = Layout({name: (array.dtype, array.shape[1:]) for name, array in arrays.items()})
        self._words = aligned_zeros(self.size, self.layout.width)
        for name, view in self.arrays().items():
            view[...] = arrays[name]
        self.rows = shared_tensor(self._words)  # [N, width], for programs that fetch by themselves

    def arrays(self) -> dict[str, np.ndarray]:
        """The entries as NumPy views of the packed memory, {name: [N, ...]}."""
        return self.layout.views(self._words)

    def checksum(self) -> str:
        """A checksum that is equal for equal data."""
        return checksum(self._words)

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Write the packed observations at `indices`, [m], to `out`, [m, width]."""
        # np.take copies whole rows and releases the GIL; indexing does neither.
        np.take(self._words, indices, axis=0, out=out, mode="clip")

    def read(self, start: int, out: np.ndarray) -> None:
        """Write the packed observations from `start` on to `out`, [m, width]."""
        out[...] = self._words[start : start + len(out)]

    def all(self) -> Tree:
        """All observations, as tensors."""
        return self.layout.unpack(self.rows)
