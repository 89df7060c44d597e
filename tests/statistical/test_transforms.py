"""Constrained parameters: the distribution of the draws against exact ones, by the prior alone and with data.

If F is the distribution function of a draw, F(draw) is uniform, so the averages of F and F^2 are 1/2 and 1/3. With
1,500 independent draws or more their Monte Carlo standard error is at most 0.0075, and the stepsize adds up to 0.012.
The bound of 0.035 has a false-alarm rate below 3e-3 for each average, and the seeds are fixed. A Jacobian that is
missing, or multiplied by N/n, moves the averages by 0.06 and more; both are run, and refused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from tensorflow_probability import distributions as tfd

import sgmcmc
from sgmcmc import interval
from sgmcmc.arguments import choices

BOUND = 0.035
N, HALF = 10, 5
RNG = np.random.default_rng(4)
DATASET = {
    "x": RNG.normal(1.0, 2.0, size=N),
    "count": RNG.poisson(0.5, size=N).astype(float),
    "success": (RNG.uniform(size=N) < 0.2).astype(float),
    "category": np.eye(5)[RNG.choice(5, size=N)],
}
CONCENTRATION = np.array([0.7, 1.0, 1.5, 2.0, 3.0], np.float32)


def refused(uniform: dict[str, np.ndarray]) -> list[str]:
    """The parameters whose draws, through their distribution functions, are not uniform."""
    off = {
        name: np.abs([u.mean(axis=(0, 1)) - 1 / 2, (u**2).mean(axis=(0, 1)) - 1 / 3]).max()  # of all elements
        for name, u in uniform.items()
    }
    return [name for name, most in off.items() if most > BOUND]


PRIOR = {
    "rate": (1.0, "positive", lambda x: stats.gamma(2).cdf(x)),
    "share": (0.5, "unit", lambda x: stats.beta(2, 1.5).cdf(x)),
    "between": (1.0, interval(-1, 4), lambda x: ((x + 1) / 5) ** 2),
    "omega": (np.full(5, 0.2), "simplex", lambda x: stats.beta(CONCENTRATION, 8.2 - CONCENTRATION).cdf(x)),
    "pair": (
        [-0.5, 0.5],
        "ordered",
        lambda x: np.stack([1 - stats.norm.sf(x[..., 0]) ** 2, stats.norm.cdf(x[..., 1]) ** 2], axis=-1),
    ),
    "root": (np.eye(3), "corr_cholesky", lambda x: stats.beta(2.5, 2.5).cdf((x[..., 1, 0] + 1) / 2)),
}


def log_prior(params):
    return (
        tfd.Gamma(2.0, 1.0).log_prob(params["rate"])
        + tfd.Beta(2.0, 1.5).log_prob(params["share"])
        + tf.math.log(params["between"] + 1)
        + tfd.Dirichlet(CONCENTRATION).log_prob(params["omega"])
        - 0.5 * tf.reduce_sum(params["pair"] ** 2)
        + tfd.CholeskyLKJ(3, 2.0).log_prob(params["root"])
    )


def of_prior(sampler: Callable, **settings) -> dict[str, np.ndarray]:
    out = sampler(
        lambda params, dataset: tf.zeros([]),
        DATASET,
        {name: start for name, (start, *_) in PRIOR.items()},
        logPrior=log_prior,
        transforms={name: transform for name, (_, transform, _) in PRIOR.items()},
        minibatchSize=HALF,
        seed=1,
        verbose=False,
        nChains=40,
        burnIn=1000,
        thin=5,
        **settings,
    )
    return {name: cdf(out[name]) for name, (*_, cdf) in PRIOR.items()}


@pytest.mark.parametrize(
    ("sampler", "settings"),
    [
        (sgmcmc.sgld, {"stepsize": 0.05, "nIters": 4000}),
        (sgmcmc.sghmc, {"stepsize": 0.01, "alpha": 0.1, "nIters": 3000}),
        (sgmcmc.ccadl, {"stepsize": 0.01, "a": 0.1, "nIters": 4000}),
    ],
    ids=["sgld", "sghmc", "ccadl"],
)
def test_draws_from_a_prior_alone(sampler, settings):
    assert not refused(of_prior(sampler, **settings))


POSTERIOR = {
    "mu": (0.0, None),
    "sd": (1.0, "positive"),
    "rate": (1.0, "positive"),
    "share": (0.5, "unit"),
    "omega": (np.full(5, 0.2), "simplex"),
}


def log_lik(params, dataset):
    return (
        tfd.Normal(params["mu"], params["sd"]).log_prob(dataset["x"])
        + tfd.Poisson(params["rate"]).log_prob(dataset["count"])
        + tfd.Bernoulli(probs=params["share"]).log_prob(dataset["success"])
        + tf.linalg.matvec(dataset["category"], tf.math.log(params["omega"]))
    )


def log_prior_of_all(params):
    """1/sd^3 is the prior with which (N + 2)/2 is the shape of 1/sd^2."""
    return (
        -3 * tf.math.log(params["sd"])
        + tfd.Gamma(2.0, 1.0).log_prob(params["rate"])
        + tfd.Dirichlet(CONCENTRATION).log_prob(params["omega"])
    )


def through_exact(out) -> dict[str, np.ndarray]:
    """The draws through the distribution functions of the conjugate posteriors."""
    x, total, hits = DATASET["x"], DATASET["count"].sum(), DATASET["success"].sum()
    squares, alpha = ((x - x.mean()) ** 2).sum(), CONCENTRATION + DATASET["category"].sum(axis=0)
    degrees = N + 1
    return {
        "mu": stats.t(degrees, x.mean(), np.sqrt(squares / degrees / N)).cdf(out["mu"]),
        "sd": stats.chi2(degrees).sf(squares / out["sd"] ** 2),
        "rate": stats.gamma(2 + total, scale=1 / (1 + N)).cdf(out["rate"]),
        "share": stats.beta(1 + hits, 1 + N - hits).cdf(out["share"]),
        "omega": stats.beta(alpha, alpha.sum() - alpha).cdf(out["omega"]),
    }


def of_posterior(sampler: Callable = sgmcmc.sgld, **settings) -> dict[str, np.ndarray]:
    out = sampler(
        log_lik,
        DATASET,
        {name: start for name, (start, _) in POSTERIOR.items()},
        logPrior=log_prior_of_all,
        transforms={name: word for name, (_, word) in POSTERIOR.items() if word},
        seed=2,
        verbose=False,
        nChains=40,
        **{"stepsize": 0.01, "minibatchSize": HALF, "nIters": 8_000, "burnIn": 1000, "thin": 10} | settings,
    )
    return through_exact(out)


def test_draws_from_conjugate_posteriors():
    assert not refused(of_posterior())


def test_with_all_that_is_automatic():
    assert not refused(of_posterior(sgmcmc.sgldcv, stepsize="auto", minibatchSize=N, nIters=3000, burnIn=500, thin=3))


@pytest.mark.parametrize("factor", [0.0, N / HALF])
def test_a_wrong_jacobian_is_seen(factor, monkeypatch):
    right = choices.constrained

    def wrong(log_lik, log_prior, transforms):
        likelihood, prior = right(log_lik, log_prior, transforms)
        return likelihood, lambda params: prior(params) + (factor - 1) * transforms.log_det(params)

    monkeypatch.setattr(choices, "constrained", wrong)
    assert set(refused(of_posterior())) >= {"rate", "share", "omega"}
