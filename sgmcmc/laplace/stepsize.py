"""The stepsize that `stepsize="auto"` finds: the largest with accurate standard deviations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.laplace.noise import Terms, noise_of_one
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening

Along = Callable[[np.ndarray, np.ndarray], np.ndarray]  # see `Dynamics.along`

SMALLEST, LARGEST = 1e-8, 4.0  # stepsizes relative to the fastest direction
JUMPS = np.pi / 2  # the weight of rare, large noise for zig-zag, relative to its size; for Barker's it is 1
GRID, BISECTIONS = 120, 20
AIM = 0.8  # of the tolerance: the rest allows for the error of the normal approximation


class Directions(NamedTuple):
    """The precision and the noise in D independent directions."""

    precision: np.ndarray
    noise: np.ndarray
    vectors: np.ndarray  # the directions in its columns, [D, D]
    mixed: bool = False  # by the dynamics, so that each may have the error of the worst
    slowing: np.ndarray | None = None  # the noise on which the autocorrelation depends, if it differs
    jumps: np.ndarray | None = None  # the squared sizes of large noise, if the variance depends on them too

    def scaled(self, factor: float) -> Directions:
        """The same with the noise multiplied by a factor, as by a smaller minibatch."""
        slowing = None if self.slowing is None else factor * self.slowing
        jumps = None if self.jumps is None else factor**2 * self.jumps
        return self._replace(noise=factor * self.noise, slowing=slowing, jumps=jumps)


class Predicted(NamedTuple):
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

    If the posterior is white in these, the directions are the eigenvectors of the noise, and the prediction is exact.
    Otherwise they are those of the precision H, and the noise V is replaced by the smallest c H that is at least V in
    all directions, so that the prediction is a bound.

    With `along` of the dynamics the prediction is to first order in the stepsize, the noise counts `heat` times, and
    the `kurtosis` of the elements in white coordinates gives the jumps. Where the posterior is not white, every
    direction has the largest noise of all.
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
    of_elements = np.maximum(np.diag(noise), 0.0)
    own = of_elements @ axes**2
    seen = heat * along(of_noise, own)
    if white:
        jumps = None if kurtosis is None else (of_elements * kurtosis) @ axes**2
        return Directions(_along(precision, axes), seen, axes, slowing=own, jumps=jumps)
    most = None if kurtosis is None else np.full_like(values, of_elements.max() * kurtosis.max())
    typical = np.full_like(values, own.mean())
    return Directions(values, np.full_like(values, seen.max()), vectors, True, typical, most)


def _along(matrix: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """The quadratic form of the matrix along each of these axes, [D]."""
    return np.einsum("ji,jk,ki->i", axes, matrix, axes)


def predicted(dynamics: Dynamics, where: Directions, stepsize: float) -> Predicted:
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

    The error need not vanish with the stepsize, nor grow with it: few leaps of SGHMC make sds too large, long steps too
    small. If no stepsize is good enough, the largest error allowed is the smallest one plus half the tolerance.
    """
    grid = np.geomspace(SMALLEST, LARGEST, GRID) / where.precision.max()
    errors = np.array([predicted(dynamics, where, eps).error for eps in grid])
    # Up to the first stepsize at which the chain does not settle.
    settling = max(int(np.argmin(np.append(np.isfinite(errors), False))), 1)
    least = errors[:settling].min()
    if not np.isfinite(least):
        raise ValueError(
            "stepsize='auto' finds no stepsize at which the chain settles: the gradient noise or the curvature is "
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


FRICTION, LEAPS = 0.01, 20  # of the SGHMC used for comparison
FIXED = 20  # the cost of an iteration besides its gradients, in gradients; measured with four chains
MOVED = 3  # added for each further multiple of the elements in an observation's gradient that a step moves
STEPS = 2  # sizes tried for each doubling

Sizes = Callable[[int], Directions]  # from the size of a minibatch


def overhead(size: int, touched: float) -> float:
    """The cost of an iteration besides its gradients, each of which has `touched` of the elements."""
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
    """The factors by which alternatives would reduce the gradients for an independent draw; above 1 is a gain.

    `preferential`: with the noise in `weighted`. `momentum` or `noMomentum`: with SGHMC in place of SGLD, or SGLD in
    place of a sampler with momentum. 0 if an alternative does not keep the tolerance.
    """

    def gain(other: Dynamics, there: Directions) -> float:
        found = largest(other, there, tolerance)
        cost = found.iterations * other.leaps
        return chosen.iterations * dynamics.leaps / cost if found.error <= tolerance else 0.0

    name, other = ("noMomentum", sgld()) if dynamics.momentum else ("momentum", sghmc(FRICTION, LEAPS))
    return {"preferential": gain(dynamics, weighted), name: gain(other, where)}


EFFICIENT = 1.8  # a doubled minibatch is efficient if an independent draw takes this many times fewer iterations


class Tuning(NamedTuple):
    stepsize: float
    error: float  # the largest predicted relative error of an sd, over all directions
    iterations: float  # per independent draw, in the slowest direction
    minibatch_size: int  # the efficient size: see `_efficient_size` and `cheapest`
    sds: np.ndarray  # [D]: of each element in the chain, if the posterior is normal
    ratios: np.ndarray  # [D]: these over those of the posterior
    gains: dict[str, float]  # see `gains`

    def as_tree(self, posterior: Posterior) -> Tree:
        """The tuning as arrays, for a checkpoint."""
        return {
            "stepsize": np.float64(self.stepsize),
            "error": np.float64(self.error),
            "iterations": np.float64(self.iterations),
            "minibatchSize": np.int64(self.minibatch_size),
            "sd": posterior.arrays(self.sds),
            "sdRatio": posterior.arrays(self.ratios),
            "gains": {name: np.float64(gain) for name, gain in self.gains.items()},
        }


class MinibatchSampling(NamedTuple):
    size: int
    n_data: int
    without_replacement: bool
    probabilities: np.ndarray | None = None  # of the observations, [N], if they are not equal
    any_size: bool = False  # whether the size is to be found
    fixed: float = FIXED  # the cost of an iteration besides its gradients, in gradients

    def share(self, size: int | None = None) -> float:
        """The noise of minibatches of this size, relative to one observation with replacement."""
        n = size or self.size
        left = (self.n_data - n) / max(self.n_data - 1, 1) if self.without_replacement else 1.0
        return left / n

    def chosen(
        self, dynamics: Dynamics, alone: Directions, tolerance: float
    ) -> tuple[MinibatchSampling, Predicted, int]:
        """The same with the size that is used, the prediction for it, and the efficient size."""

        def at(size: int) -> Directions:
            return alone.scaled(self.share(size))

        if self.any_size:
            found = self._replace(size=cheapest(dynamics, at, self.n_data, self.fixed, tolerance))
            return found, largest(dynamics, at(found.size), tolerance), found.size
        chosen = largest(dynamics, at(self.size), tolerance)
        return self, chosen, _efficient_size(dynamics, at, chosen, self.size, self.n_data, tolerance)


def tuned(
    posterior: Posterior,
    mode: np.ndarray,
    white: Whitening,
    root: Whitening,
    terms: Terms,
    dynamics: Dynamics,
    drawn: MinibatchSampling,
    tolerance: float,
    seed: int,
    has_own_reference: bool,
    heat: float,
) -> Tuning:
    """The tuning of chains in the coordinates of `root`, where the posterior is white in those of `white`.

    The noise counts `heat` times where elements do not move in proportion to it.
    """
    # At draws that are wider by the tolerance, as those of the chain may be.
    noise = noise_of_one(posterior, terms, mode, white, 1 + tolerance, seed, drawn.probabilities, has_own_reference)
    # From the coordinates in which the posterior is white, with the unit matrix as precision, to those of the chain.
    change = np.linalg.solve(white.root, root.root if root.root.ndim == 2 else np.diag(root.root))
    in_root = change.T @ change

    def seen(covariance: np.ndarray, kurtosis: np.ndarray | None = None) -> Directions:
        return directions(in_root, change.T @ covariance @ change, dynamics.along, heat, kurtosis)

    alone = seen(noise.covariance, noise.kurtosis)
    weighted = alone if noise.weighted is None else seen(noise.weighted)
    drawn, chosen, efficient = drawn.chosen(dynamics, alone, tolerance)
    where = alone.scaled(drawn.share())
    sds, ratios = _of_elements(root, where, chosen)
    gained = gains(dynamics, chosen, where, weighted.scaled(1 / drawn.size), tolerance)
    return Tuning(chosen.stepsize, chosen.error, chosen.iterations, efficient, sds, ratios, gained)


def _efficient_size(dynamics: Dynamics, at: Sizes, chosen: Predicted, n: int, n_data: int, tolerance: float) -> int:
    """The efficient size: n, halved while doubling would not be efficient, or doubled while it is."""

    def iterations(size: int) -> float:
        return largest(dynamics, at(size), tolerance).iterations

    size, here = n, chosen.iterations
    while size > 1 and (smaller := iterations(size // 2)) < EFFICIENT * here:
        size, here = size // 2, smaller
    while size < n_data and here >= EFFICIENT * (larger := iterations(min(2 * size, n_data))):
        size, here = min(2 * size, n_data), larger
    return size


def _of_elements(root: Whitening, where: Directions, chosen: Predicted) -> tuple[np.ndarray, np.ndarray]:
    """The sds of theta's elements in the chain, and their ratios to the posterior's."""
    axes = root.to_theta(where.vectors.T)  # [directions, D]
    of_posterior = axes**2 / where.precision[:, None]
    of_chain = (axes * chosen.ratios[:, None]) ** 2 / where.precision[:, None]
    sds = np.sqrt(of_chain.sum(axis=0))
    return sds, sds / np.sqrt(of_posterior.sum(axis=0))
