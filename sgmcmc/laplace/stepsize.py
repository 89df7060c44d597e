"""The largest stepsize with accurate standard deviations, predicted before the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgmcmc.core.types import Dynamics

Along = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""See `Dynamics.along`."""

SMALLEST, LARGEST = 1e-8, 4.0  # stepsizes relative to the fastest direction
JUMPS = np.pi / 2  # times the size, how much noise counts for zig-zag if it is rare and large; for Barker's it is 1
GRID, BISECTIONS = 120, 20
AIM = 0.8  # of the tolerance: the rest allows for the error of the normal approximation


class Directions(NamedTuple):
    """The precision and the noise in D independent directions.

    The directions are the columns of `vectors`, [D, D]. If the dynamics mixes them, each
    may have the error of the worst. `slowing` is the noise on which the autocorrelation
    depends, if that is another. `jumps` are the squares of the size that the noise has
    where there is much of it, if the variance depends on that too: it falls as the square
    of the size of minibatches.
    """

    precision: np.ndarray
    noise: np.ndarray
    vectors: np.ndarray
    mixed: bool = False
    slowing: np.ndarray | None = None
    jumps: np.ndarray | None = None

    def scaled(self, factor: float) -> Directions:
        """With noise so many times as large."""
        return self._replace(
            noise=factor * self.noise,
            slowing=None if self.slowing is None else factor * self.slowing,
            jumps=None if self.jumps is None else factor**2 * self.jumps,
        )


class Predicted(NamedTuple):
    """The predicted properties of a chain at a stepsize."""

    stepsize: float
    ratios: np.ndarray  # the sd of the chain over that of the posterior, of each direction
    iterations: float  # per independent draw, in the slowest direction

    @property
    def error(self) -> float:
        """The largest relative error of an sd."""
        return float(np.abs(self.ratios - 1).max())


def directions(
    precision: np.ndarray,
    noise: np.ndarray,
    along: Along | None = None,
    heat: float = 1.0,
    kurtosis: np.ndarray | None = None,
) -> Directions:
    """The directions, from the matrices in the coordinates of the chain.

    If the posterior is white in these, the directions are the eigenvectors of the
    noise, and the prediction is exact. Otherwise they are those of the precision H, and
    the noise V is replaced by the smallest c H that is at least V in all directions, so
    that the prediction is a bound.

    With `along` of the dynamics the prediction is to the first order in the stepsize, with
    noise that counts `heat` times, and with jumps by the `kurtosis` of the elements in
    white coordinates. Where the posterior is not white, the directions have the largest
    noise of all.
    """
    values, vectors = np.linalg.eigh(precision)
    white = values.max() < (1 + 1e-3) * values.min()
    if along is None and not white:
        half = vectors / np.sqrt(values)
        return Directions(values, max(np.linalg.eigvalsh(half.T @ noise @ half)[-1], 0.0) * values, vectors)
    of_noise, axes = np.linalg.eigh(noise)
    of_noise = np.maximum(of_noise, 0.0)
    if along is None:
        return Directions(_along(precision, axes), of_noise, axes)
    of_elements, jumps = np.maximum(np.diag(noise), 0.0), None
    own = of_elements @ axes**2
    seen = heat * along(of_noise, own)
    if kurtosis is not None:
        jumps = (of_elements * kurtosis) @ axes**2
    if white:
        return Directions(_along(precision, axes), seen, axes, slowing=own, jumps=jumps)
    most = None if kurtosis is None else np.full_like(values, of_elements.max() * kurtosis.max())
    typical = np.full_like(values, own.mean())
    return Directions(values, np.full_like(values, seen.max()), vectors, True, typical, most)


def _along(matrix: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Its values along these axes, [D]."""
    return np.einsum("ji,jk,ki->i", axes, matrix, axes)


def predicted(dynamics: Dynamics, where: Directions, stepsize: float) -> Predicted:
    """The prediction for this stepsize."""
    assert dynamics.stationary is not None
    noise = where.noise if where.jumps is None else np.maximum(where.noise, JUMPS * where.jumps)
    stationary = dynamics.stationary(stepsize, where.precision, noise)
    ratios = np.sqrt(stationary.variance * where.precision)
    if where.mixed:
        ratios = np.full_like(ratios, ratios[np.abs(ratios - 1).argmax()])
    if where.slowing is not None:
        stationary = dynamics.stationary(stepsize, where.precision, where.slowing)
    return Predicted(stepsize, ratios, float(stationary.iterations.max()))


def largest(dynamics: Dynamics, where: Directions, tolerance: float) -> Predicted:
    """The prediction for the largest stepsize with an error of at most AIM * tolerance.

    The error may not vanish with the stepsize, nor grow with it: few leaps of SGHMC
    make sds too large, and large steps make them too small. If no stepsize is good
    enough, the result is the largest whose error is at most the smallest error plus
    half the tolerance.
    """
    grid = np.geomspace(SMALLEST, LARGEST, GRID) / where.precision.max()
    errors = np.array([predicted(dynamics, where, eps).error for eps in grid])
    settling = max(
        int(np.argmin(np.append(np.isfinite(errors), False))), 1
    )  # up to the first stepsize at which the chain does not settle
    least = errors[:settling].min()
    if not np.isfinite(least):
        raise ValueError(
            "stepsize='auto' finds no stepsize at which the chain settles: the gradients' noise or the curvature is "
            "not finite around the mode. Give a number as stepsize, which tune can find."
        )
    allowed = AIM * tolerance if least <= AIM * tolerance else least + tolerance / 2
    within = np.flatnonzero(errors[:settling] <= allowed)
    # The end of the first range of good stepsizes: beyond it, leaps that turn back may appear good again.
    last = next(k for k in range(within[0], GRID) if k + 1 == GRID or errors[k + 1] > allowed)
    low, high = grid[last], grid[min(last + 1, GRID - 1)]
    for _ in range(BISECTIONS):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if predicted(dynamics, where, middle).error <= allowed else (low, middle)
    return predicted(dynamics, where, low)
