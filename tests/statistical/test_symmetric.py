"""Symmetric minibatches: the exact law on a normal posterior, and on another the order of the error that they leave."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc import Reducer, ubu
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.minibatch.symmetric import symmetric
from tests.statistical import test_exact_laws as exact
from tests.statistical.laws import accept, reject, sgld_variances_over_an_epoch

N, C, GAMMA = 20, 1000, 3.0


def test_sgld_with_symmetric_minibatches():
    """The law of `reshuffled`, of a cycle of 2R minibatches: those of a permutation forwards, then backwards."""
    size = 9
    R = exact.N // size
    places = [*range(R), *reversed(range(R))]
    noise = exact.NORMAL.noise_of_an_epoch(size)
    variances = sgld_variances_over_an_epoch(exact.EPS, exact.NORMAL.a, noise[np.ix_(places, places)])
    draws = exact.theta_run(sgld(), symmetric(exact.N, size), exact.EPS, variances[0], iterations=30 * R, thin=1)
    theta = draws["theta"]
    accept("sgld, symmetric", exact.epoch_scores(theta, variances))
    of_reshuffled = np.tile(sgld_variances_over_an_epoch(exact.EPS, exact.NORMAL.a, noise), 2)
    reject("law of reshuffled minibatches", exact.epoch_scores(theta, of_reshuffled))
    again = [*range(R), *range(R)]  # twice forwards
    twice = sgld_variances_over_an_epoch(exact.EPS, exact.NORMAL.a, noise[np.ix_(again, again)])
    reject("law of a permutation twice forwards", exact.epoch_scores(theta, twice))


def logistic() -> tuple[dict, float, float]:
    """A slope with a skew posterior (0.5), as a user would pass it; its mean and variance, by quadrature."""
    rng = np.random.default_rng(3)
    x, y = np.abs(rng.normal(size=N)) + 0.2, (rng.random(N) < 0.8).astype(float)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        eta = params["b"] * dataset["x"]
        return tf.reduce_sum(dataset["y"] * eta - tf.math.softplus(eta))

    grid = np.linspace(-8, 15, 20_001)
    density = (y[:, None] * x[:, None] * grid - np.logaddexp(0, x[:, None] * grid)).sum(axis=0) - grid**2 / 8
    weights = np.exp(density - density.max())
    mean = np.average(grid, weights=weights)
    variance = np.average((grid - mean) ** 2, weights=weights)
    given = {"dataset": {"x": x, "y": y}, "params": {"b": mean}, "logPrior": lambda params: -(params["b"] ** 2) / 8}
    return {"logLik": log_lik, **given}, float(mean), float(variance)


def errors(subsampling: str, steps: tuple[float, ...]) -> list[float]:
    """The relative error of the variance after whole cycles, for these h at the same friction and the same time."""
    model, mean, variance = logistic()
    squares = Reducer(
        init=lambda draw: {"sum": 0.0 * draw["b"], "count": 0.0 * draw["b"]},
        update=lambda old, draw: {"sum": old["sum"] + (draw["b"] - mean) ** 2, "count": old["count"] + 1},
    )
    found = []
    for h in steps:
        out = ubu(
            **model, stepsize=h**2, alpha=1 - np.exp(-GAMMA * h), minibatchSize=5, subsampling=subsampling,
            nIters=int(300 / h) // 8 * 8, burnIn=80, thin=8, nChains=C, starts=variance**0.5, dtype="float64",
            reduce={"of": squares}, verbose=False, seed=1,
        )  # fmt: skip
        of_chains = out.reduced["of"]
        found.append(float(np.mean(of_chains["sum"] / of_chains["count"])) / variance - 1)
    return found


def test_half_the_step_leaves_a_quarter_of_the_error():
    """Half of it with fresh minibatches.

    Monte Carlo errors are 0.004 of the variance (fresh: 0.008 and 0.006), and all bounds are six of them away.
    """
    large, small = errors("symmetric", (0.16, 0.08))
    fresh_large, fresh_small = errors("uniform", (0.16, 0.08))
    assert large > 0.07 and abs(small) < large / 3.5
    assert 1.8 < fresh_large / fresh_small < 2.25
    assert fresh_large > 5 * large
