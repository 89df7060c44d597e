"""Storage of draws: kept in memory, written to a Zarr store, or summarised as they are made.

Stored arrays have the axes (chain, draw, ...), in ArviZ's groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from sgmcmc.core.trees import Tree

RESERVED = ("chain", "draw", "parameter", "", ".", "..", "zarr.json")


def dimension_names(group: str, name: str, rank: int, names: Collection[str]) -> tuple[str, ...]:
    """The dimensions of a variable, as in ArviZ, but with other names than those of variables."""
    own = ["parameter"] if group == "sample_stats" else [f"{name}_dim_{k}" for k in range(rank - 2)]
    for k in range(len(own)):
        while own[k] in names:
            own[k] += "_"
    return ("chain", "draw", *own[: rank - 2])


def reserved_names(names: Collection[str]) -> list[str]:
    """The names that cannot be variables with these dimensions, or files."""
    return [name for name in names if name in RESERVED or "/" in name or name.startswith("__")]


def stored_iterations(burn_in: int, thin: int, n_draws: int) -> range:
    """The iterations after which this many draws are stored."""
    return range(burn_in + thin, burn_in + (n_draws + 1) * thin, thin)


def path_of_part(path: Path, chains: range) -> Path:
    return path / "parts" / f"{chains.start}-{chains.stop - 1}.zarr"


class Reducer(NamedTuple):
    """A running summary of the draws of one chain, in constant memory.

    `init` and `update` are pure functions in TensorFlow operations. A draw is a dict of tensors without a chain axis:
    the parameters, or the result of `collect`.

    Parameters
    ----------
    init : callable
        From a draw of zeros, which gives the shapes, to the first accumulator: any nest of tensors.
    update : callable
        (accumulator, draw) -> accumulator.
    result : callable, optional
        From the accumulator as NumPy arrays to the result, a dict of arrays. By default the accumulator itself.

    Examples
    --------
    The largest value of each parameter:

    >>> import tensorflow as tf
    >>> from sgmcmc import Reducer
    >>> largest = Reducer(
    ...     init=lambda draw: {name: x - float("inf") for name, x in draw.items()},
    ...     update=lambda top, draw: {name: tf.maximum(top[name], x) for name, x in draw.items()},
    ... )
    """

    init: Callable[[Tree], Any]
    update: Callable[[Any, Tree], Any]
    result: Callable[[Any], Tree] | None = None
