"""The arguments of the plots, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sgmcmc.core.checks import is_integer
from sgmcmc.output._elements import Chains, Element
from sgmcmc.output.draws import Draws


def one_quantity(values: Any, name: str | None, iterations: Any) -> tuple[Element, np.ndarray]:
    """The quantity that `plotRunning` shows, and the iterations of its values."""
    if isinstance(values, Draws | Mapping):
        chains = Chains(values, "plotRunning", "values")
        if name is not None and not isinstance(name, str):
            raise ValueError(f"name of plotRunning must be one such as 'logLoss' or 'theta[0]'; got {name!r}.")
        found, total = chains.elements(name, 1)
        if total > 1:
            got = repr(name) if name is not None else "none"
            raise ValueError(
                f"name of plotRunning must stand for one of {total:,} numbers, as {found[0].label!r} does; got {got}."
            )
        quantity, default = found[0], chains.iterations
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub" or array.ndim not in (1, 2) or array.size == 0:
            raise ValueError(
                "values of plotRunning must be the result of a sampler, a dict of arrays, or an array (T,) or "
                f"(nChains, T); got {array.dtype.name} of shape {array.shape}."
            )
        if name is not None:
            raise ValueError(f"name of plotRunning must be left out if values is an array; got {name!r}.")
        chains = Chains({"values": array.T}, "plotRunning", "values")
        found, _ = chains.elements(None, array.size)
        stacked = np.concatenate([element.values for element in found])
        quantity, default = Element("", stacked, "", ()), chains.iterations
    if iterations is None:
        return quantity, default
    at = np.asarray(iterations)
    if at.shape != default.shape or at.dtype.kind not in "iu" or at[0] < 0 or (np.diff(at) <= 0).any():
        raise ValueError(
            f"iterations of plotRunning must be {len(default)} increasing integers, one for each draw; "
            f"got {iterations!r}."
        )
    return quantity, at


def require_limit(function: str, limit: Any) -> int:
    """`maxPanels`: the largest number of elements to show."""
    if not is_integer(limit) or limit < 1:
        raise ValueError(f"maxPanels of {function} must be an integer of at least 1; got {limit!r}.")
    return int(limit)


def require_kind(function: str, kind: Any, known: tuple[str, str]) -> None:
    """Refuse a `kind` that is not one of two words."""
    if kind not in known:
        raise ValueError(f"kind of {function} must be {known[0]!r} or {known[1]!r}; got {kind!r}.")
