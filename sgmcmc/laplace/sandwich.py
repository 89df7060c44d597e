"""The sandwich: the covariance with which intervals cover as they say, also if the model is not quite right.

With J minus the Hessian of the log posterior at the mode and I = sum_i s_i s_i^T, of the gradients s_i of the
observations' terms there, it is J^-1 I J^-1 (Huber 1967). In coordinates in which the posterior is white, J is the unit
matrix, and the sandwich is S = I.

A chain in these coordinates whose injected noise has the covariance eps Q, and whose gradients have noise of the
covariance V,

    phi' = phi + eps/2 grad + N(0, eps Q)

has on a normal posterior the covariance S if eps S = eps^2/4 (S + V) + eps Q. So

    Q = S - eps/4 (S + V)

makes any S. Mandt, Hoffman & Blei (2017, section 4) have Q = 0 and V = N/n S, the noise of gradients without control
variates: then there is one stepsize with this covariance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sgmcmc.core.types import Dynamics
from sgmcmc.core.warn import warn_user
from sgmcmc.laplace.noise import Terms, noise_of_one
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.stepsize import directions
from sgmcmc.laplace.tuning import Drawn, Tuning
from sgmcmc.laplace.whitening import Whitening, for_matrices

UNKNOWN = 0.2  # of the gradients' noise: the error of what Q takes away for it
MOST = 0.1  # tolerance that is used, so that Q stays positive definite
SMALLEST = 1e-4  # eigenvalues of S below are 0: the observations say nothing of a direction
HALF = 0.5  # of the precision: if the prior has more, the data do not say how wide the posterior is


class Sandwich(NamedTuple):
    """The symmetric root of S, [D, D], and the root of the sandwich of theta."""

    half: np.ndarray
    root: Whitening

    @property
    def sds(self) -> np.ndarray:
        """The standard deviations of theta's elements, [D]."""
        return np.sqrt((self.root.root**2).sum(axis=1))

    @property
    def inverse_half(self) -> np.ndarray:
        """The inverse of the root of S."""
        return np.linalg.inv(self.half)


def sandwich(posterior: Posterior, mode: np.ndarray, white: Whitening, seed: int) -> Sandwich:
    """The sandwich at the mode, if the posterior there is white in the coordinates of `white`, [D, D]."""
    half, values = _half(for_matrices(posterior, seed).score_products(mode, white.root))
    return Sandwich(half, Whitening(white.root @ half, int((values < SMALLEST).sum())))


def of_prior(posterior: Posterior, mode: np.ndarray, white: Whitening) -> tuple[float, np.ndarray]:
    """The largest share of the precision that the prior has in a direction, and how far theta moves along it, [D]."""
    values, vectors = np.linalg.eigh(white.root.T @ posterior.prior_precision(mode) @ white.root)
    return float(values[-1]), np.abs(white.to_theta(vectors[:, -1]))


def require_informed(of: str, posterior: Posterior, mode: np.ndarray, white: Whitening, target: Sandwich) -> None:
    """Refuse a sandwich without width, and warn of one that leaves out most of the precision.

    Raises
    ------
    ValueError
        If the observations say nothing of a direction.
    """
    if target.root.not_concave:
        least = np.abs(white.to_theta(np.linalg.eigh(target.half)[1][:, 0]))
        raise ValueError(
            f"target of {of} must be 'posterior' if the gradients of observations are 0 in a direction, mostly along "
            f"{posterior.names(least > least.max() / 2)}: the sandwich has no width there."
        )
    share, along = of_prior(posterior, mode, white)
    if share > HALF:
        warn_user(
            f"the prior of {of} has {min(share, 1.0):.0%} of the precision along "
            f"{posterior.names(along > along.max() / 2)}. The sandwich has the spread of the mode over data sets, "
            "which a prior makes small: its intervals may be too short there."
        )


def tuned_to(
    target: Sandwich,
    posterior: Posterior,
    mode: np.ndarray,
    terms: Terms,
    dynamics: Dynamics,
    drawn: Drawn,
    tolerance: float,
    seed: int,
) -> tuple[Tuning, np.ndarray]:
    """The tuning of chains in white coordinates whose covariance is the sandwich, and the root of Q, [D, D].

    The stepsize is the largest at which sds stay within the tolerance if Q takes the noise of the gradients away up to
    a part that is UNKNOWN, and nothing for the length of the steps, which is exact only for a normal posterior.
    """
    of_one = noise_of_one(posterior, terms, mode, target.root, 1.0, seed, drawn.probabilities).covariance
    inverse = target.inverse_half
    of_one = inverse @ of_one @ inverse  # from the coordinates in which the sandwich is white to those of the chain
    alone = directions(np.eye(posterior.size), UNKNOWN * inverse @ of_one @ inverse)
    drawn, chosen, pays = drawn.chosen(dynamics, alone, min(tolerance, MOST))
    wanted = target.half @ target.half
    injected = wanted - chosen.stepsize / 4 * (wanted + drawn.share() * of_one)
    noise, _ = _half((injected + injected.T) / 2)
    ones = np.ones(posterior.size)
    return Tuning(chosen.stepsize, chosen.error, chosen.iterations, pays, target.sds, ones, {}), noise


def _half(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric root of a matrix, [D, D], and the matrix's eigenvalues, [D]."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, values
