"""What other choices would gain, as far as the numbers that were computed for the stepsize tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sgmcmc.core.types import Dynamics
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.laplace.stepsize import Directions, Predicted, largest

FRICTION, LEAPS = 0.01, 20  # of the SGHMC that is compared
FIXED = 20  # what an iteration costs beside its gradients, in gradients; measured for four chains
MOVED = 3  # and more, for each time that a step moves more elements than an observation's gradient has
STEPS = 2  # sizes that are tried between one and its double

Sizes = Callable[[int], Directions]
"""From the size of a minibatch to the precision and the noise of its gradients."""


def beside_gradients(size: int, touched: float) -> float:
    """What an iteration costs beside its gradients, if each of them has `touched` of the elements."""
    return FIXED + MOVED * max(size / max(touched, 1.0) - 1, 0.0)


def cheapest(dynamics: Dynamics, at: Sizes, n_data: int, fixed: float, tolerance: float) -> int:
    """The minibatch size with which an independent draw costs least, in gradients of single observations."""
    sizes = np.unique(np.geomspace(1, n_data, 1 + int(STEPS * np.log2(n_data))).round().astype(int))
    found = [largest(dynamics, at(int(n)), tolerance) for n in sizes]
    good = np.array([one.error <= tolerance for one in found])
    costs = np.array([one.iterations for one in found]) * (sizes + fixed)
    return int(sizes[np.argmin(np.where(good | ~good.any(), costs, np.inf))])


def gains(
    dynamics: Dynamics, chosen: Predicted, where: Directions, weighted: Directions, tolerance: float
) -> dict[str, float]:
    """By what factor an independent draw would cost fewer gradients; above 1 it would gain.

    `preferential`: with gradients of the noise in `weighted`. `momentum` or `noMomentum`: with SGHMC in place of SGLD,
    or SGLD in place of a sampler with momentum. 0 if it does not keep the tolerance.
    """

    def of(other: Dynamics, there: Directions) -> float:
        found = largest(other, there, tolerance)
        cost = found.iterations * other.leaps
        return chosen.iterations * dynamics.leaps / cost if found.error <= tolerance else 0.0

    preferential = of(dynamics, weighted)
    if dynamics.momentum:
        return {"preferential": preferential, "noMomentum": of(sgld(), where)}
    return {"preferential": preferential, "momentum": of(sghmc(FRICTION, LEAPS), where)}
