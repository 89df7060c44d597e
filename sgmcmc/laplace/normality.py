"""How far a posterior is from the normal distribution with its curvature at the mode.

The weights p(theta) / q(theta) of draws from that distribution q are equal if p is q. Otherwise their largest follow a
generalised Pareto distribution, whose shape k says how far p is from q: below 0.5 they are close, beyond 0.7 averages
with these weights are of no use (Yao, Vehtari, Simpson & Gelman 2018).
"""

from __future__ import annotations

import warnings

import numpy as np
import tensorflow as tf

from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening

DRAWS = 500


def pareto_k(posterior: Posterior, mode: np.ndarray, white: Whitening, seed: int, verbose: bool) -> float:
    """The shape k for a posterior that is white in the coordinates of `white`.

    It takes DRAWS values of the log posterior from all data, and is NaN if one of them is NaN.
    """
    from arviz_stats.base import array_stats

    z = np.random.default_rng(seed).normal(size=(DRAWS, posterior.size))
    log_ratio = _log_densities(posterior, mode, mode + white.to_theta(z), verbose) + (z**2).sum(axis=1) / 2
    if np.isnan(log_ratio).any():
        return np.nan
    with np.errstate(all="ignore"), warnings.catch_warnings():  # of a tail of few draws, which k itself tells of
        warnings.simplefilter("ignore")
        return float(array_stats.psislw(log_ratio)[1])


def _log_densities(posterior: Posterior, mode: np.ndarray, thetas: np.ndarray, verbose: bool) -> np.ndarray:
    """The log posterior at these points less that at the mode.

    The difference is taken in each small block, since that of the sums would be lost in rounding.
    """
    model, dtype = posterior.model, posterior.model.dtype

    def differences(words: tf.Tensor, mode: tf.Tensor, thetas: tf.Tensor) -> list[tf.Tensor]:
        data = model.data.layout.unpack(words)
        at_mode = model.log_lik(posterior.split(mode), data)

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
