"""The law of rows that move alone: exact moments of SGLD on group means, from groups seldom visited to always.

Observations x_i ~ N(mu_g, 1) in groups of N_g, flat prior: the posterior of mu_g is N(mean of its x, 1/N_g). With c_g
observations of the group in the minibatch, w = N/n and d = mu_g - mean,

    d' = (1 - eps w c_g / 2) d + (eps w / 2) sum over them of (x_i - mean) + sqrt(eps w c_g / N_g) z

c_g is hypergeometric, which gives the variance after T iterations without simulation. Each check compares the squares
of m independent normal deviations with this variance, at 4.5 standard errors, sqrt(2/m): a false alarm in 150,000.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

RNG = np.random.default_rng(0)
SIZES = np.repeat([1, 2, 5, 20, 100, 300], [40, 20, 8, 4, 2, 2])
GROUP = np.repeat(np.arange(len(SIZES)), SIZES)
N = len(GROUP)
X = RNG.normal(size=N)
MEAN = np.bincount(GROUP, X) / SIZES
EPS, T, C, n = 2e-4, 2000, 128, N // 50
BOUND = 4.5


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - tf.gather(params["mu"], dataset["group"])) ** 2)


def visits(size: int) -> tuple[np.ndarray, np.ndarray]:
    """How many observations of a group of this size a minibatch can have, and with what probabilities."""
    c = np.arange(min(size, n) + 1)
    return c, np.array([comb(size, k) * comb(N - size, n - k) / comb(N, n) for k in c.tolist()])


def variance(noise: Any, estimate_varies: bool) -> np.ndarray:
    """Of d after T iterations from d = 0, for each group; `noise` gives the mean of the noise over eps."""
    w, found = N / n, np.zeros(len(SIZES))
    for g, size in enumerate(SIZES):
        c, probability = visits(int(size))
        spread = X[g == GROUP].var(ddof=1) if size > 1 else 0.0
        contraction = probability @ (1 - EPS * w * c / 2) ** 2
        of_data = (EPS * w / 2) ** 2 * spread * (probability @ (c * (1 - c / size))) if estimate_varies else 0.0
        found[g] = (EPS * noise(probability) + of_data) * (1 - contraction**T) / (1 - contraction)
    return found


@pytest.mark.parametrize(
    ("name", "from_mean", "settings"),
    [("sgld", 0.0, {}), ("sgldcv", 0.5, {"optStepsize": 1e-6, "nItersOpt": 0})],
)
def test_rows_have_the_exact_mean_and_variance_however_seldom_they_are_visited(
    name: str, from_mean: float, settings: dict
) -> None:
    """The centre of the control variates is away from the mode, where it would bias rows if it came too seldom."""
    out = getattr(sgmcmc, name)(
        log_lik,
        {"x": X, "group": GROUP},
        {"mu": MEAN + from_mean},
        EPS,
        minibatchSize=n,
        nIters=T,
        burnIn=T - 1,
        nChains=C,
        seed=1,
        integers=["group"],
        verbose=False,
        **settings,
    )
    d = out["mu"][:, -1] - MEAN - from_mean * (1 - EPS * SIZES / 2) ** T
    exact = variance(lambda probability: 1.0, estimate_varies=name == "sgld")
    once = variance(lambda probability: 1.0 - probability[0], estimate_varies=name == "sgld")
    for size in np.unique(SIZES):
        z = d[:, size == SIZES] / np.sqrt(exact[size == SIZES])
        assert abs(np.mean(z**2) - 1) < BOUND * np.sqrt(2 / z.size)
        assert abs(np.mean(z)) < BOUND / np.sqrt(z.size)
        if size <= 20:  # one draw of N(0, eps) a visit is another law, and the bound would see it
            wrong = np.mean((once / exact)[size == SIZES])
            assert wrong < 0.4 and 1 - wrong > 2 * BOUND * np.sqrt(2 / z.size)
    probability = [1 - visits(int(size))[1][0] for size in (SIZES[0], SIZES[-1])]
    assert probability[0] == pytest.approx(0.02, abs=1e-3) and probability[1] > 0.99


def test_rows_that_no_observation_gathers_are_told_of() -> None:
    with pytest.warns(
        UserWarning, match="no observation gathers 2 of the rows of 'mu', such as row 3,.*stay where they begin"
    ):
        out = sgmcmc.sgld(
            log_lik,
            {"x": X[:9], "group": [0, 1, 2] * 3},
            {"mu": np.zeros(5)},
            1e-3,
            minibatchSize=3,
            nIters=20,
            integers=["group"],
            seed=1,
            verbose=False,
        )
    assert (out["mu"][-1, 3:] == 0).all() and (out["mu"][-1, :3] != 0).all()
