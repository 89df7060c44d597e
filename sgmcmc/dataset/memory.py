"""Data packed into memory: all observations, as the only copy, or some observations of other data."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Self, SupportsIndex

import numpy as np

from sgmcmc.core.files import checksum
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import ALIGNMENT, Data, Layout, Shards, aligned_zeros, shared_tensor
from sgmcmc.dataset.arrays import Level


class _Packed(Data):
    """Observations in packed words, [N, width]."""

    in_memory = True
    _words: np.ndarray

    def take(self, indices: np.ndarray, out: np.ndarray) -> None:
        # np.take copies whole rows and releases the GIL; indexing does neither.
        np.take(self._words, indices, axis=0, out=out, mode="clip")

    def read(self, start: int, out: np.ndarray) -> None:
        out[...] = self._words[start : start + len(out)]

    def checksum(self) -> str:
        return checksum(self._words)


class InMemory(_Packed):
    """Observations packed from ``{name: array [N, ...]}`` of 4- and 8-byte numbers."""

    def __init__(self, arrays: Mapping[str, np.ndarray], levels: Mapping[str, list[Level]] | None = None) -> None:
        layout = Layout({name: (array.dtype, array.shape[1:]) for name, array in arrays.items()})
        words = aligned_zeros(len(next(iter(arrays.values()))), layout.width)
        for name, view in layout.views(words).items():
            view[...] = arrays[name]
        self._hold(words, layout, dict(levels or {}))

    def _hold(self, words: np.ndarray, layout: Layout, levels: dict[str, list[Level]]) -> None:
        self._words, self.layout, self.levels, self.size = words, layout, levels, len(words)
        self.rows = shared_tensor(words)  # [N, width], for programs that fetch rows themselves

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        # From protocol 5 on, the words can travel outside the pickle, in a file that many processes map.
        words = pickle.PickleBuffer(self._words.data) if int(protocol) >= 5 else self._words.tobytes()
        return type(self)._of_words, (words, self.layout, self.levels, self.shards)

    @classmethod
    def joined(cls, parts: Sequence[InMemory], shards: Shards) -> Self:
        """The observations of all parts, which have the same layout, in one array."""
        words = aligned_zeros(sum(shards.sizes), parts[0].layout.width)
        for part, start in zip(parts, shards.starts, strict=True):
            part.read(0, words[start : start + part.size])
        return cls._of_words(words, parts[0].layout, parts[0].levels, shards)

    @classmethod
    def _of_words(
        cls, buffer: Any, layout: Layout, levels: dict[str, list[Level]], shards: Shards | None = None
    ) -> Self:
        """Observations in the memory of `buffer`, copied only if TensorFlow cannot share it."""
        given = words = np.frombuffer(buffer, np.int64).reshape(-1, layout.width)
        if not given.flags.writeable or given.ctypes.data % ALIGNMENT:
            words = aligned_zeros(*given.shape)
            words[...] = given
        data = cls.__new__(cls)
        data._hold(words, layout, levels)
        data.shards = shards
        return data

    def arrays(self) -> dict[str, np.ndarray]:
        return self.layout.views(self._words)

    def all(self) -> Tree:
        return self.layout.unpack(self.rows)


class Subset(_Packed):
    """Observations of `data` at sorted `indices`, copied."""

    def __init__(self, data: Data, indices: np.ndarray) -> None:
        self.size, self.layout, self.levels, self.indices = len(indices), data.layout, data.levels, indices
        self._words = aligned_zeros(self.size, self.layout.width)
        data.take(indices, self._words)
