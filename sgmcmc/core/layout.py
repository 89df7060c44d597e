"""How stored arrays are named for ArviZ and xarray: (chain, draw, ...), in groups."""

from __future__ import annotations

from collections.abc import Collection

RESERVED = ("chain", "draw", "parameter", "", ".", "..", "zarr.json")


def dimension_names(group: str, name: str, rank: int, names: Collection[str]) -> tuple[str, ...]:
    """chain, draw, and numbered ones after the variable, as ArviZ does; none is the name of a variable of the group.

    Statistics are by parameter.
    """
    own = ["parameter"] if group == "sample_stats" else [f"{name}_dim_{k}" for k in range(rank - 2)]
    for k, dimension in enumerate(own):
        while own[k] in names:
            own[k] = dimension = dimension + "_"
    return ("chain", "draw", *own[: rank - 2])


def reserved_names(names: Collection[str]) -> list[str]:
    """Those that cannot be variables beside these dimensions, or in a folder."""
    return [name for name in names if name in RESERVED or "/" in name or name.startswith("__")]
