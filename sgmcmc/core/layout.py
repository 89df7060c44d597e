"""How stored arrays are named for ArviZ and xarray: (chain, draw, ...), in groups."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

RESERVED = ("chain", "draw", "parameter", "", ".", "..", "zarr.json")


def dimension_names(group: str, name: str, rank: int, names: Collection[str]) -> tuple[str, ...]:
    """The dimensions of a variable: chain, draw, and numbered ones, as in ArviZ.

    The third dimension of statistics is "parameter". No dimension has the name of a
    variable.
    """
    own = ["parameter"] if group == "sample_stats" else [f"{name}_dim_{k}" for k in range(rank - 2)]
    for k, dimension in enumerate(own):
        while own[k] in names:
            own[k] = dimension = dimension + "_"
    return ("chain", "draw", *own[: rank - 2])


def reserved_names(names: Collection[str]) -> list[str]:
    """The names that cannot be variables with these dimensions, or files."""
    return [name for name in names if name in RESERVED or "/" in name or name.startswith("__")]


def path_of_part(path: Path, chains: range) -> Path:
    """Where the store of these chains is, in a store of all chains."""
    return path / "parts" / f"{chains.start}-{chains.stop - 1}.zarr"
