"""samadams on a posterior that is steep on one side and flat on the other, against quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc import Draws, samadams
from sgmcmc.samplers import samadams as module
from tests.statistical.laws import accept, reject, scaled_noise, z_score

C, H = 1000, 0.125
GRID = np.linspace(-12.0, 12.0, 100_001)
LOG_DENSITY = -np.logaddexp(0, 3 * GRID) - np.exp(-0.5 * GRID)
DENSITY = np.exp(LOG_DENSITY - LOG_DENSITY.max())
MEAN = float(np.average(GRID, weights=DENSITY))
VARIANCE = float(np.average((GRID - MEAN) ** 2, weights=DENSITY))


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -dataset["one"] * tf.math.softplus(3 * params["x"])


def log_prior(params: dict) -> tf.Tensor:
    return -tf.exp(-0.5 * params["x"])


def run(**settings: Any) -> Draws:
    return samadams(
        log_lik, {"one": np.ones(1)}, {"x": MEAN}, H**2, log_prior, 1, 1 - np.exp(-H), 3000, burnIn=500, thin=5,
        nChains=C, starts=0.5, dtype="float64", verbose=False, seed=1, **settings,
    )  # fmt: skip


def scores(out: Draws, weighted: bool = True) -> dict[str, float]:
    """Of the mean and the variance: sums over each chain of the weight times the deviation have the expectation 0."""
    x, time = out["x"] - MEAN, out.sampleStats["time"][..., 0]
    weights = time / time.mean() if weighted else np.ones_like(time)
    deviations = {"mean": x, "var": x**2 - VARIANCE}
    return {name: z_score((weights * deviation).mean(axis=1), 0.0) for name, deviation in deviations.items()}


def test_weighted_draws_are_those_of_the_posterior(monkeypatch):
    """Their variance is known to 0.4%, and that of the draws without weights is 15% too large."""
    out = run()
    accept("samadams", scores(out))
    reject("draws without weights", scores(out, weighted=False))
    table = out.summary()
    np.testing.assert_allclose(table.loc["x", "sd"], VARIANCE**0.5, rtol=0.02)
    assert "r_hat" not in table and "r_hat" in out.summary(weighted=False)
    original = module.samadams_dynamics
    monkeypatch.setattr(module, "samadams_dynamics", lambda *given: scaled_noise(original(*given), 2**0.5))
    reject("noise * sqrt(2)", scores(run()))


def test_a_fixed_step_is_that_of_baoab():
    """With m = M = 1 nothing adapts, and all draws stand for the same time."""
    out = run(m=1.0, M=1.0)
    np.testing.assert_allclose(out.sampleStats["time"], H, rtol=1e-12)
    accept("samadams, m = M = 1", scores(out))
