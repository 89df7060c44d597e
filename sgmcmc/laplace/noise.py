"""Gradient noise at draws from the Laplace approximation, and the sizes of the observations' terms.

An estimate from n observations is N/n times the sum of their terms t_i: their gradients, or with control variates their
differences from the gradients at the centre. With C the covariance of the terms over all observations, and s the sum of
all t_i, the noise has covariance

    N^2/n C        drawn with replacement
    N^2/n C (N - n)/(N - 1)        without
    1/n (sum_i t_i t_i^T / p_i - s s^T)        drawn with replacement by probabilities p_i

averaged over the draws, in whitened coordinates. Where a few observations cause most of the noise, its kurtosis matters
too; at a draw it is E t_i^4 / (E t_i^2)^2 in each element for one observation.

The expected covariance has the smallest trace if the probabilities are proportional to the root mean square of the
terms in the coordinates of the chain. For control variates, whose terms are H_i (theta - centre) to first order with
the Hessians H_i, this is the root of tr(H_i Sigma H_i^T) (Putcha, Nemeth & Fearnhead 2023, eq. 16). For plain gradients
only the mode is used (eq. 11).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.compilation import Compiled
from sgmcmc.core.trees import Tree, joined
from sgmcmc.dataset import derivative_block
from sgmcmc.dataset.arrays import first_non_finite
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.dataset.subset import random_subset
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening

DRAWS = 16
WEIGHED = 500  # elements; for more, the gain from weights is not computed
FEWEST, MOST, SHARE = 2000, 10_000, 32  # observations of each draw: at least, at most, and in between N / SHARE


class Noise(NamedTuple):
    """The gradient noise of minibatches of one observation."""

    covariance: np.ndarray  # [D, D]
    weighted: np.ndarray | None  # with weights proportional to |t_i|; None for more than WEIGHED elements
    kurtosis: np.ndarray  # of the elements, [D]


class Terms(NamedTuple):
    """Each observation's term in the gradient before there is a chain, by `Gradient.terms` and its constants.

    The constants, such as the mode, are arguments of the programs, which are so the same for all data of one shape.
    """

    of: Callable[[Tree, Tree, Tree, None], Tree] | None
    constants: Tree

    def at(self, params: Tree, rows: Tree, constants: Sequence[tf.Tensor]) -> tf.Tensor:
        """The terms of these observations, [n, D]."""
        assert self.of is not None
        return joined(self.of(params, rows, tf.nest.pack_sequence_as(self.constants, constants), None))


UNEXPLAINED = (
    "their squares are too large for the dtype: rescale the parameters, use dtype='float64', or give a number as "
    "stepsize."
)


def noise_of_one(
    posterior: Posterior,
    terms: Terms,
    centre: np.ndarray,
    white: Whitening,
    sd: float,
    seed: int,
    probabilities: np.ndarray | None,
    has_own_reference: bool = False,  # the mean of the terms counts as noise too
) -> Noise:
    """The noise at draws from the approximation, `sd` times as far from its centre."""
    d, data, dtype = posterior.size, posterior.model.data, posterior.model.dtype
    n_data, few = data.size, d <= WEIGHED
    size = int(np.clip(n_data // SHARE, FEWEST, MOST))
    root = tf.constant(white.root if white.root.ndim == 2 else np.diag(white.root), dtype)

    def moments(words: tf.Tensor, theta: tf.Tensor, root: tf.Tensor, *others: tf.Tensor) -> list[tf.Tensor]:
        *constants, weights = others
        t = terms.at(posterior.split(theta), data.layout.unpack(words), constants)
        t = tf.matmul(t, root)  # [n, D], A^T t for each
        sizes, tiny = tf.norm(t, axis=1, keepdims=True), np.finfo(t.dtype.as_numpy_dtype).tiny
        return [
            tf.cast(tf.reduce_sum(t, axis=0), tf.float64),
            tf.cast(tf.matmul(t, weights[:, None] * t, transpose_a=True), tf.float64),
            tf.cast(tf.matmul(t, t / tf.maximum(sizes, tiny), transpose_a=True) if few else [[0.0]], tf.float64),
            tf.cast(tf.reduce_sum(sizes), tf.float64),
            tf.reduce_sum(tf.cast(weights[:, None], tf.float64) ** 3 * tf.cast(t, tf.float64) ** 4, axis=0),
        ]

    rng, programs = np.random.default_rng(seed), dict[int, Compiled]()
    z = rng.normal(size=(DRAWS, d))
    z /= np.sqrt((z**2).mean(axis=0))  # exact second moments despite few draws, since the noise depends mostly on them
    total, preferred, large, square = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(d)
    for draw, theta in enumerate(centre + white.to_theta(sd * z)):
        some = random_subset(data, size, seed + draw)
        relative = np.ones(some.size)  # the probabilities of these observations, relative to 1/N
        if probabilities is not None:
            relative = n_data * probabilities[getattr(some, "indices", slice(None))]
        given = [tf.constant(theta, dtype), root, *tf.nest.flatten(terms.constants)]
        weights = [(1 / relative).astype(dtype.as_numpy_dtype)]
        of_some = FullPass(some, moments, derivative_block(data, d), programs)
        first, second, weighted, sizes, power = of_some.summed(given, of_each=weights)
        posterior.passes.count("terms", some.size)
        if not np.isfinite(second).all():
            raise ValueError(
                "stepsize='auto' needs finite gradients of single observations around the mode, at draws from "
                f"a normal approximation: {posterior.of(some).explained(theta) or UNEXPLAINED}"
            )
        mean = 0.0 if has_own_reference else np.outer(first, first) / some.size**2
        total += second / some.size - mean
        preferred += sizes * weighted / some.size**2 - mean
        squares = np.maximum(np.diag(second), np.finfo(float).tiny)
        large += power / squares
        square += squares / some.size
    by_size = n_data**2 * preferred / DRAWS if few else None
    return Noise(n_data**2 * total / DRAWS, by_size, large / square)


DRAWS_OF_TERMS = 8


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

    def squares(words: tf.Tensor, thetas: tf.Tensor, A: tf.Tensor, *constants: tf.Tensor) -> list[tf.Tensor]:  # noqa: N803
        rows = data.layout.unpack(words)

        def added(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            t = terms.at(posterior.split(thetas[k]), rows, constants)
            t = tf.matmul(t, A) if A.shape.rank == 2 else t * A
            return k + 1, total + tf.reduce_sum(t**2, axis=1)

        zeros = tf.zeros([words.shape[0]], dtype)
        return [tf.while_loop(lambda k, _: k < thetas.shape[0], added, (tf.constant(0), zeros))[1]]

    thetas, where = mode[None], "at the mode"
    if centred:
        where = "around the mode, at draws from a normal approximation"
        thetas = thetas + white.to_theta(np.random.default_rng(seed).normal(size=(DRAWS_OF_TERMS, posterior.size)))
    blocks = FullPass(data, squares, derivative_block(data, posterior.size))
    given = [tf.constant(thetas, dtype), A, *tf.nest.flatten(terms.constants)]
    (total,) = blocks.joined(given, "Weighing observations", verbose)
    posterior.passes.count("weights", len(thetas) * data.size)
    sizes = np.sqrt(total.astype(np.float64) / len(thetas))
    if not np.isfinite(sizes).all():
        because = next(filter(None, map(posterior.explained, thetas)), "their squares are too large.")
        raise ValueError(
            f"logLik must have finite gradients {where}, from which weights are computed; got "
            f"{first_non_finite(sizes)}: {because}"
        )
    return sizes if sizes.any() else np.ones_like(sizes)
