"""Draws and gradients as users give them: a `Draws`, a dict of arrays, or one array."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.errors import refused, require_count
from sgmcmc.core.trees import numbered
from sgmcmc.dataset.arrays import first_non_finite, numeric
from sgmcmc.draws.draws import Draws

PLAIN = ""  # the name of an array that was given without one


class PerDraw(NamedTuple):
    arrays: dict[str, np.ndarray]  # float64 [*lead, *shape]
    lead: tuple[int, ...]  # (T,) or (C, T)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes for one draw."""
        return {name: array.shape[len(self.lead) :] for name, array in self.arrays.items()}

    def flat(self) -> np.ndarray:
        """All elements of a draw in order of name, [n, D]; the chains follow one another along n."""
        n = int(np.prod(self.lead))
        return np.concatenate([self.arrays[name].reshape(n, -1) for name in sorted(self.arrays)], axis=1)

    def restored(self, flat: np.ndarray, lead: tuple[int, ...] = ()) -> Any:
        """Numbers [..., D] as arrays [*lead, *shape] by name, or as one array."""
        parts = {
            name: flat[..., e.start : e.stop].reshape((*lead, *e.shape))[()]
            for name, e in numbered(self.shapes).items()
        }
        return parts.get(PLAIN, parts)


def _part(argument: str, name: str) -> str:
    return argument if name == PLAIN else f"{argument}[{name!r}]"


def read(
    function: str, argument: str, given: Any, n_chains: int | None = None, names: Collection[str] | None = None
) -> PerDraw:
    """The arrays given for this argument; from a dict, those under `names`."""
    if isinstance(given, Draws):
        if given.settings.get("collect") is not None:
            raise refused(function, argument, "be those of the parameters", "those of collect")
        if n_chains not in (None, given.nChains):
            raise refused(function, "nChains", f"be that of {argument}, {given.nChains}", n_chains)
        n_chains = given.nChains
    elif n_chains is not None:
        n_chains = require_count("nChains", function, n_chains, 1)
    if not isinstance(given, Mapping):
        given, names = {PLAIN: given}, None
    wanted = list(given) if names is None else sorted(names)
    if not wanted or (missing := [name for name in wanted if name not in given]):
        what = f"arrays for {missing}" if wanted else "at least one array"
        raise refused(function, argument, f"have {what}", sorted(map(str, given)) or "none")
    arrays = {name: numeric(_part(argument, name), function, given[name]) for name in wanted}
    n_axes = 1 if n_chains is None else 2
    lead = arrays[wanted[0]].shape[:n_axes]
    for name, array in arrays.items():
        part, shape = _part(argument, name), array.shape
        if len(shape) < n_axes or (n_chains is not None and shape[0] != n_chains):
            axes = "(T, ...)" if n_chains is None else f"({n_chains}, T, ...)"
            raise refused(function, part, f"have the shape {axes} for T draws", f"shape {shape}")
        if shape[:n_axes] != lead:
            raise refused(function, part, f"have as many draws as the others, {lead}", f"shape {shape}")
        if array.size == 0:
            raise refused(function, part, "hold at least one draw", f"shape {shape}")
    return PerDraw({name: array.astype(np.float64) for name, array in arrays.items()}, lead)


def paired(function: str, draws: Any, gradients: Any, n_chains: int | None) -> tuple[PerDraw, PerDraw]:
    """The draws and the gradients of the same parameters; by default those stored with the draws."""
    if isinstance(draws, Draws):
        if transforms := draws.settings.get("transforms"):
            must = "be of unconstrained parameters, whose gradients have mean 0"
            raise refused(function, "draws", must, f"a run with transforms of {sorted(transforms)}")
        gradients = draws.gradients if gradients is None else gradients
        n_chains = draws.nChains if n_chains is None else n_chains
    if gradients is None:
        raise ValueError(
            f"gradients of {function} must be those of the log posterior at the draws, which a run with "
            "gradients=True stores or fullGradients computes; got None."
        )
    if isinstance(draws, Mapping) != isinstance(gradients, Mapping):
        kinds = ["a dict of arrays" if isinstance(x, Mapping) else "one array" for x in (draws, gradients)]
        raise refused(function, "gradients", f"be {kinds[0]}, as draws are", kinds[1])
    points = read(function, "draws", draws, n_chains, gradients if isinstance(gradients, Mapping) else None)
    scores = read(function, "gradients", gradients, n_chains)
    for name, array in scores.arrays.items():
        if array.shape != (shape := points.arrays[name].shape):
            raise refused(function, _part("gradients", name), f"have the shape of the draws, {shape}", array.shape)
    return points, scores


def require_finite(function: str, argument: str, given: PerDraw) -> None:
    for name, array in given.arrays.items():
        if not np.isfinite(array).all():
            raise refused(function, _part(argument, name), "be finite", first_non_finite(array))


def read_finite(
    function: str, argument: str, given: Any, n_chains: int | None = None, names: Collection[str] | None = None
) -> PerDraw:
    found = read(function, argument, given, n_chains, names)
    require_finite(function, argument, found)
    return found
