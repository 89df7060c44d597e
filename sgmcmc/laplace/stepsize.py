"""The largest stepsize whose chain has the right standard deviations, by what is known before it is run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sgmcmc.core.types import Dynamics

SMALLEST, LARGEST = 1e-8, 4.0  # stepsizes relative to the fastest direction
BISECTIONS = 40


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

    Where these are white, the directions are those of the noise, and all is exact; else those of the precision, and the
    noise between them is left out.
    """
    values, vectors = np.linalg.eigh(precision)
    if values.max() < (1 + 1e-3) * values.min():
        of_noise, vectors = np.linalg.eigh(noise)
        return Directions(np.einsum("ji,jk,ki->i", vectors, precision, vectors), np.maximum(of_noise, 0.0), vectors)
    return Directions(values, np.einsum("ji,jk,ki->i", vectors, noise, vectors), vectors)


def predicted(dynamics: Dynamics, where: Directions, stepsize: float) -> Predicted:
    """What is expected at this stepsize."""
    assert dynamics.stationary is not None
    stationary = dynamics.stationary(stepsize, where.precision, where.noise)
    ratios = np.sqrt(stationary.variance * where.precision)
    return Predicted(stepsize, ratios, float(stationary.iterations.max()))


def largest(dynamics: Dynamics, where: Directions, tolerance: float) -> Predicted:
    """The largest stepsize whose error is below the tolerance.

    If none is, since the error does not vanish with the stepsize, the largest with an error that is larger than at the
    smallest by no more than the tolerance.
    """
    low, high = (x / where.precision.max() for x in (SMALLEST, LARGEST))
    allowed = max(tolerance, predicted(dynamics, where, low).error + tolerance / 2)
    for _ in range(BISECTIONS):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if predicted(dynamics, where, middle).error <= allowed else (low, middle)
    return predicted(dynamics, where, low)
