"""Data: N observations that can be fetched by index, in memory or elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from sgmcmc.dataset.layout import Layout
from sgmcmc.dataset.tables import Level
from sgmcmc.parallel.executors import Workers

BLOCK_BYTES = 2**24


class Shards(NamedTuple):
    """The sizes of the shards, each of consecutive observations, and how many iterations a chain stays on one."""

    sizes: list[int]
    hop: int

    @property
    def starts(self) -> np.ndarray:
        """The first observation of each shard."""
        return np.cumsum(self.sizes) - self.sizes


class Data(Protocol):
    """N observations that can be fetched as packed rows, such as `InMemory` or `Elsewhere`."""

    size: int
    layout: Layout
    levels: dict[str, list[Level]]
    in_memory: bool  # whether reading is only copying

    @property
    def workers(self) -> Workers | None:
        """The workers that make passes over all observations, if this process does not."""

    @property
    def shards(self) -> Shards | None:
        """The shards, if chains use one after the other."""

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Write the packed observations at `indices`, [m], to `out`, [m, width]."""

    def read(self, start: int, out: np.ndarray) -> None:
        """Write the packed observations from `start` on to `out`, [m, width]."""

    def checksum(self) -> str:
        """A checksum that is equal for equal data."""


def checksum_of(parts: Sequence[Data]) -> str:
    """The combined checksum of several data sets."""
    return hashlib.sha256(" ".join(part.checksum() for part in parts).encode()).hexdigest()[:16]


def block_size(data: Data) -> int:
    """How many observations a pass over all data reads at a time, to bound its memory."""
    return int(min(data.size, max(256, BLOCK_BYTES // data.layout.row_bytes)))


AnyData = TypeVar("AnyData", bound=Data)


def by_workers(data: AnyData, workers: Workers | None) -> AnyData:
    """The same observations, with passes made by workers."""
    same = object.__new__(type(data))
    vars(same).update(vars(data), workers=workers)
    return same
