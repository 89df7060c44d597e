"""Draws and gradients as users give them: a `Draws`, a dict of arrays, or one array."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.errors import require_count
from sgmcmc.core.trees import numbered
from sgmcmc.dataset.arrays import first_non_finite, numeric
from sgmcmc.draws.draws import Draws

PLAIN = ""  # the name of an array that was given without one


class PerDraw(NamedTuple):
    """Arrays {name: float64 [*lead, *shape]}, where `lead` is (T,) or (C, T)."""

    arrays: dict[str, np.ndarray]
    lead: tuple[int, ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes for one draw."""
        return {name: array.shape[len(self.lead) :] for name, array in self.arrays.items()}

    def flat(self) -> np.ndarray:
        """All elements of a draw in order of name, [n, D].

        The chains follow one another along n.
        """
        n = int(np.prod(self.lead))
        return np.concatenate([self.arrays[name].reshape(n, -1) for name in sorted(self.arrays)], axis=1)

    def restored(self, flat: np.ndarray, lead: tuple[int, ...] = ()) -> Any:
        """Numbers [..., D] as arrays [*lead, *shape] by name, or as one array."""
        parts = {
            name: flat[..., e.start : e.stop].reshape((*lead, *e.shape))[()]
            for name, e in numbered(self.shapes).items()
        }
        return parts.get(PLAIN, parts)


def read(
    function: str, argument: str, given: Any, n_chains: int | None = None, names: Collection[str] | None = None
) -> PerDraw:
    """The arrays given for this argument; from a dict, those under `names`."""
    if isinstance(given, Draws):
        if given.settings.get("collect") is not None:
            raise ValueError(f"{argument} of {function} must be those of the parameters; got those of collect.")
        if n_chains not in (None, given.nChains):
            raise ValueError(f"nChains of {function} must be that of {argument}, {given.nChains}; got {n_chains}.")
        n_chains = given.nChains
    elif n_chains is not None:
        n_chains = require_count("nChains", function, n_chains, 1)
    if isinstance(given, Mapping):
        wanted = list(given) if names is None else sorted(names)
        if not wanted or (missing := [name for name in wanted if name not in given]):
            what = f"arrays for {missing}" if wanted else "at least one array"
            raise ValueError(f"{argument} of {function} must have {what}; got {sorted(map(str, given)) or 'none'}.")
        named = {name: (f"{argument}[{name!r}]", given[name]) for name in wanted}
    else:
        named = {PLAIN: (argument, given)}
    arrays = {name: numeric(label, function, array) for name, (label, array) in named.items()}
    n_axes = 1 if n_chains is None else 2
    lead = next(iter(arrays.values())).shape[:n_axes]
    for name, array in arrays.items():
        label, shape = named[name][0], array.shape
        if len(shape) < n_axes or (n_chains is not None and shape[0] != n_chains):
            axes = "(T, ...)" if n_chains is None else f"({n_chains}, T, ...)"
            raise ValueError(f"{label} of {function} must have the shape {axes} for T draws; got shape {shape}.")
        if shape[:n_axes] != lead:
            raise ValueError(f"{label} of {function} must have as many draws as the others, {lead}; got shape {shape}.")
        if array.size == 0:
            raise ValueError(f"{label} of {function} must hold at least one draw; got shape {shape}.")
    return PerDraw({name: array.astype(np.float64) for name, array in arrays.items()}, lead)


def paired(function: str, draws: Any, gradients: Any, n_chains: int | None) -> tuple[PerDraw, PerDraw]:
    """The draws and the gradients of the same parameters.

    The default gradients are those stored with the draws.
    """
    transforms = draws.settings.get("transforms") if isinstance(draws, Draws) else None
    if transforms:
        raise ValueError(
            f"draws of {function} must be of unconstrained parameters, whose gradients have mean 0; "
            f"got a run with transforms of {sorted(transforms)}."
        )
    if gradients is None:
        gradients = draws.gradients if isinstance(draws, Draws) else None
    if gradients is None:
        raise ValueError(
            f"gradients of {function} must be those of the log posterior at the draws, which a run with "
            "gradients=True stores or fullGradients computes; got None."
        )
    if isinstance(draws, Mapping) != isinstance(gradients, Mapping):
        kinds = ["a dict of arrays" if isinstance(x, Mapping) else "one array" for x in (draws, gradients)]
        raise ValueError(f"gradients of {function} must be {kinds[0]}, as draws are; got {kinds[1]}.")
    of_draws = draws.nChains if isinstance(draws, Draws) and n_chains is None else n_chains
    points = read(function, "draws", draws, n_chains, gradients if isinstance(gradients, Mapping) else None)
    scores = read(function, "gradients", gradients, of_draws)
    for name, array in scores.arrays.items():
        if array.shape != points.arrays[name].shape:
            part = f"[{name!r}]" if name else ""
            raise ValueError(
                f"gradients{part} of {function} must have the shape of the draws, {points.arrays[name].shape}; got "
                f"{array.shape}."
            )
    return points, scores


def require_finite(function: str, argument: str, given: PerDraw) -> None:
    """Reject NaN and infinite numbers."""
    for name, array in given.arrays.items():
        if not np.isfinite(array).all():
            part = f"[{name!r}]" if name else ""
            raise ValueError(f"{argument}{part} of {function} must be finite; got {first_non_finite(array)}.")
