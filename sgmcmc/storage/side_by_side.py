"""Arrays of different chains side by side: in memory, or read from their stores when they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from sgmcmc.core.trees import Tree, from_paths, with_paths


class SideBySide(BackendArray):
    """Arrays on disk, joined along their first axis."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts, self.dtype = parts, parts[0].dtype
        self._ends = np.cumsum([part.shape[0] for part in parts])
        self.shape = (int(self._ends[-1]), *parts[0].shape[1:])

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        chains, rest = np.arange(self.shape[0])[key[0]], key[1:]
        rows = [self._of_chain(int(c), rest) for c in np.atleast_1d(chains)]
        return np.stack(rows) if np.ndim(chains) else rows[0]

    def _of_chain(self, chain: int, rest: tuple[Any, ...]) -> np.ndarray:
        k = int(np.searchsorted(self._ends, chain, side="right"))
        begin = int(self._ends[k - 1]) if k else 0
        return np.asarray(self._parts[k][(chain - begin, *rest)])


def side_by_side(trees: Sequence[Tree], order: Sequence[int] | None = None) -> Tree:
    """The leaves of all, joined along their first axis, in this order; arrays on disk stay there."""
    leaves = [{tuple(keys): x for keys, x in with_paths(tree)} for tree in trees]
    return from_paths((list(keys), _joined_arrays([of[keys] for of in leaves], order)) for keys in leaves[0])


def _joined_arrays(parts: list[Any], order: Sequence[int] | None) -> Any:
    if not all(isinstance(part, xr.DataArray) for part in parts):
        array = np.concatenate([np.asarray(part) for part in parts])
        return array if order is None else array[list(order)]
    if order is not None and list(order) != list(range(len(order))):
        parts = [part[k : k + 1] for part in parts for k in range(part.shape[0])]
        parts = [parts[k] for k in order]
    joined = indexing.LazilyIndexedArray(SideBySide([part.variable for part in parts]))
    return xr.DataArray(joined, dims=parts[0].dims, attrs=parts[0].attrs)


def most_draws(lengths: Sequence[int], n_chains: Sequence[int]) -> tuple[list[int], int]:
    """The parts that together have the most draws when cut to the same number, and this number."""
    longest_first = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    totals = np.cumsum([n_chains[k] for k in longest_first]) * [lengths[k] for k in longest_first]
    last = len(totals) - 1 - int(np.argmax(totals[::-1]))  # in a tie, more chains
    return sorted(longest_first[: last + 1]), lengths[longest_first[last]]
