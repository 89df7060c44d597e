"""SCIR and SGRLD against their exact moments and distributions, minibatch noise included.

The acceptance, its false-alarm rate and its error bound are those of `laws`. Distributions are compared by
Kolmogorov-Smirnov at ALPHA = 1e-8, fewer than 20 times: with 20,000 chains a distribution function that is wrong by
0.045 anywhere is found out. Controls: a time h that is wrong by sqrt(2), minibatch noise left out, SGRLD where it is
biased.

It uses the inside of the package: it evaluates the densities of a scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

import sgmcmc
from sgmcmc.simplex.scale import Scale
from tests.statistical.laws import accept, reject, z_score

ALPHA = 1e-8
N_CHAINS = 20_000
MANY = 90_000  # squares are skew
N, MINIBATCH, STEPS = 20, 4, 3
ROWS = np.random.default_rng(4).integers(0, 5, size=(N, 3)).astype(float)
PRIOR = np.array([0.2, 2.0, 9.0])
THETA = np.array([40.0, 1.5, 70.0])


def counts(params: dict, dataset: dict) -> dict[str, tf.Tensor]:
    return {"theta": tf.reduce_sum(dataset["z"], axis=0)}


def chains(
    sampler: Any, stepsize: float, n_iters: int, rows: np.ndarray, start: np.ndarray, **given: Any
) -> np.ndarray:
    """The last position of independent chains, [C, d]."""
    arguments = {"minibatchSize": len(rows), "seed": 3, "nChains": N_CHAINS, "verbose": False, "thin": n_iters} | given
    return sampler(counts, {"z": rows}, {"theta": start}, stepsize, nIters=n_iters, **arguments)["theta"][:, 0]


def moments(theta: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> dict[str, float]:
    z = {f"mean {j}": z_score(theta[:, j], mean[j]) for j in range(len(mean))}
    return z | {f"var {j}": z_score((theta[:, j] - mean[j]) ** 2, variance[j]) for j in range(len(mean))}


def scir_law(h: float, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The thesis, corollary 5.4.2, with its misprint mended, and with the variance of a sum without replacement."""
    a = PRIOR + ROWS.sum(axis=0)
    var_a = noise * N**2 / MINIBATCH * (1 - MINIBATCH / N) * ROWS.var(axis=0, ddof=1)
    left, all_left = np.exp(-h), np.exp(-STEPS * h)
    mean = THETA * all_left + a * (1 - all_left)
    exact = 2 * THETA * (all_left - all_left**2) + a * (1 - all_left) ** 2
    return mean, exact + (1 - all_left**2) * (1 - left) / (1 + left) * var_a


def test_moments_of_scir_after_some_steps() -> None:
    given = {"alpha": PRIOR, "minibatchSize": MINIBATCH, "normalise": False, "dtype": "float64", "nChains": MANY}
    theta = chains(sgmcmc.scir, 0.3, STEPS, ROWS, THETA, **given)
    accept("SCIR, three steps from a point", moments(theta, *scir_law(0.3)))
    reject("without the noise of the minibatch", moments(theta, *scir_law(0.3, noise=0.0)))
    reject("a time that is wrong by sqrt(2)", moments(theta, *scir_law(0.3 * np.sqrt(2))))


def test_moments_of_one_step_of_sgrld() -> None:
    """Where theta is large, so that the absolute value changes nothing."""
    theta, h = np.array([400.0, 200.0, 300.0]), 1e-3
    given = {"alpha": PRIOR, "minibatchSize": MINIBATCH, "normalise": False, "dtype": "float64", "nChains": MANY}
    reached = chains(sgmcmc.sgrld, h, 1, ROWS, theta, **given)
    var_a = N**2 / MINIBATCH * (1 - MINIBATCH / N) * ROWS.var(axis=0, ddof=1)
    mean = theta + h * (PRIOR + ROWS.sum(axis=0) - theta)
    accept("SGRLD, one step", moments(reached, mean, 2 * h * theta + h**2 * var_a))
    reject("noise that is wrong by sqrt(2)", moments(reached, mean, 4 * h * theta + h**2 * var_a))


def log_gamma_p(y: np.ndarray, shape: float) -> float:
    """Of logarithms; where exp(y) underflows the density is that of a power."""
    power = np.exp(np.minimum(shape * y - special.gammaln(shape + 1), 0))
    cdf = np.where(y < -50, power, special.gammainc(shape, np.exp(np.clip(y, -50, 50))))
    return stats.kstest(cdf, "uniform").pvalue


def test_scir_settles_in_gamma_distributions() -> None:
    """Also in those whose draws are as small as exp(-10,000), by logarithms."""
    given = {"alpha": [1e-3, 0.1, 1.0], "normalise": False, "logScale": True}
    y = chains(sgmcmc.scir, 4.0, 5, np.array([[0.0, 0.0, 799.0]]), np.array([1.0, 1.0, 700.0]), **given)
    assert np.isfinite(y).all() and y[:, 0].min() < -1000
    for j, shape in enumerate((1e-3, 0.1, 800.0)):
        y_j = y[:, j].astype(float)
        assert log_gamma_p(y_j, shape) > ALPHA, shape
        centre = np.median(y_j)
        assert log_gamma_p(centre + np.sqrt(2) * (y_j - centre), shape) < ALPHA, shape


@pytest.mark.parametrize(("sampler", "stepsize", "right"), [(sgmcmc.scir, 1.0, True), (sgmcmc.sgrld, 0.1, False)])
def test_sparse_probabilities(sampler: Any, stepsize: float, right: bool) -> None:
    """Dirichlet(8.1, 2.1, 0.1, 0.1) by its marginals; the Euler step fails for the categories that are not seen."""
    shapes = np.array([8.1, 2.1, 0.1, 0.1])
    rows = np.repeat(np.eye(4)[:2], [8, 2], axis=0)
    omega = chains(sampler, stepsize, round(12 / stepsize), rows, np.full(4, 0.25), alpha=0.1, dtype="float64")
    np.testing.assert_allclose(omega.sum(axis=1), 1, rtol=1e-12)
    sets = [[0], [1], [2], [3], [0, 2], [0, 1]]  # of a sum the distribution tells of covariances
    p = [
        stats.kstest(omega[:, k].sum(axis=1), stats.beta(shapes[k].sum(), shapes.sum() - shapes[k].sum()).cdf).pvalue
        for k in sets
    ]
    assert (min(p) > ALPHA) == right


@pytest.mark.parametrize("log", [False, True])
def test_the_log_density_is_that_of_the_gamma_or_the_dirichlet_distribution(log: bool) -> None:
    """Of the natural parameters, up to a constant."""
    shape, x = np.array([[3.0, 4.0]]), np.array([[0.5, 2.0]])
    omega = x / x.sum()
    power = [((shape - 1) * np.log(of)).sum() for of in (x, omega)]
    told = [
        Scale(normalised, log).log_density(tf.constant(shape), tf.constant(np.log(of) if log else of))
        for normalised, of in ((False, x), (True, omega))
    ]
    np.testing.assert_allclose(told, [[power[0] - x.sum()], [power[1]]], rtol=1e-12)


def test_latent_draws_differ_between_iterations_and_chains_and_repeat_with_the_seed() -> None:
    def drawn(params: dict, dataset: dict, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"theta": tf.random.stateless_uniform([2], seed) * tf.reduce_sum(dataset["z"])}

    def run(seed: int, n_chains: int) -> np.ndarray:
        given = {"minibatchSize": 1, "nIters": 30, "nChains": n_chains, "verbose": False, "normalise": False}
        # So large a time that theta is Gamma distributed anew in each iteration; the shapes are nearly the draws.
        data = {"z": np.ones(10_000)}
        return sgmcmc.scir(drawn, data, {"theta": [1.0, 1.0]}, 50.0, 1e-3, seed=seed, **given)["theta"] / 10_000

    out = run(1, 2)
    np.testing.assert_allclose(run(1, 1)[0], out[0], rtol=1e-4)
    assert len(np.unique(np.round(out, 4))) > 100 and abs(out.mean() - 0.5) < 0.15
    assert (out[0] != out[1]).all()
