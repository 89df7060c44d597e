"""The methods of equal_cost.py that look at all data: NUTS and MALA of TensorFlow Probability, Laplace and ADVI.

All are given the mode and the curvature there, as `stepsize="auto"` finds them: NUTS and MALA run in coordinates in
which the posterior is white, and ADVI starts with the mode and the conditional standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from automatic import CHAINS, DRAWS, Flat

WARM_UP = 100
GUESSED = 7  # gradients of an iteration of NUTS in white coordinates
SAMPLES, RATE = 10, 0.02  # of ADVI: draws for a gradient; Adam's learning rate, in conditional standard deviations
SEARCH = 10  # passes
SHARE = 2  # of its iterations, the last half is averaged


class Found(NamedTuple):
    """Draws [C, T, D], or their moments; and the passes over all data that they took."""

    draws: np.ndarray | None
    mean: np.ndarray
    sd: np.ndarray
    passes: float


def laplace(flat: Flat, passes: int, seed: int) -> Found:
    """The normal approximation; of a parameter with a logarithm the log-normal one."""
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
    """The No-U-Turn sampler, with a warm-up of the step size that counts."""
    kernel = tfp.mcmc.NoUTurnSampler(_white(flat), step_size=tf.constant(0.5, tf.float64), max_tree_depth=8)
    iterations = passes // (CHAINS * GUESSED)
    warm_up = min(WARM_UP, iterations // 3)
    adapted = tfp.mcmc.DualAveragingStepSizeAdaptation(kernel, warm_up, target_accept_prob=0.8)
    return _sampled(flat, adapted, iterations, warm_up, seed, lambda told: told.inner_results.leapfrogs_taken)


def mala(flat: Flat, passes: int, seed: int) -> Found:
    """The Metropolis-adjusted Langevin algorithm, with the step of Roberts and Rosenthal (1998)."""
    size = tf.constant(1.65**2 * len(flat.mode) ** (-1 / 3), tf.float64)
    kernel = tfp.mcmc.MetropolisAdjustedLangevinAlgorithm(_white(flat), step_size=size)
    return _sampled(flat, kernel, passes // CHAINS, 0, seed, lambda told: tf.ones([CHAINS], tf.int32))


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
    flat: Flat, kernel: tfp.mcmc.TransitionKernel, iterations: int, warm_up: int, seed: int, cost: Callable
) -> Found:
    """Four chains of so many iterations from draws of the normal approximation."""

    @tf.function(jit_compile=True)
    def run(start: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tfp.mcmc.sample_chain(
            max(iterations, 8), start, kernel=kernel, trace_fn=lambda _, told: cost(told), seed=[seed, 0]
        )

    start = np.random.default_rng(seed).normal(size=(CHAINS, len(flat.mode)))
    u, costs = run(tf.constant(start))
    theta = flat.mode + u.numpy()[warm_up:] @ np.linalg.cholesky(flat.covariance).T
    draws = np.moveaxis(np.where(flat.logarithm, np.exp(theta), theta), 0, 1)
    if flat.outputs is not None:
        draws = flat.outputs(draws)
    return Found(draws, draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)), float(costs.numpy().sum()))


def _moments(flat: Flat, mean: np.ndarray, covariance: np.ndarray, passes: float) -> Found:
    """Of normals, or log-normals; of outputs by draws."""
    if flat.outputs is not None:
        outputs = flat.outputs(np.random.default_rng(0).multivariate_normal(mean, covariance, DRAWS))
        return Found(None, outputs.mean(axis=0), outputs.std(axis=0), passes)
    sd = np.sqrt(np.diag(covariance))
    of_exponential = np.exp(mean + sd**2 / 2), np.exp(mean + sd**2 / 2) * np.sqrt(np.expm1(sd**2))
    pairs = zip((mean, sd), of_exponential, strict=True)
    mean, sd = (np.where(flat.logarithm, exponential, plain) for plain, exponential in pairs)
    return Found(None, mean, sd, passes)
