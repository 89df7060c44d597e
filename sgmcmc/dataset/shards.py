"""Several shards as one data set: the observations of the first, then those of the second, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sgmcmc.dataset import Data, Shards, checksum_of
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.remote import RemoteShards


class Joined(Data):
    """The observations of several data sets with one layout, some of them not in memory."""

    shards: Shards

    def __init__(self, parts: Sequence[Data], shards: Shards) -> None:
        self.parts, self.shards, self.size = list(parts), shards, sum(shards.sizes)
        self.layout, self.levels = parts[0].layout, parts[0].levels
        self._starts = shards.starts

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        which = np.searchsorted(self._starts, indices, side="right") - 1
        for number in np.unique(which):
            at = np.flatnonzero(which == number)
            words = np.empty((len(at), out.shape[1]), out.dtype)
            self.parts[number].take(indices[at] - self._starts[number], words)
            out[at] = words

    def read(self, start: int, out: np.ndarray) -> None:
        stop = start + len(out)
        for part, first in zip(self.parts, self._starts, strict=True):
            low, high = max(start, int(first)), min(stop, int(first) + part.size)
            if low < high:
                part.read(low - int(first), out[low - start : high - start])

    def checksum(self) -> str:
        return checksum_of(self.parts)


def require_alike(label: str, parts: Sequence[Data]) -> None:
    """Refuse parts with different entries or categories; `label` names the argument that they are from."""
    for number, one in enumerate(parts):
        here, first = (
            {name: f"{entry} {list(shape)}" for name, (entry, shape) in x.layout.entries.items()}
            for x in (one, parts[0])
        )
        if here != first:
            raise ValueError(
                f"{label} must have the same entries; got {here} in number {number} and {first} in number 0."
            )
        if one.levels != parts[0].levels:
            raise ValueError(
                f"{label} must have the same categories, since codes stand for them; got {one.levels} in number "
                f"{number} and {parts[0].levels} in number 0. Give all of them to each: "
                "pandas.Categorical(x, categories=...)."
            )


def joined(label: str, parts: Sequence[Data], shards: Shards) -> Data:
    """The observations of all parts, in one array if they are in memory."""
    require_alike(label, parts)
    in_memory = [one for one in parts if isinstance(one, InMemory)]
    return InMemory.joined(in_memory, shards) if len(in_memory) == len(parts) else Joined(parts, shards)


class Shard(Data):
    """`size` consecutive observations of `data`, from `start` on."""

    def __init__(self, data: Data, start: int, size: int) -> None:
        self.size, self.layout, self.levels = size, data.layout, data.levels
        self.in_memory, self.workers = data.in_memory, data.workers
        self._data, self._start = data, start

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        self._data.take(self._start + indices, out)

    def read(self, start: int, out: np.ndarray) -> None:
        self._data.read(self._start + start, out)

    def checksum(self) -> str:
        return f"{self._data.checksum()} from {self._start} on, {self.size}"


class OnShard(Data):
    """All N observations, of which only those of one shard, from `start` on, can be fetched."""

    def __init__(self, shard: Data, start: int, n_data: int) -> None:
        self._shard, self._start, self.size = shard, start, n_data
        self.layout, self.levels = shard.layout, shard.levels

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        here = indices - self._start
        if len(here) and not (here.min() >= 0 and here.max() < self._shard.size):
            raise IndexError("a chain has left the shard that it is on")
        self._shard.take(here, out)

    def read(self, start: int, out: np.ndarray) -> None:
        self.take(np.arange(start, start + len(out)), out)

    def checksum(self) -> str:
        return self._shard.checksum()


def shards_of(data: Data) -> Iterator[Data]:
    if isinstance(data, RemoteShards):
        return iter(data.parts)
    assert data.shards is not None
    return (Shard(data, int(start), size) for start, size in zip(data.shards.starts, data.shards.sizes, strict=True))
