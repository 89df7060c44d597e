"""A prior with an atom at 0, for the elements of some parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.dataset.entry import described, numeric
from sgmcmc.samplers._checks import FRACTION
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._slab import density_at_zero


class Spike(NamedTuple):
    """The prior probabilities that elements are not 0, and the densities at 0 of the slab, {name: [*shape]}."""

    inclusion: Mapping[str, np.ndarray]
    slab: Mapping[str, np.ndarray]

    def rates(self) -> dict[str, np.ndarray]:
        """At which elements leave 0, per unit of the way that they would go."""
        return {name: w / (1 - w) * self.slab[name] for name, w in self.inclusion.items()}

    def told(self) -> dict[str, Any]:
        """As a setting."""
        return {"inclusion": {name: w.tolist() for name, w in self.inclusion.items()}}


def checked_spike(choices: Choices, inclusion: Any) -> Spike | None:
    """The argument `inclusion` with the slab that `logPrior` says, or None without it.

    Raises
    ------
    ValueError
        If it does not fit the parameters, the prior or the other arguments.
    """
    if inclusion is None:
        return None
    names = sorted(choices.start)
    if not isinstance(inclusion, Mapping) or not inclusion or not set(inclusion) <= set(names):
        raise choices.refuse("inclusion", f"be None or a dict with some of {names}", described(inclusion))
    _require_plain(choices, set(inclusion))
    each = {name: _of_elements(choices, name, w) for name, w in inclusion.items()}
    return Spike(each, {name: density_at_zero(choices, name) for name in each})


def _require_plain(choices: Choices, names: set[str]) -> None:
    """Refuse what moves 0, or the density there."""
    if choices.automatic:
        raise choices.refuse("stepsize", "be a number with inclusion, for which 'auto' knows no mode", "'auto'")
    if choices.curvature.preconditioner is not None:
        raise choices.refuse("preconditioner", "be None with inclusion, whose elements must not be mixed", "another")
    if choices.temperature != 1:
        raise choices.refuse("temperature", "be 1 with inclusion, whose atoms are not tempered", choices.temperature)
    if moved := names & set(choices.constraints.each):
        raise choices.refuse("transforms", f"leave {sorted(moved)} alone, which inclusion names", sorted(moved))
    if moved := names & choices.moved_by_gibbs:
        raise choices.refuse("gibbs", f"leave {sorted(moved)} alone, which inclusion names", sorted(moved))


def _of_elements(choices: Choices, name: str, value: Any) -> np.ndarray:
    """A probability for all elements or an array for each, in the shape of the parameter."""
    label, shape = f"inclusion[{name!r}]", choices.start[name].shape
    array = numeric(label, choices.sampler, value).astype(np.float64)
    if array.shape not in ((), shape):
        raise choices.refuse(label, f"be a number or have the shape of the parameter, {shape}", f"shape {array.shape}")
    allowed, must = FRACTION
    if bad := [x for x in array.flat if not (np.isfinite(x) and allowed(x))]:
        raise choices.refuse(label, f"be {must}, or an array of such", bad[0])
    return np.broadcast_to(array, shape).copy()
