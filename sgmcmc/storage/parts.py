"""A run on disk in parts: a store for each job, and one that shows them side by side.

The whole store has the arrays of all chains. In place of their chunks it has links to
those of the parts, so that Zarr, xarray and ArviZ read it like any other. It shows as many
draws as every part has. The parts have the checkpoints, and each is a complete store.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tensorflow as tf

from sgmcmc.core.trees import Tree
from sgmcmc.storage import path_of_part
from sgmcmc.storage.zarr import create, replace_root


def create_whole(path: Path, specs: Tree, beginning: bytes, settings: dict[str, Any], groups: Sequence[range]) -> None:
    """Create the store of all chains, for parts that their jobs create; `specs` are those of the first group."""
    n_chains = sum(len(chains) for chains in groups)
    whole = tf.nest.map_structure(lambda spec: tf.TensorSpec([n_chains, *spec.shape[1:]], spec.dtype), specs)

    def finish(building: Path) -> None:
        (building / "parts").mkdir()
        with suppress(OSError):  # a file system without links; Draws.load needs none
            for group, members in whole.items():
                for name in members:
                    _link(building, f"{group}/{name}", groups)

    parts = {"parts": [[chains.start, chains.stop] for chains in groups]}
    create(path, whole, {"beginning": beginning}, settings, largest(groups), parts, finish)


def largest(groups: Sequence[range]) -> int:
    """The number of chains in a chunk of each part, which for the whole store must be one number."""
    return max(len(chains) for chains in groups)


def _link(path: Path, array: str, groups: Sequence[range]) -> None:
    folder = path / array / "c"
    folder.mkdir()
    for k, chains in enumerate(groups):
        there = path_of_part(path, chains) / array / "c" / "0"
        (folder / str(k)).symlink_to(os.path.relpath(there, folder), target_is_directory=True)


def show_parts(path: Path) -> None:
    """Let the store of all chains show as many draws as every part has."""
    from sgmcmc.storage.store import WholeStore, parts_of

    metadata, groups = WholeStore(path).metadata, parts_of(path)
    assert groups is not None
    described = metadata["consolidated_metadata"]["metadata"].items()
    arrays = [name for name, of in described if of["node_type"] == "array" and not name.startswith("checkpoint/")]
    if not all((path / name / "c" / "0").is_symlink() for name in arrays):
        return  # Zarr would read missing chunks as NaN, and a copy that followed the links does not grow
    parts = [path_of_part(path, chains) for chains in groups]
    n_draws = min(WholeStore(part).manifest.n_draws if part.exists() else 0 for part in parts)
    if metadata["attributes"]["draws"] == n_draws:
        return
    metadata["attributes"]["draws"] = n_draws
    for name in arrays:
        metadata["consolidated_metadata"]["metadata"][name]["shape"][1] = n_draws
    replace_root(path, metadata)
