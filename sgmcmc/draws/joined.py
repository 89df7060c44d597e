"""Draws of different chains of one run, side by side: in memory, or read from their stores when they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from sgmcmc.core.errors import warn_user
from sgmcmc.core.trees import Tree, from_paths, with_paths
from sgmcmc.draws.draws import Draws, iterations_of
from sgmcmc.storage.store import path_of_part

OF_CHAINS = ("nChains", "chains", "starts")  # settings that differ between the chains of one run
COMPUTED = ("stepsize", "expected")  # those that each run may have found by itself
SAME = 1e-3  # the largest relative difference of what was computed, perhaps on different machines


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


def joined(runs: Any) -> Draws:
    """The draws that `Draws.concat` describes."""
    if not isinstance(runs, Sequence) or not runs or not all(isinstance(run, Draws) for run in runs):
        raise ValueError(f"runs of concat must be a list of what a sampler returned; got {runs!r}.")
    single = [k for k, run in enumerate(runs) if run.nChains is None]
    if single:
        raise ValueError(
            f"runs of concat must have a chain axis, such as those of nChains=range(0, 1); got none for runs {single}."
        )
    runs = sorted(runs, key=lambda run: run.chains)
    chains = [number for run in runs for number in run.chains]
    if twice := sorted({number for number in chains if chains.count(number) > 1}):
        raise ValueError(f"runs of concat must have different chains; got {twice} more than once.")
    first = runs[0]
    for run in runs[1:]:
        _require_same(first, run)
    order = np.argsort(chains).tolist()
    settings = {key: value for key, value in first.settings.items() if key not in OF_CHAINS}
    settings |= {"nChains": len(chains), "starts": _starts(runs), "nIters": max(run.settings["nIters"] for run in runs)}
    if sorted(chains) != list(range(len(chains))):
        settings["chains"] = sorted(chains)
    return Draws(
        side_by_side([run.groups for run in runs], order),
        nChains=len(chains),
        iterations=first._iterations,
        settings=settings,
        reduced=side_by_side([run.reduced for run in runs], order),
        timings={name: max(run.timings.get(name, 0.0) for run in runs) for name in first.timings},
        divergence=next((run.divergence for run in runs if run.divergence), None),
    )


def _starts(runs: Sequence[Draws]) -> Any:
    """`starts` of all runs: what they have in common, or those of each."""
    each = [run.settings.get("starts") for run in runs]
    return each[0] if all(one == each[0] for one in each) else each


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


def _require_same(first: Draws, other: Draws) -> None:
    keys = (first.settings.keys() | other.settings.keys()) - {*OF_CHAINS, "advice"}
    if not all("fingerprint" in draws.settings for draws in (first, other)):
        keys.discard("fingerprint")  # of a run of a number of chains, not of a range
    if len(first.iterations):
        keys.discard("nIters")  # a store has that of its first call; the iterations are compared below
    differing = {
        key: (first.settings.get(key), other.settings.get(key))
        for key in sorted(keys)
        if not _agree(first.settings.get(key), other.settings.get(key), SAME if key in COMPUTED else 0.0)
    }
    if not differing and not np.array_equal(first.iterations, other.iterations):
        differing = {"iterations": (len(first.iterations), len(other.iterations))}
    if not differing and _names(first) != _names(other):
        differing = {"arrays": (_names(first), _names(other))}
    if differing:
        name, (one, two) = min(differing.items(), key=lambda pair: pair[0] == "fingerprint")
        if name == "fingerprint":
            raise ValueError(
                "runs of concat must be of one run, with the same data, functions and params; got others of chains "
                f"{first.chains} and {other.chains}."
            )
        raise ValueError(
            f"runs of concat must be of one run, with the same settings; got others of chains {first.chains} and "
            f"{other.chains} for {list(differing)}, such as {name}: {one!r} and {two!r}."
        )


def _names(draws: Draws) -> list[tuple[str, ...]]:
    return sorted(tuple(keys) for keys, _ in with_paths({"groups": draws.groups, "reduced": draws.reduced}))


def _agree(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_agree(one[key], other[key], tolerance) for key in one)
    if tolerance and isinstance(one, float | list) and isinstance(other, float | list):
        return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=tolerance, atol=0.0)
    return bool(one == other)


def most_draws(lengths: Sequence[int], n_chains: Sequence[int]) -> tuple[list[int], int]:
    """Which parts have together the most draws if they are cut to equally many, and how many that is."""
    longest_first = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    totals = np.cumsum([n_chains[k] for k in longest_first]) * [lengths[k] for k in longest_first]
    last = len(totals) - 1 - int(np.argmax(totals[::-1]))  # of equally many draws, those of more chains
    return sorted(longest_first[: last + 1]), lengths[longest_first[last]]


def of_parts(path: Path, groups: Sequence[range]) -> dict[str, Any]:
    """The draws in a store of parts: those of as many chains as have together the most."""
    from sgmcmc.storage.store import WholeStore

    attributes = WholeStore(path.absolute()).metadata["attributes"]
    settings = attributes["settings"]
    missing = [path_of_part(path, chains) for chains in groups if not path_of_part(path, chains).exists()]
    if missing and attributes["draws"]:  # of every part
        raise ValueError(f"{str(missing[0])!r} is missing")
    there = [chains for chains in groups if path_of_part(path, chains).exists()]
    runs = [Draws.load(path_of_part(path, chains)) for chains in there]
    lengths = [len(run.iterations) for run in runs]
    if not there:
        raise ValueError("no part of it has begun")
    chosen, n_draws = most_draws(lengths, [len(chains) for chains in there])
    numbers = [chain for k in chosen for chain in there[k]]
    if len(chosen) < len(groups):
        warn_user(
            f"{str(path)!r} is not finished: returning the first {n_draws} draws of chains "
            f"{', '.join(map(str, numbers))}; the others have fewer."
        )
    settings |= {"nChains": len(numbers)} | ({} if numbers == list(range(len(numbers))) else {"chains": numbers})
    return {
        "groups": side_by_side([runs[k][:n_draws].groups for k in chosen]),
        "iterations": iterations_of(settings, n_draws),
        "nChains": len(numbers),
        "settings": settings,
    }
