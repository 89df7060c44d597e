"""The largest stepsize whose chain has the right standard deviations, by what is known before it is run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sgmcmc.core.types import Dynamics

SMALLEST, LARGEST = 1e-8, 4.0  # stepsizes relative to the fastest direction
GRID, BISECTIONS = 120, 20
AIM = 0.8  # of the tolerance: the rest is for what a normal approximation leaves out


class Directions(NamedTuple):
    """The posterior in the coordinates of the chain: independent directions, [D], and the noise in each.

    `vectors`, [D, D], has the directions in its columns.
    """

    precision: np.ndarray
    noise: np.ndarray
    vectors: np.ndarray


class Predicted(NamedTuple):
    """What is expected of a chain at a stepsize."""

    stepsize: float
    ratios: np.ndarray  # the sd of the chain over that of the posterior, of each direction
    iterations: float  # per independent draw, in the slowest direction

    @property
    def error(self) -> float:
        """The largest relative error of an sd."""
        return float(np.abs(self.ratios - 1).max())


def directions(precision: np.ndarray, noise: np.ndarray) -> Directions:
    """From both matrices in the coordinates of the chain.

    Where these are white, the directions are those of the noise, and all is exact. Else they are those of the precision
    H, and for the noise V stands the least c H that exceeds it in all directions, so that what follows is a bound.
    """
    values, vectors = np.linalg.eigh(precision)
    if values.max() < (1 + 1e-3) * values.min():
        of_noise, vectors = np.linalg.eigh(noise)
        return Directions(np.einsum("ji,jk,ki->i", vectors, precision, vectors), np.maximum(of_noise, 0.0), vectors)
    half = vectors / np.sqrt(values)
    return Directions(values, max(np.linalg.eigvalsh(half.T @ noise @ half)[-1], 0.0) * values, vectors)


def predicted(dynamics: Dynamics, where: Directions, stepsize: float) -> Predicted:
    """What is expected at this stepsize."""
    assert dynamics.stationary is not None
    stationary = dynamics.stationary(stepsize, where.precision, where.noise)
    ratios = np.sqrt(stationary.variance * where.precision)
    return Predicted(stepsize, ratios, float(stationary.iterations.max()))


def largest(dynamics: Dynamics, where: Directions, tolerance: float) -> Predicted:
    """The largest stepsize whose error is AIM times the tolerance; if none is so good, near the best that there is.

    The error need not vanish with the stepsize, nor grow with it: few leaps of SGHMC make sds too large, and the size
    of the steps too small. Without a good stepsize, the largest is taken that adds half the tolerance to the least
    error.
    """
    grid = np.geomspace(SMALLEST, LARGEST, GRID) / where.precision.max()
    errors = np.array([predicted(dynamics, where, eps).error for eps in grid])
    settling = max(int(np.argmin(np.append(np.isfinite(errors), False))), 1)  # up to where the chain does not settle
    least = errors[:settling].min()
    allowed = AIM * tolerance if least <= AIM * tolerance else least + tolerance / 2
    within = np.flatnonzero(errors[:settling] <= allowed)
    # The first stepsizes that are good, to their end: leaps that turn back may seem right again beyond.
    last = next(k for k in range(within[0], GRID) if k + 1 == GRID or errors[k + 1] > allowed)
    low, high = grid[last], grid[min(last + 1, GRID - 1)]
    for _ in range(BISECTIONS):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if predicted(dynamics, where, middle).error <= allowed else (low, middle)
    return predicted(dynamics, where, low)
