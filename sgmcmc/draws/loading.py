"""Draws read from files and stores, or joined from several runs."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.core.errors import warn_user
from sgmcmc.core.files import write_whole
from sgmcmc.core.trees import Tree, from_paths, with_paths
from sgmcmc.storage import path_of_part, stored_iterations

if TYPE_CHECKING:
    from sgmcmc.draws.draws import Draws


FORMAT, IN_HEADER = 1, ("nChains", "settings", "timings", "divergence")
OF_CHAINS = ("nChains", "chains", "starts")  # settings that differ between the chains of one run
COMPUTED = ("stepsize", "expected")  # settings that each run may have computed
SAME = 1e-3  # the largest relative difference of computed settings, perhaps from different machines


def to_file(path: Path, draws: Draws) -> None:
    """Write everything to one npz archive without pickled objects."""
    leaves = with_paths({"groups": draws.groups, "reduced": draws.reduced})
    header = {"format": FORMAT, "paths": [keys for keys, _ in leaves]}
    header |= {name: getattr(draws, name) for name in IN_HEADER}
    contents: dict[str, Any] = {f"array_{i}": np.asarray(array) for i, (_, array) in enumerate(leaves)}
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array(json.dumps(header)), iterations=draws.iterations, **contents)
    write_whole(path, buffer.getvalue())


def from_file(path: Path) -> dict[str, Any]:
    """The arguments of the `Draws` that `to_file` wrote."""
    _require_unpacked(path)
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(str(archive["header"]))
        if header["format"] != FORMAT:
            raise ValueError(f"it has format {header['format']!r}; this version reads format {FORMAT}")
        tree = from_paths((keys, archive[f"array_{i}"]) for i, keys in enumerate(header["paths"]))
        return {
            "groups": tree.get("groups", {}),
            "reduced": tree.get("reduced", {}),
            "iterations": archive["iterations"],
            **{name: header[name] for name in IN_HEADER},
        }


def _require_unpacked(path: Path) -> None:
    """Refuse an archive that unpacks to more than its file; `save` never compresses."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > path.stat().st_size:
        raise ValueError(f"it unpacks to {size} bytes from {path.stat().st_size}, while save does not compress")


def from_store(path: Path) -> dict[str, Any]:
    """The arguments of the `Draws` in a store; its arrays are read when they are used."""
    from sgmcmc.storage.store import NOT_DRAWS, open_draws, parts_of

    if (groups := parts_of(path)) is not None:
        return _from_parts(path, groups)
    tree = open_draws(path)
    stored = {group: dict(tree[group].data_vars) for group in tree.children if group not in NOT_DRAWS}
    n_draws = next((array.shape[1] for members in stored.values() for array in members.values()), 0)
    return _of_stored(stored, tree.attrs["settings"], n_draws)


def _of_stored(groups: Tree, settings: dict[str, Any], n_draws: int) -> dict[str, Any]:
    iterations = stored_iterations(settings["burnIn"], settings["thin"], n_draws)
    return {"groups": groups, "iterations": iterations, "nChains": settings["nChains"], "settings": settings}


def _from_parts(path: Path, groups: Sequence[range]) -> dict[str, Any]:
    """The draws in a store of parts, from those chains that have the most draws in total."""
    from sgmcmc.storage.side_by_side import most_draws, side_by_side
    from sgmcmc.storage.store import WholeStore

    attributes = WholeStore(path.absolute()).metadata["attributes"]
    settings = attributes["settings"]
    paths = {chains: path_of_part(path, chains) for chains in groups}
    there = [chains for chains in groups if paths[chains].exists()]
    missing = [paths[chains] for chains in groups if chains not in there]
    if missing and attributes["draws"]:  # of every part
        raise ValueError(f"{str(missing[0])!r} is missing")
    if not there:
        raise ValueError("no part of it has begun")
    runs = [from_store(paths[chains]) for chains in there]
    chosen, n_draws = most_draws([len(run["iterations"]) for run in runs], [len(chains) for chains in there])
    numbers = [chain for k in chosen for chain in there[k]]
    if len(chosen) < len(groups):
        warn_user(
            f"{str(path)!r} is not finished: returning the first {n_draws} draws of chains "
            f"{', '.join(map(str, numbers))}; the others have fewer."
        )
    settings |= {"nChains": len(numbers)} | ({} if numbers == list(range(len(numbers))) else {"chains": numbers})
    kept = [
        {group: {name: x[:, :n_draws] for name, x in members.items()} for group, members in runs[k]["groups"].items()}
        for k in chosen
    ]
    return _of_stored(side_by_side(kept), settings, n_draws)


def joined(runs: Sequence[Draws]) -> dict[str, Any]:
    """The arguments of the `Draws` that `Draws.concat` describes."""
    from sgmcmc.storage.side_by_side import side_by_side

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
    return {
        "groups": side_by_side([run.groups for run in runs], order),
        "nChains": len(chains),
        "iterations": first._iterations,
        "settings": settings,
        "reduced": side_by_side([run.reduced for run in runs], order),
        "timings": {name: max(run.timings.get(name, 0.0) for run in runs) for name in first.timings},
        "divergence": next((run.divergence for run in runs if run.divergence), None),
    }


def _starts(runs: Sequence[Draws]) -> Any:
    """`starts` of all runs: one value if they agree, else one for each run."""
    each = [run.settings.get("starts") for run in runs]
    return each[0] if all(one == each[0] for one in each) else each


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
                "runs of concat must be parts of one run, with the same data, functions and params; got different ones "
                f"for chains {first.chains} and {other.chains}."
            )
        raise ValueError(
            f"runs of concat must be parts of one run, with the same settings; got chains {first.chains} and "
            f"{other.chains} with different {list(differing)}, such as {name}: {one!r} and {two!r}."
        )


def _names(draws: Draws) -> list[tuple[str, ...]]:
    return sorted(tuple(keys) for keys, _ in with_paths({"groups": draws.groups, "reduced": draws.reduced}))


def _agree(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_agree(one[key], other[key], tolerance) for key in one)
    if tolerance and isinstance(one, float | list) and isinstance(other, float | list):
        return np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=tolerance, atol=0.0)
    return bool(one == other)
