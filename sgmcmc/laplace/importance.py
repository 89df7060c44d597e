"""The sizes of the observations' terms, for minibatches that prefer large ones.

The expected covariance of the estimate's noise has the smallest trace if the
probabilities are in proportion to the root mean square of the terms, at draws from the
Laplace approximation and in the coordinates of the chain. For control variates, whose
terms are H_i (theta - centre) to first order, this is the root of tr(H_i Sigma H_i^T)
with the Hessians H_i (Putcha, Nemeth & Fearnhead 2023, eq. 16). For plain gradients
only the mode is used (eq. 11).
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.parameters import joined
from sgmcmc.dataset.entry import first_non_finite
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.laplace.noise import Terms
from sgmcmc.laplace.posterior import BLOCK, Posterior
from sgmcmc.laplace.whitening import Whitening

DRAWS = 8


def importance(
    posterior: Posterior,
    terms: Terms,
    centred: bool,
    mode: np.ndarray,
    white: Whitening,
    root: Whitening,
    seed: int,
    verbose: bool,
) -> np.ndarray:
    """The root mean square of each observation's term, at the mode or at draws around it, [N]."""
    data, dtype = posterior.model.data, posterior.model.dtype
    A = tf.constant(root.root, dtype)  # noqa: N806

    def squares(words: tf.Tensor, thetas: tf.Tensor, A: tf.Tensor) -> list[tf.Tensor]:  # noqa: N803
        rows = data.layout.unpack(words)

        def added(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            t = joined(terms(posterior.split(thetas[k]), rows))
            t = tf.matmul(t, A) if A.shape.rank == 2 else t * A
            return k + 1, total + tf.reduce_sum(t**2, axis=1)

        zeros = tf.zeros([words.shape[0]], dtype)
        return [tf.while_loop(lambda k, _: k < thetas.shape[0], added, (tf.constant(0), zeros))[1]]

    def rms(thetas: np.ndarray) -> np.ndarray:
        blocks = FullPass(data, squares, max(16, BLOCK // posterior.size))
        given = [tf.constant(thetas, dtype), A]
        (total,) = blocks.joined(given, "Weighing observations", verbose)
        posterior.passes.count("weights", len(thetas) * data.size)
        return np.sqrt(total.astype(np.float64) / len(thetas))

    around = white.to_theta(np.random.default_rng(seed).normal(size=(DRAWS, posterior.size))) if centred else 0.0
    sizes = rms(mode[None] + around)
    if not np.isfinite(sizes).all():
        where = "around the mode, at draws from a normal approximation" if centred else "at the mode"
        because = next(filter(None, map(posterior.explained, mode[None] + around)), "their squares are too large.")
        raise ValueError(
            f"logLik must have finite gradients {where}, from which weights are computed; got "
            f"{first_non_finite(sizes)}: {because}"
        )
    return sizes if sizes.any() else np.ones_like(sizes)
