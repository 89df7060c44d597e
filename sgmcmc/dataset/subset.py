"""Subsets of the observations that represent all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data, Shards, spaced_rows
from sgmcmc.dataset.memory import Subset
from sgmcmc.dataset.remote import RemoteShard, RemoteShards

MOST_FROM_DISK, BYTES_FROM_DISK = 2**21, 2**28  # of a part of data on disk, which is read at random into memory


def largest_subset(data: Data) -> int:
    return data.size if data.in_memory else max(1000, min(MOST_FROM_DISK, BYTES_FROM_DISK // data.layout.row_bytes))


def random_subset(data: Data, size: int, seed: int) -> Data:
    """`size` observations, drawn without replacement, from each shard in proportion to its size; all if fewer."""
    if size >= data.size:
        return data
    rng, shards = np.random.default_rng(seed), data.shards or Shards([data.size], 1)
    shares = size * np.array(shards.sizes) / data.size
    counts = np.floor(shares).astype(int)
    counts[np.argsort(counts - shares, kind="stable")[: size - counts.sum()]] += 1
    of_each = zip(shards.starts, shards.sizes, counts, strict=True)
    indices = np.concatenate([start + np.sort(rng.choice(n_data, n, replace=False)) for start, n_data, n in of_each])
    return data.some(indices) if isinstance(data, RemoteShard | RemoteShards) else Subset(data, indices)


def over_spaced_rows(data: Data, size: int, function: Callable[[Any, Tree], Any], item: Any) -> Any:
    """``function(item, rows)`` of `spaced_rows`, computed where the data are."""
    if isinstance(data, RemoteShards):
        return data.parts[0].asked(_over_spaced_rows, (size, function, item))
    return _over_spaced_rows(data, (size, function, item))


def _over_spaced_rows(data: Data, given: tuple[int, Callable[[Any, Tree], Any], Any]) -> Any:
    size, function, item = given
    return function(item, spaced_rows(data, size))
