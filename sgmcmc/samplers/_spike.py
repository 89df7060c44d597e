"""A prior with an atom at 0, for the elements of some parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.dataset.entry import described, numeric
from sgmcmc.samplers._checks import FRACTION, POSITIVE, Rule
from sgmcmc.samplers._choices import Choices


class Spike(NamedTuple):
    """The prior probabilities that elements are not 0, and the densities of the slab at 0, {name: [*shape]}."""

    inclusion: Mapping[str, np.ndarray]
    slab: Mapping[str, np.ndarray]

    def rates(self) -> dict[str, np.ndarray]:
        """At which elements leave 0, per unit of the way that they would go."""
        return {name: w / (1 - w) * self.slab[name] for name, w in self.inclusion.items()}

    def told(self) -> dict[str, Any]:
        """As settings."""
        return {key: {name: x.tolist() for name, x in of.items()} for key, of in self._asdict().items()}


def checked_spike(choices: Choices, inclusion: Any, slab: Any) -> Spike | None:
    """The arguments `inclusion` and `slab`, or None without them.

    Raises
    ------
    ValueError
        If they do not fit each other, the parameters or the other arguments.
    """
    if inclusion is None and slab is None:
        return None
    names = sorted(choices.start)
    for argument, value in (("inclusion", inclusion), ("slab", slab)):
        if not isinstance(value, Mapping) or not value or not set(value) <= set(names):
            must = f"be a dict with some of {names}, since inclusion and slab are given together"
            raise choices.refuse(argument, must, described(value))
    if set(inclusion) != set(slab):
        raise choices.refuse("slab", f"have the keys of inclusion, {sorted(inclusion)}", f"keys {sorted(slab)}")
    _require_plain(choices, set(inclusion))
    return Spike(
        {name: _of_elements(choices, f"inclusion[{name!r}]", name, inclusion[name], FRACTION) for name in inclusion},
        {name: _of_elements(choices, f"slab[{name!r}]", name, slab[name], POSITIVE) for name in slab},
    )


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


def _of_elements(choices: Choices, label: str, name: str, value: Any, rule: Rule) -> np.ndarray:
    """A number for all elements or an array for each, in the shape of the parameter."""
    array, shape = numeric(label, choices.sampler, value).astype(np.float64), choices.start[name].shape
    if array.shape not in ((), shape):
        raise choices.refuse(label, f"be a number or have the shape of the parameter, {shape}", f"shape {array.shape}")
    allowed, must = rule
    if bad := [x for x in array.flat if not (np.isfinite(x) and allowed(x))]:
        raise choices.refuse(label, f"be {must}, or an array of such", bad[0])
    return np.broadcast_to(array, shape).copy()
