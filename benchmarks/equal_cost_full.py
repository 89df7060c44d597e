"""The methods of equal_cost.py that use all data: NUTS and MALA of TensorFlow Probability, Laplace and ADVI.

All are given the mode and the curvature there, as `stepsize="auto"` finds them: NUTS and MALA run in whitened
coordinates, and ADVI starts with the mode and the conditional standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from automatic import CHAINS, DRAWS, Flat

WARM_UP, FEWEST = 100, 10
GUESSED, DEPTH = 7, 8  # gradients of a NUTS iteration in whitened coordinates; the largest depth of its trees
LONGEST, PIECES = 2**DEPTH - 1, 10  # gradients; the fewest pieces of a run
SAMPLES, RATE = 10, 0.02  # of ADVI: draws per gradient; Adam's learning rate, in conditional standard deviations
SEARCH = 10  # passes
SHARE = 2  # the last half of its iterations is averaged


class Found(NamedTuple):
    """Draws [C, T, D], or their moments; and the full passes that they took."""

    draws: np.ndarray | None
    mean: np.ndarray
    sd: np.ndarray
    passes: float


def laplace(flat: Flat, passes: int, seed: int) -> Found:
    """The normal approximation; log-normal for a parameter on the log scale."""
    return _moments(flat, flat.mode, flat.covariance, SEARCH)


def advi(flat: Flat, passes: int, seed: int) -> Found:
    """Independent normals, by Adam on the evidence lower bound (Kucukelbir et al. 2017)."""
    unit = tf.constant(1 / np.sqrt(np.diag(np.linalg.inv(flat.covariance))))
    steps = max(passes // SAMPLES, 10)
    mean, log_sd = tf.Variable(np.zeros(len(unit))), tf.Variable(np.zeros(len(unit)))
    adam = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(RATE, steps))
    normals = tf.random.Generator.from_seed(seed)

    @tf.function
    def step() -> None:
        z = normals.normal([SAMPLES, len(unit)], dtype=tf.float64)
        with tf.GradientTape() as tape:
            draws = flat.mode + unit * (mean + tf.exp(log_sd) * z)
            loss = -tf.reduce_mean(tf.vectorized_map(flat.log_density, draws)) - tf.reduce_sum(log_sd)
        adam.apply_gradients(zip(tape.gradient(loss, [mean, log_sd]), [mean, log_sd], strict=True))

    averages = np.zeros((2, len(unit)))
    for k in range(steps):
        step()
        if k >= steps // SHARE:
            averages += np.stack([mean.numpy(), log_sd.numpy()]) / (steps - steps // SHARE)
    sd = unit.numpy() * np.exp(averages[1])
    return _moments(flat, flat.mode + unit.numpy() * averages[0], np.diag(sd**2), steps * SAMPLES)


def nuts(flat: Flat, passes: int, seed: int) -> Found:
    """The No-U-Turn sampler; its step size is adapted, at a cost that counts, if there are enough iterations."""
    kernel = tfp.mcmc.NoUTurnSampler(_white(flat), step_size=tf.constant(0.5, tf.float64), max_tree_depth=DEPTH)
    warm_up = min(WARM_UP, passes // (CHAINS * GUESSED) // 3)
    if warm_up < FEWEST:  # a step size adapted in fewer is worse than the guess
        return _sampled(flat, kernel, passes, 0, seed, lambda told: told.leapfrogs_taken)
    adapted = tfp.mcmc.DualAveragingStepSizeAdaptation(kernel, warm_up, target_accept_prob=0.8)
    return _sampled(flat, adapted, passes, warm_up, seed, lambda told: told.inner_results.leapfrogs_taken)


def mala(flat: Flat, passes: int, seed: int) -> Found:
    """The Metropolis-adjusted Langevin algorithm, with the step of Roberts and Rosenthal (1998)."""
    size = tf.constant(1.65**2 * len(flat.mode) ** (-1 / 3), tf.float64)
    kernel = tfp.mcmc.MetropolisAdjustedLangevinAlgorithm(_white(flat), step_size=size)
    return _sampled(flat, kernel, passes, 0, seed, lambda told: tf.ones([CHAINS], tf.int32))


FULL: dict[str, Callable[[Flat, int, int], Found]] = {
    "NUTS": nuts,
    "MALA": mala,
    "Laplace": laplace,
    "ADVI, mean field": advi,
}


def _white(flat: Flat) -> Callable:
    root = tf.constant(np.linalg.cholesky(flat.covariance))

    def log_density(u: tf.Tensor) -> tf.Tensor:
        return tf.vectorized_map(flat.log_density, flat.mode + tf.linalg.matvec(root, u))

    return log_density


def _sampled(
    flat: Flat, kernel: tfp.mcmc.TransitionKernel, passes: int, warm_up: int, seed: int, cost: Callable
) -> Found:
    """Four chains from draws of the normal approximation, run in pieces until the passes are used up."""
    length = max(passes // (CHAINS * LONGEST * PIECES), 2)

    @tf.function(jit_compile=True)
    def piece(start: tf.Tensor, told: Any, number: tf.Tensor) -> Any:
        return tfp.mcmc.sample_chain(
            length, start, previous_kernel_results=told, kernel=kernel, trace_fn=lambda _, told: cost(told),
            seed=tf.stack([seed, number]), return_final_kernel_results=True,
        )  # fmt: skip

    state = tf.constant(np.random.default_rng(seed).normal(size=(CHAINS, len(flat.mode))))
    told, pieces, spent = kernel.bootstrap_results(state), [], 0
    while spent < passes:
        u, costs, told = piece(state, told, tf.constant(len(pieces)))
        state, spent = u[-1], spent + int(costs.numpy().sum())
        pieces.append(u.numpy())
    theta = flat.mode + np.concatenate(pieces)[warm_up:] @ np.linalg.cholesky(flat.covariance).T
    draws = np.moveaxis(np.where(flat.logarithm, np.exp(theta), theta), 0, 1)
    if flat.outputs is not None:
        draws = flat.outputs(draws)
    return Found(draws, draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)), spent)


def _moments(flat: Flat, mean: np.ndarray, covariance: np.ndarray, passes: float) -> Found:
    """Moments of normals or log-normals; those of outputs from draws."""
    if flat.outputs is not None:
        outputs = flat.outputs(np.random.default_rng(0).multivariate_normal(mean, covariance, DRAWS))
        return Found(None, outputs.mean(axis=0), outputs.std(axis=0), passes)
    sd = np.sqrt(np.diag(covariance))
    of_exponential = np.exp(mean + sd**2 / 2), np.exp(mean + sd**2 / 2) * np.sqrt(np.expm1(sd**2))
    pairs = zip((mean, sd), of_exponential, strict=True)
    mean, sd = (np.where(flat.logarithm, exponential, plain) for plain, exponential in pairs)
    return Found(None, mean, sd, passes)
