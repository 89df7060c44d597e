"""Diagnostics of the Laplace approximation, and the sandwich covariance.

Importance weights of draws from the Laplace approximation have a generalised Pareto tail. If its shape k is below 0.5,
the approximation is close; above 0.7, averages with these weights are useless (Yao, Vehtari, Simpson & Gelman 2018).

Let J be minus the Hessian of the log posterior at the mode, and I = sum_i s_i s_i^T, where s_i are the gradients of the
observations' terms there. The sandwich covariance is J^-1 I J^-1 (Huber 1967). In whitened coordinates J is the unit
matrix, and the sandwich is S = I. There a chain whose injected noise has covariance eps Q, and whose gradient noise V,

    phi' = phi + eps/2 grad + N(0, eps Q)

has covariance S on a normal posterior if Q = S - eps/4 (S + V). Mandt, Hoffman & Blei (2017, section 4) have Q = 0 and
V = N/n S, the gradient noise without control variates: then one stepsize gives this covariance.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.draws.check import Compared
from sgmcmc.dynamics import Dynamics
from sgmcmc.laplace.noise import Terms, noise_of_one
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.stepsize import MinibatchSampling, Tuning, directions
from sgmcmc.laplace.whitening import MOST_DENSE, Whitening, curvature, for_matrices, whitening

DRAWS = 500


def pareto_k(posterior: Posterior, mode: np.ndarray, white: Whitening, seed: int, verbose: bool) -> float:
    """The shape k, from DRAWS values of the log posterior on all data; NaN if one of them is NaN."""
    from arviz_stats.base import array_stats

    z = np.random.default_rng(seed).normal(size=(DRAWS, posterior.size))
    log_ratio = _log_densities(posterior, mode, mode + white.to_theta(z), verbose) + (z**2).sum(axis=1) / 2
    if np.isnan(log_ratio).any():
        return np.nan
    with np.errstate(all="ignore"), warnings.catch_warnings():  # about a tail of few draws, which k itself shows
        warnings.simplefilter("ignore")
        return float(array_stats.psislw(log_ratio)[1])


def _log_densities(posterior: Posterior, mode: np.ndarray, thetas: np.ndarray, verbose: bool) -> np.ndarray:
    """The log posterior at these points minus that at the mode."""
    model, dtype = posterior.model, posterior.model.dtype

    def differences(words: tf.Tensor, mode: tf.Tensor, thetas: tf.Tensor) -> list[tf.Tensor]:
        data = model.data.layout.unpack(words)
        at_mode = model.log_lik(posterior.split(mode), data)  # subtracted in each block, before rounding hides it

        def added(k: tf.Tensor, values: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            value = model.log_lik(posterior.split(thetas[k]), data) - at_mode
            return k + 1, values.write(k, tf.cast(value, tf.float64))

        empty = tf.TensorArray(tf.float64, size=thetas.shape[0], element_shape=[])
        return [tf.while_loop(lambda k, _: k < thetas.shape[0], added, (tf.constant(0), empty))[1].stack()]

    of_data = FullPass(model.data, differences, posterior.block)
    given = [tf.constant(mode, dtype), tf.constant(thetas, dtype)]
    (likelihood,) = of_data.summed(given, "Checking normality", verbose)
    prior = [float(model.log_prior(posterior.tree(theta))) for theta in (mode, *thetas)]
    return likelihood + np.array(prior[1:]) - prior[0]


UNKNOWN = 0.2  # the relative error of the gradient noise that Q removes
MOST = 0.1  # the largest tolerance used, so that Q stays positive definite
SMALLEST = 1e-4  # smaller eigenvalues of S count as 0: the observations carry no information on a direction
HALF = 0.5  # of the precision: if the prior has more, the data do not determine the posterior's width


class Sandwich(NamedTuple):
    half: np.ndarray  # the symmetric root of S, [D, D]
    root: Whitening  # of the sandwich of theta


def sandwich(posterior: Posterior, mode: np.ndarray, white: Whitening, seed: int) -> Sandwich:
    half, values = _symmetric_root(for_matrices(posterior, seed).score_products(mode, white.root))
    return Sandwich(half, Whitening(white.root @ half, int((values < SMALLEST).sum())))


def of_prior(posterior: Posterior, mode: np.ndarray, white: Whitening) -> tuple[float, np.ndarray]:
    """The prior's largest share of the precision in a direction, and how far theta moves along it, [D]."""
    values, vectors = np.linalg.eigh(white.root.T @ posterior.prior_precision(mode) @ white.root)
    return float(values[-1]), np.abs(white.to_theta(vectors[:, -1]))


def require_informed(of: str, posterior: Posterior, mode: np.ndarray, white: Whitening, target: Sandwich) -> None:
    """Refuse a singular sandwich, and warn of one that leaves out most of the precision."""
    if target.root.not_concave:
        least = np.abs(white.to_theta(np.linalg.eigh(target.half)[1][:, 0]))
        raise ValueError(
            f"target of {of} must be 'posterior' if the gradients of observations are 0 in a direction, mostly along "
            f"{posterior.main_names(least)}: the sandwich has zero variance there."
        )
    share, along = of_prior(posterior, mode, white)
    if share > HALF:
        warn_user(
            f"the prior of {of} contributes {min(share, 1.0):.0%} of the precision along "
            f"{posterior.main_names(along)}. The sandwich is the spread of the mode over data sets, "
            "which a prior reduces: its intervals may be too short there."
        )


def tuned_to(
    target: Sandwich,
    posterior: Posterior,
    mode: np.ndarray,
    terms: Terms,
    dynamics: Dynamics,
    drawn: MinibatchSampling,
    tolerance: float,
    seed: int,
) -> tuple[Tuning, np.ndarray]:
    """The tuning of chains in white coordinates whose covariance is the sandwich, and the root of Q, [D, D].

    The stepsize is the largest at which sds stay within the tolerance if Q removes the gradient noise up to the
    fraction UNKNOWN, and does not correct for the length of the steps, which is exact only for a normal posterior.
    """
    of_one = noise_of_one(posterior, terms, mode, target.root, 1.0, seed, drawn.probabilities).covariance
    inverse = np.linalg.inv(target.half)
    of_one = inverse @ of_one @ inverse  # from the coordinates in which the sandwich is white to those of the chain
    alone = directions(np.eye(posterior.size), UNKNOWN * inverse @ of_one @ inverse)
    drawn, chosen, efficient = drawn.chosen(dynamics, alone, min(tolerance, MOST))
    wanted = target.half @ target.half
    injected = wanted - chosen.stepsize / 4 * (wanted + drawn.share() * of_one)
    noise, _ = _symmetric_root((injected + injected.T) / 2)
    ones = np.ones(posterior.size)
    return Tuning(chosen.stepsize, chosen.error, chosen.iterations, efficient, target.root.sds, ones, {}), noise


def _symmetric_root(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric root of a matrix, [D, D], and its eigenvalues, [D]."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, values


def compared(posterior: Posterior, mode: np.ndarray, seed: int, verbose: bool) -> Compared:
    """The comparison at this mode; empty if there are too many elements for dense matrices."""
    if posterior.size > MOST_DENSE:
        return Compared()
    white = whitening(curvature(posterior, mode, seed), posterior.model.dtype)
    k = pareto_k(posterior, mode, white, seed, verbose)
    sds = sandwich(posterior, mode, white, seed).root.sds
    return Compared(k, posterior.arrays(sds), of_prior(posterior, mode, white)[0] < HALF)
