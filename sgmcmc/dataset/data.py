"""The interface of data, in memory or elsewhere."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sgmcmc.dataset.layout import Layout
from sgmcmc.dataset.tables import Level

BLOCK_BYTES = 2**24


class Data(Protocol):
    """N observations that can be fetched as packed rows; `InMemory` or `Elsewhere`."""

    size: int
    layout: Layout
    levels: dict[str, list[Level]]
    in_memory: bool  # whether reading is no more than copying

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Write the packed observations at `indices`, [m], to `out`, [m, width]."""

    def read(self, start: int, out: np.ndarray) -> None:
        """Write the packed observations from `start` on to `out`, [m, width]."""

    def checksum(self) -> str:
        """A checksum that is equal for equal data."""


def block_size(data: Data) -> int:
    """How many observations a pass over all data takes at a time, so that its memory is bounded."""
    return int(min(data.size, max(256, BLOCK_BYTES // data.layout.row_bytes)))
