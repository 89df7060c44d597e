"""The kernel Stein discrepancies of candidate chains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.chains import over_chains
from sgmcmc.core.compilation import Compiled
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import aligned_zeros, shared_tensor
from sgmcmc.draws.stein import discrepancy
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.minibatch.uniform import without_replacement
from sgmcmc.model import Batch
from sgmcmc.run.product import ProductSampler


def gradients_at(sampler: ProductSampler, found: Tree, positions: Tree, size: int, seed: int) -> np.ndarray:
    """The estimated gradients at {name: [K, C, ...]}, [K, C, D], by control variates if the sampler uses them.

    At each position, all chains use the same `size` observations, so that the noise is nearly the same for them.
    """
    data, names = sampler.data, sorted(positions)
    model = sampler.model.giving_rows(frozenset())
    estimator = control_variates(model) if sampler.gradient.wants_mode else plain(model)
    stream = random.Stream(random.keys(seed, Purpose.MONITOR, 1))
    minibatch = without_replacement(data.size, size)
    n_positions, n_chains = positions[names[0]].shape[:2]

    def estimated(words: tf.Tensor, *at: tf.Tensor) -> list[tf.Tensor]:
        batch = Batch(data.layout.unpack(words), minibatch.scale or 1.0)

        def of_chain(params: Tree) -> Tree:
            return estimator.estimate(params, batch, found["estimator"], ()).gradient

        gradient = over_chains(of_chain, n_chains)(dict(zip(names, at, strict=True)))
        return [tf.reshape(gradient[name], [n_chains, -1]) for name in names]

    draw = Compiled(lambda counters: [minibatch.draw(stream, counters, {})[0]])
    program, result = Compiled(estimated, hides=True), []
    for k in range(n_positions):
        if size < data.size or k == 0:
            (indices,) = draw(tf.constant([k], tf.uint32))
            words = aligned_zeros(size, data.layout.width)
            data.take(indices.numpy()[0, 0].astype(np.int64), words)
        parts = program(shared_tensor(words), *(tf.constant(positions[name][k]) for name in names))
        result.append(np.concatenate([part.numpy() for part in parts], axis=1))
    return np.stack(result).astype(np.float64)


def flattened(positions: Tree) -> np.ndarray:
    """{name: [K, C, ...]} as [K, C, D], in the order of the gradients."""
    arrays = [positions[name] for name in sorted(positions)]
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in arrays], axis=2).astype(np.float64)


def widths(chains: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Rough posterior standard deviations, [D], from positions and gradients [K, D]: medians over the chains.

    For a normal posterior, the covariance of position and gradient divided by the variance of the position is -1 over
    the variance of the posterior, even for a chain that has not converged or is too hot. In coordinates where most
    covariances are positive, the chains' own standard deviations are used.
    """
    spreads, curved = [], []
    for x, s in chains:
        x, s = x - x.mean(axis=0), s - s.mean(axis=0)
        variance, covariance = (x**2).mean(axis=0), (x * s).mean(axis=0)
        spreads.append(np.sqrt(variance))
        with np.errstate(divide="ignore", invalid="ignore"):
            curved.append(np.sqrt(np.where(covariance < 0, variance / -covariance, np.nan)))
    found, spread = np.array(curved), np.median(spreads, axis=0)
    usual = np.isfinite(found).mean(axis=0) > 0.5
    spread[usual] = np.nanmedian(found[:, usual], axis=0)
    return np.where(spread > 0, spread, 1.0)


def discrepancies(chains: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """The kernel Stein discrepancy of each chain; infinite for one with NaN or infinite numbers."""
    finite = [(x, s) for x, s in chains if np.isfinite(x).all() and np.isfinite(s).all()]
    if not finite:
        return [np.inf] * len(chains)
    with np.errstate(over="ignore", invalid="ignore"):
        width = widths(finite) * finite[0][0].shape[1] ** 0.5  # so that typical distances between draws are about 1
        values = [discrepancy(x / width, s * width) for x, s in chains]
    return [value if np.isfinite(value) else np.inf for value in values]
