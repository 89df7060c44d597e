"""A subset of the observations in memory, which represents all of them."""

from __future__ import annotations

import numpy as np

from sgmcmc.core.checksum import checksum
from sgmcmc.core.executors import Workers
from sgmcmc.core.types import Tree
from sgmcmc.dataset.data import Data, Shards
from sgmcmc.dataset.layout import aligned_zeros, shared_tensor


class Some:
    """Observations of `data` at sorted `indices`, [m]; m is `size`."""

    in_memory = True
    workers: Workers | None = None
    shards: Shards | None = None

    def __init__(self, data: Data, indices: np.ndarray) -> None:
        self.size, self.layout, self.levels, self.indices = len(indices), data.layout, data.levels, indices
        self._words = aligned_zeros(self.size, self.layout.width)
        data.take(indices, self._words)

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Write the packed observations at `indices`, [k], to `out`, [k, width]."""
        np.take(self._words, indices, axis=0, out=out, mode="clip")

    def read(self, start: int, out: np.ndarray) -> None:
        """Write the packed observations from `start` on to `out`, [k, width]."""
        out[...] = self._words[start : start + len(out)]

    def checksum(self) -> str:
        """A checksum that is equal for equal data."""
        return checksum(self._words)


MOST_ELSEWHERE, BYTES_ELSEWHERE = 2**21, 2**28  # of a part of data on disk, which is read at random into memory


def most_of(data: Data) -> int:
    """The most observations that a part of the data should have, if it is not all of them."""
    return data.size if data.in_memory else max(1000, min(MOST_ELSEWHERE, BYTES_ELSEWHERE // data.layout.row_bytes))


def some_of(data: Data, size: int, seed: int) -> Data:
    """`size` observations, drawn without replacement.

    The result is `data` itself if it has no more.
    """
    if size >= data.size:
        return data
    rng = np.random.default_rng(seed)
    return Some(data, np.sort(rng.choice(data.size, size, replace=False)))


def some_rows(data: Data, size: int) -> Tree:
    """`size` evenly spaced observations, as tensors."""
    indices = np.linspace(0, data.size - 1, min(size, data.size)).astype(np.int64)
    words = aligned_zeros(len(indices), data.layout.width)
    data.take(indices, words)
    return data.layout.unpack(shared_tensor(words))
