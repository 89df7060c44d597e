"""The bias of a chain that stays on each shard of the data for m iterations.

On a Gaussian posterior with its mode at 0 the chain is an autoregression: an iteration on shard k is

    x <- (I - M H_k) x + M b_k + noise

with M the matrix that determines how far it moves, H_k the curvature of the prior and of N/N_k times the shard's
observations, and b_k their gradient at the mode, or 0 with control variates. Shard k has probability f_k = N_k / N, so
that the mean of the H_k is the curvature H of the posterior. The noise is such that the chain would have covariance
V = H^-1 if all shards were alike.

In coordinates in which M is the unit matrix, a stay separates into independent directions along the eigenvectors of
H_k. The second moments W at the beginning of a stay solve a linear equation,

    W = sum_k f_k E[x_m x_m' | stay on shard k, E[x_0 x_0'] = W],

and those of a draw are the means over the iterations of a stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sgmcmc.dynamics import Dynamics

STEPS, CLOSE = 1000, 1e-6  # the most steps to the solution; the relative size of the last
PLACES = 64  # iterations of a stay over which means are taken
LARGE = 1e6  # times the posterior's variance: a chain that does not settle


class Shard(NamedTuple):
    """The contribution of a shard at the posterior mode, scaled to all N observations."""

    share: float  # N_k / N
    precision: np.ndarray  # [D, D]
    gradient: np.ndarray  # [D]; 0 with control variates


def mobility(dynamics: Dynamics, stepsize: float, precision: np.ndarray) -> np.ndarray:
    """How far a chain moves in an iteration per unit of the gradient, [D], by its autocorrelation times."""
    assert dynamics.stationary is not None
    time = dynamics.stationary(stepsize, precision, np.zeros_like(precision)).iterations
    return 2 / (time + 1) / precision


def sd_ratios(shards: Sequence[Shard], root: np.ndarray, hop: int) -> np.ndarray:
    """The sds of the chain's elements over the posterior's, [D], for a root of M; infinite if it does not settle."""
    precision = sum(shard.share * (root.T @ shard.precision @ root) for shard in shards)
    noise, posterior = 2 * np.eye(len(root)) - precision, np.linalg.inv(precision)
    stays = [_Stay(shard, root, noise) for shard in shards]
    places = np.unique(np.linspace(1, hop, min(hop, PLACES)).round())
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        start = _start(stays, hop, posterior)
        if start is None:
            return np.full(len(root), np.inf)
        draws = sum(stay.share * stay.moments(*start, places)[1] for stay in stays)
        of_chain, of_posterior = (np.einsum("ij,jk,ik->i", root, x, root) for x in (draws, posterior))
        return np.sqrt(of_chain / of_posterior)


def _start(stays: Sequence[_Stay], hop: int, posterior: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The mean and the second moments at the beginning of a stay, if the chain settles."""
    size, end = len(posterior), np.array([hop])
    origin, nothing = np.zeros(size), np.zeros([size, size])
    values, vectors = np.linalg.eigh(sum(stay.share * stay.decay(hop) for stay in stays))
    shift = sum(stay.share * stay.moments(origin, nothing, end)[0] for stay in stays)
    mean, moments = vectors @ ((vectors.T @ shift) / (1 - values)), posterior
    for _ in range(STEPS):
        after = sum(stay.share * stay.moments(mean, moments, end)[1] for stay in stays)
        # This step would be the last if all stays had the mean decay.
        step = vectors @ ((vectors.T @ (after - moments) @ vectors) / (1 - np.outer(values, values))) @ vectors.T
        moments = moments + step
        if not np.abs(moments).max() < LARGE * np.abs(posterior).max():
            return None
        if np.abs(step).max() < CLOSE * np.abs(moments).max():
            # Without a stationary distribution the solution, if there is one, is not a matrix of moments.
            return (mean, moments) if np.linalg.eigvalsh(moments)[0] > 0 else None
    return None


class _Stay:
    """A stay on one shard, in coordinates in which M is the unit matrix."""

    def __init__(self, shard: Shard, root: np.ndarray, noise: np.ndarray) -> None:
        self.share = shard.share
        values, self._axes = np.linalg.eigh(root.T @ shard.precision @ root)
        self._values = np.where(np.abs(values) < 1e-30, 1e-30, values)
        self._gradient = self._axes.T @ (root.T @ shard.gradient)
        self._noise = self._axes.T @ noise @ self._axes

    def decay(self, iterations: int) -> np.ndarray:
        return (self._axes * (1 - self._values) ** iterations) @ self._axes.T

    def moments(self, mean: np.ndarray, moments: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the second moments after `places` iterations, averaged over `places`."""
        axes, values = self._axes, self._values
        # By expm1, since the directions that hardly move in a stay matter most.
        is_small, times = np.abs(values) < 0.5, places[:, None]
        of_small = -np.expm1(times * np.log1p(-np.where(is_small, values, 0.0)))
        gone = np.where(is_small, of_small, 1 - (1 - values) ** times)  # [places, D]
        left, added = 1 - gone, gone / values * self._gradient
        start, number = axes.T @ mean, len(places)
        lost = (gone.mean(axis=0)[:, None] + gone.mean(axis=0)) - gone.T @ gone / number
        cross = (left * start).T @ added / number
        after = (1 - lost) * (axes.T @ moments @ axes) + cross + cross.T + added.T @ added / number
        after = after + self._noise * lost / (values[:, None] + values - np.outer(values, values))
        return axes @ (left.mean(axis=0) * start + added.mean(axis=0)), axes @ after @ axes.T
