"""The stepsize that `stepsize="auto"` finds, and what is expected of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.types import Dynamics, Tree
from sgmcmc.laplace.alternatives import FIXED, Sizes, cheapest, gains
from sgmcmc.laplace.noise import Terms, noise_of_one
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.stepsize import Directions, Predicted, directions, largest
from sgmcmc.laplace.whitening import Whitening

PAYS = 1.8  # a doubled minibatch pays if an independent draw takes this many times fewer iterations


class Tuning(NamedTuple):
    """The stepsize and what is expected of it."""

    stepsize: float
    error: float  # the largest expected relative error of an sd, over all directions
    iterations: float  # per independent draw, in the slowest direction
    minibatch_size: int  # the size that pays: see `_that_pays` and `cheapest`
    sds: np.ndarray  # [D]: of each element in the chain, if the posterior is normal
    ratios: np.ndarray  # [D]: these over those of the posterior
    gains: dict[str, float]  # see `gains`

    def as_tree(self, posterior: Posterior) -> Tree:
        """The tuning as arrays, for a checkpoint."""
        values = {"stepsize": self.stepsize, "error": self.error, "iterations": self.iterations}
        arrays: dict[str, Any] = {name: np.float64(value) for name, value in values.items()}
        of_elements = {"sd": posterior.arrays(self.sds), "sdRatio": posterior.arrays(self.ratios)}
        of_others = {"gains": {name: np.float64(gain) for name, gain in self.gains.items()}}
        return arrays | {"minibatchSize": np.int64(self.minibatch_size)} | of_elements | of_others


class Drawn(NamedTuple):
    """How minibatches are drawn."""

    size: int
    n_data: int
    without_replacement: bool
    probabilities: np.ndarray | None = None  # of the observations, [N], if they are not equal
    any_size: bool = False  # whether the size is to be found
    fixed: float = FIXED  # what an iteration costs beside its gradients, in gradients

    def share(self, size: int | None = None) -> float:
        """The noise of minibatches of this size, over that for one observation with replacement."""
        n = size or self.size
        left = (self.n_data - n) / max(self.n_data - 1, 1) if self.without_replacement else 1.0
        return left / n

    def chosen(self, dynamics: Dynamics, alone: Directions, tolerance: float) -> tuple[Drawn, Predicted, int]:
        """Those of the size that is used, what is predicted for them, and the size that pays."""

        def at(size: int) -> Directions:
            return alone.scaled(self.share(size))

        if self.any_size:
            found = self._replace(size=cheapest(dynamics, at, self.n_data, self.fixed, tolerance))
            return found, largest(dynamics, at(found.size), tolerance), found.size
        chosen = largest(dynamics, at(self.size), tolerance)
        return self, chosen, _that_pays(dynamics, at, chosen, self.size, self.n_data, tolerance)


def tuned(
    posterior: Posterior,
    mode: np.ndarray,
    white: Whitening,
    root: Whitening,
    terms: Terms,
    dynamics: Dynamics,
    drawn: Drawn,
    tolerance: float,
    seed: int,
    own_reference: bool = False,
    heat: float = 1.0,
) -> Tuning:
    """The tuning of chains in the coordinates of `root`, where the posterior is white in those of `white`.

    The noise is evaluated at draws that are wider by the tolerance, as those of the
    chain may be. It counts `heat` times where elements do not move in proportion to it.
    """
    noise = noise_of_one(posterior, terms, mode, white, 1 + tolerance, seed, drawn.probabilities, own_reference)
    # From the coordinates in which the posterior is white, with the unit matrix as precision, to those of the chain.
    change = _solved(white.root, root.root)
    in_root = change.T @ change

    def seen(covariance: np.ndarray, kurtosis: np.ndarray | None = None) -> Directions:
        return directions(in_root, change.T @ covariance @ change, dynamics.along, heat, kurtosis)

    alone = seen(noise.covariance, noise.kurtosis)
    weighted = alone if noise.weighted is None else seen(noise.weighted)
    drawn, chosen, pays = drawn.chosen(dynamics, alone, tolerance)
    where = alone.scaled(drawn.share())
    return Tuning(
        chosen.stepsize,
        chosen.error,
        chosen.iterations,
        pays,
        *_of_elements(root, where, chosen),
        gains(dynamics, chosen, where, weighted.scaled(1 / drawn.size), tolerance),
    )


def _that_pays(dynamics: Dynamics, at: Sizes, chosen: Predicted, n: int, n_data: int, tolerance: float) -> int:
    """The size that pays: n, halved as long as twice as many do not, or doubled as long as they do."""
    size, iterations = n, chosen.iterations
    while size > 1:
        smaller = size // 2
        there = largest(dynamics, at(smaller), tolerance).iterations
        if there >= PAYS * iterations:
            break
        size, iterations = smaller, there
    while size < n_data:
        larger = min(2 * size, n_data)
        there = largest(dynamics, at(larger), tolerance).iterations
        if iterations < PAYS * there:
            break
        size, iterations = larger, there
    return size


def _of_elements(root: Whitening, where: Directions, chosen: Predicted) -> tuple[np.ndarray, np.ndarray]:
    """The sds of theta's elements in the chain, and their ratios to the posterior's."""
    axes = root.to_theta(where.vectors.T)  # [directions, D]
    of_posterior, of_chain = (
        axes**2 / where.precision[:, None],
        (axes * chosen.ratios[:, None]) ** 2 / where.precision[:, None],
    )
    sds = np.sqrt(of_chain.sum(axis=0))
    return sds, sds / np.sqrt(of_posterior.sum(axis=0))


def _solved(white: np.ndarray, root: np.ndarray) -> np.ndarray:
    """white^-1 root, both [D, D] or diagonals [D]."""
    return np.linalg.solve(white, root if root.ndim == 2 else np.diag(root))
