"""stepsize="auto", optStepsize="auto" and preconditioners: what users get, what is kept, what is refused.

It uses the inside of the package: it compares the predictions with their formulas.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.linalg import eigh, solve_discrete_lyapunov

import sgmcmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.dynamics.sgnht import sgnht
from sgmcmc.laplace import newton as climb
from sgmcmc.laplace import search
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.stepsize import directions, largest
from sgmcmc.laplace.whitening import whitening

RNG = np.random.default_rng(0)
N, SCALES = 2000, np.array([1.0, 30.0, 0.05])
X = RNG.normal(size=(N, 3)) * SCALES
Y = X @ (np.array([1.0, -1.0, 0.5]) / SCALES) + 2.0 + RNG.normal(size=N)
DATASET, PARAMS = {"x": X, "y": Y}, {"beta": np.zeros(3), "level": 0.0}
DESIGN = np.hstack([X, np.ones((N, 1))])
PRECISION = DESIGN.T @ DESIGN + np.eye(4) / 100
MEAN = np.linalg.solve(PRECISION, DESIGN.T @ Y)


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    mean = tf.linalg.matvec(dataset["x"], params["beta"]) + params["level"]
    return -0.5 * tf.reduce_sum((dataset["y"] - mean) ** 2)


def log_prior(params: dict) -> tf.Tensor:
    return -0.005 * (tf.reduce_sum(params["beta"] ** 2) + params["level"] ** 2)


ARGUMENTS: dict[str, Any] = {"logPrior": log_prior, "minibatchSize": 100, "seed": 1}


def begin(sampler: Any) -> None:
    """All that precedes the first iteration: the search for the mode, and for the stepsize."""
    sgmcmc.initSess(sampler, verbose=False)


def test_a_run_without_any_setting_has_the_posterior() -> None:
    """Coefficients whose sds differ by a factor of 600, from zeros.

    The bounds: tolerance 5% of sds, and 6 standard errors of an sd, 0.7/sqrt(ESS); of means 6/sqrt(ESS), in sds.
    """
    out = sgmcmc.sgldcv(log_lik, DATASET, PARAMS, **ARGUMENTS, nIters=6000, nChains=4, verbose=False)
    theta = np.concatenate([out["beta"].reshape(-1, 3), out["level"].reshape(-1, 1)], axis=1)
    sd = np.sqrt(np.diag(np.linalg.inv(PRECISION)))
    expected, table = out.settings["expected"], out.summary()
    ess = table["ess_bulk"].min()
    assert ess > 0.6 * 24_000 / expected["iterations"] > 300
    assert (np.abs(theta.mean(axis=0) - MEAN) / sd < 6 / np.sqrt(ess)).all()
    assert (np.abs(theta.std(axis=0) / sd - table["expected_sd_ratio"]) < 6 * 0.7 / np.sqrt(ess)).all()
    assert 0.035 < expected["error"] <= 0.04 and expected["distance"] < 0.03
    assert out.settings["stepsize"] == {"beta": expected["stepsize"], "level": expected["stepsize"]}
    assert table["r_hat"].max() < 1.02


@pytest.mark.parametrize(
    ("name", "settings", "bound"),
    [
        ("sghmc", {"L": 20, "alpha": 0.1}, 0.08),
        ("sgnht", {}, 0.06),
        ("barker", {}, 0.041),
        ("sgzigzag", {}, 0.041),
        ("sgzigzag", {"gradient": sgmcmc.controlVariates()}, 0.041),
        ("sgzigzag", {"preconditioner": None}, 0.041),
    ],
)
def test_other_samplers_keep_what_they_promise(name: str, settings: dict, bound: float) -> None:
    """Plain gradients: the noise of 100 of 2000 observations is what the stepsize must be small for."""
    out = getattr(sgmcmc, name)(
        log_lik, DATASET, PARAMS, **ARGUMENTS, **settings, nIters=4000, nChains=8, verbose=False
    )
    theta = np.concatenate([out["beta"].reshape(-1, 3), out["level"].reshape(-1, 1)], axis=1)
    ratio = theta.std(axis=0) / np.sqrt(np.diag(np.linalg.inv(PRECISION)))
    table = out.summary()
    assert out.settings["expected"]["error"] < bound
    margin = 6 * 0.7 / np.sqrt(table["ess_bulk"]) + 0.02
    assert (np.abs(ratio - table["expected_sd_ratio"]) < margin).all(), (ratio, table["expected_sd_ratio"], margin)


def test_sgnht_settles_where_it_says() -> None:
    """60 directions share a thermostat, so that it hardly moves; simulated in NumPy, to three standard errors."""
    rng, eps, a = np.random.default_rng(1), 0.02, 0.05
    precision, noise = rng.uniform(0.3, 2.0, 60), rng.uniform(0.0, 3.0, 60)
    told = sgnht(a).stationary(eps, precision, noise)  # type: ignore[misc]
    theta, u, xi = np.zeros((100, 60)), np.sqrt(eps) * rng.normal(size=(100, 60)), np.full((100, 1), a)
    squares = np.zeros(60)
    for iteration in range(6000):
        gradient = -precision * theta + np.sqrt(noise) * rng.normal(size=theta.shape)
        u = u + eps * gradient - xi * u + np.sqrt(2 * a * eps) * rng.normal(size=theta.shape)
        theta, xi = theta + u, xi + (u**2).mean(axis=1, keepdims=True) - eps
        squares += (theta**2).mean(axis=0) if iteration >= 1000 else 0.0
    ratio = squares / 5000 / told.variance
    assert abs(ratio.mean() - 1) < 0.02 and np.abs(ratio - 1).max() < 0.12
    assert abs(np.mean(noise) * eps) > 0.02  # without the noise's part xi would be a third as large


def test_step_by_step_the_stepsize_is_known_when_the_session_begins(tmp_path: Path) -> None:
    sampler = sgmcmc.sgldcvSetup(log_lik, DATASET, PARAMS, **ARGUMENTS)
    assert np.isnan(sampler.stepsize["beta"]) and sampler.expected == {}
    sess = sgmcmc.initSess(sampler, verbose=False)
    assert sampler.stepsize["beta"] == sampler.expected["stepsize"] > 0
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=7)
    sgmcmc.saveSess(sampler, sess, tmp_path / "chain.sess")
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=7)
    there = sgmcmc.getParams(sampler, sess)
    again = sgmcmc.sgldcvSetup(log_lik, DATASET, PARAMS, **ARGUMENTS)
    restored = sgmcmc.restoreSess(again, tmp_path / "chain.sess")
    assert again.stepsize == sampler.stepsize
    sgmcmc.sgmcmcStep(again, restored, nSteps=7)
    np.testing.assert_array_equal(sgmcmc.getParams(again, restored)["beta"], there["beta"])
    out = sgmcmc.sgldcv(log_lik, DATASET, PARAMS, **ARGUMENTS, nIters=14, verbose=False)
    np.testing.assert_array_equal(out["beta"][13], there["beta"])


def test_a_store_goes_on_with_what_was_found(tmp_path: Path) -> None:
    run = lambda n, **more: sgmcmc.sgldcv(log_lik, DATASET, PARAMS, **ARGUMENTS, nIters=n, verbose=False, **more)  # noqa: E731
    whole = run(20)
    run(11, storage=tmp_path / "run.zarr")
    out = run(20, storage=tmp_path / "run.zarr", resume=True)
    np.testing.assert_array_equal(out["beta"], whole["beta"])
    assert out.settings["expected"] == whole.settings["expected"]
    assert sgmcmc.Draws.load(tmp_path / "run.zarr").settings["stepsize"] == whole.settings["stepsize"]


def test_a_matrix_is_known_again_by_its_entries() -> None:
    """Not by its root, whose last digits depend on the machine."""
    told = [
        sgmcmc.sgldSetup(log_lik, DATASET, PARAMS, 0.1, preconditioner=m, **ARGUMENTS)._sampler.settings
        for m in (np.eye(4), np.eye(4).tolist(), {"beta": np.ones(3), "level": 1.0}, 2 * np.eye(4))
    ]
    first, listed, entries, twice = (settings["preconditioner"] for settings in told)
    assert first == listed != twice and entries not in (first, twice)


def test_the_search_for_the_mode_needs_no_setting() -> None:
    """Poisson counts whose first Newton steps overflow, on data of which the first stages see a tenth."""
    rng = np.random.default_rng(2)
    x = np.hstack([np.ones((40_000, 1)), rng.normal(size=(40_000, 2))])
    y = rng.poisson(np.exp(x @ [4.0, 0.5, -0.5]))

    def poisson(params: dict, dataset: dict) -> tf.Tensor:
        eta = tf.linalg.matvec(dataset["x"], params["beta"])
        return tf.reduce_sum(dataset["y"] * eta - tf.exp(eta))

    sampler = sgmcmc.sgldcvSetup(poisson, {"x": x, "y": y}, {"beta": [-20.0, 3.0, 3.0]}, 1e-6, seed=1)
    sgmcmc.initSess(sampler, verbose=False)
    at = sampler.paramsOpt["beta"].numpy().astype(float)
    rate = np.exp(x @ at)
    newton = np.linalg.solve((x * rate[:, None]).T @ x, x.T @ (y - rate))
    sds = np.sqrt(np.diag(np.linalg.inv((x * rate[:, None]).T @ x)))
    assert (np.abs(newton) < 0.05 * sds).all()


def test_a_search_that_stops_early_is_said_to() -> None:
    with pytest.warns(UserWarning, match=r"the search for the mode of sgldcv stopped about .* deviations away from it"):
        begin(sgmcmc.sgldcvSetup(log_lik, DATASET, PARAMS, "auto", 1e-7, **ARGUMENTS, nItersOpt=50))


def test_a_posterior_that_is_not_concave_is_said_to_be() -> None:
    def saddle(params: dict, dataset: dict) -> tf.Tensor:
        return tf.reduce_sum(dataset["y"] * 0.0 + 1e-3 * params["level"] ** 2 - 1e-4 * params["level"] ** 4)

    with pytest.warns(UserWarning, match=r"not concave at the mode that sgld found, or is flat, in 1 of 1 directions"):
        begin(
            sgmcmc.sgldSetup(
                saddle, DATASET, {"level": 0.0}, 0.01, preconditioner="dense", **{**ARGUMENTS, "logPrior": None}
            )
        )


def test_a_direction_that_the_data_do_not_see_is_said_to_be_flat() -> None:
    """The sum of the two counts, and no prior tells them apart."""

    def improper(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["y"] - params["a"] - params["b"]) ** 2)

    with pytest.warns(UserWarning, match=r"or is flat, in 1 of 2 directions"):
        begin(sgmcmc.sgldSetup(improper, DATASET, {"a": 0.0, "b": 0.0}, seed=1))


def test_the_curvature_is_that_of_the_posterior() -> None:
    """Hessian, its products and its root as they are known; the squared gradients are the Fisher information."""
    sampler = sgmcmc.sgldSetup(log_lik, DATASET, PARAMS, 1e-6, logPrior=log_prior, dtype="float64", seed=1)._sampler
    posterior = Posterior(sampler.model, {"beta": (3,), "level": ()})
    np.testing.assert_allclose(-posterior.hessian(MEAN), PRECISION, rtol=1e-8)
    np.testing.assert_allclose(-posterior.hessian_product(MEAN, np.arange(4.0)), PRECISION @ np.arange(4.0), rtol=1e-8)
    residual = Y - DESIGN @ MEAN
    np.testing.assert_allclose(posterior.squared_gradients(MEAN), (residual**2) @ DESIGN**2 + 0.01, rtol=1e-8)
    root = whitening(PRECISION, tf.float64).root
    np.testing.assert_allclose(root.T @ PRECISION @ root, np.eye(4), atol=1e-8)
    found = search.find_mode(posterior, np.zeros(4), 1, verbose=False)
    np.testing.assert_allclose(found.theta, MEAN, rtol=1e-4)
    np.testing.assert_allclose(found.precision, PRECISION, rtol=1e-8)


def test_a_search_that_is_cut_short_is_finished_by_newton(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of the trust region from 30 sds away; that of Newton then ends at the mode of a linear regression."""
    sampler = sgmcmc.sgldSetup(log_lik, DATASET, PARAMS, 1e-6, logPrior=log_prior, dtype="float64", seed=1)._sampler
    sds = np.sqrt(np.diag(np.linalg.inv(PRECISION)))
    monkeypatch.setattr(climb, "STEPS", 1)
    posterior = Posterior(sampler.model, {"beta": (3,), "level": ()})
    at = search.find_mode(posterior, MEAN + 30 * sds, 1, verbose=False).theta
    assert (np.abs(at - MEAN) < 1e-3 * sds).all()


def test_the_noise_is_bounded_in_every_direction() -> None:
    """Where neither precision nor noise are white: by Lyapunov's equation for SGLD in all directions together."""
    precision = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 1.0]])
    root = np.array([[3.0, 0.0, 0.0], [-2.0, 1.0, 0.0], [4.0, 2.0, 5.0]])
    noise = root @ root.T
    where = directions(precision, noise)
    np.testing.assert_allclose((where.vectors * where.precision) @ where.vectors.T, precision, rtol=1e-12, atol=1e-12)
    ratios = eigh(noise, (where.vectors * where.noise) @ where.vectors.T, eigvals_only=True)
    assert ratios[-1] == pytest.approx(1)  # a bound, and the least
    told = largest(sgld(), where, 0.1)
    A = np.eye(3) - told.stepsize / 2 * precision
    law = solve_discrete_lyapunov(A, told.stepsize * np.eye(3) + told.stepsize**2 / 4 * noise)
    ratios = np.sqrt(eigh(law, np.linalg.inv(precision), eigvals_only=True))  # of sds, the least and the largest
    assert 0.01 < np.abs(ratios - 1).max() <= told.error <= 0.08


@pytest.mark.parametrize(
    ("subsampling", "left"), [("uniform", 50 / 99), ("withReplacement", 1.0)], ids=["without", "with"]
)
def test_the_noise_of_half_of_the_data(subsampling: str, left: float) -> None:
    """The mean of 100 observations: the terms' variance s^2 makes a noise of N^2/n s^2, without replacement less."""
    x = np.random.default_rng(3).normal(size=100)

    def of_mean(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["x"] - params["level"]) ** 2)

    given = {"minibatchSize": 50, "subsampling": subsampling, "dtype": "float64", "seed": 1, "preconditioner": None}
    sampler = sgmcmc.sgldSetup(of_mean, {"x": x}, {"level": 0.0}, "auto", **given)
    sgmcmc.initSess(sampler, verbose=False)
    eps, noise = sampler.expected["stepsize"], 100**2 / 50 * x.var() * left
    variance = (eps + eps**2 / 4 * noise) / (1 - (1 - eps / 2 * 100) ** 2)
    assert np.sqrt(100 * variance) - 1 == pytest.approx(sampler.expected["error"], rel=1e-6)


def batch_mean(params: dict, dataset: dict) -> tf.Tensor:
    return log_lik(params, dataset) / tf.cast(tf.shape(dataset["y"])[0], tf.float32)


def gathered(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.gather(params["level"], dataset["group"])) ** 2)


GROUPS = {"dataset": {"y": Y, "group": np.arange(N) % 5}, "params": {"level": np.zeros(5)}, "integers": ["group"]}


def all_used(params: dict, dataset: dict) -> tf.Tensor:
    return log_lik(params, dataset) - params["many"][0]


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("sgld", {"stepsize": "automatic"}, "stepsize of sgld must be 'auto', a positive number, or a schedule such as"),
    ("sgld", {"tolerance": 0}, "tolerance of sgld must be a number from 0.001 to 1; got 0"),
    ("sgldcv", {"optStepsize": "fast"}, "optStepsize of sgldcv must be 'auto' or a positive number; got 'fast'"),
    ("sgld", {"preconditioner": "full"}, "preconditioner of sgld must be None, 'diagonal', 'lowRank', 'dense', a"),
    ("sgld", {"preconditioner": np.eye(3)}, "preconditioner of sgld must have shape (4, 4), with all"),
    ("sgld", {"preconditioner": np.triu(np.ones((4, 4)))}, "preconditioner of sgld must be symmetric; got differences"),
    ("sgld", {"preconditioner": -np.eye(4)}, "preconditioner of sgld must be positive definite; got a smallest"),
    ("sgld", {"preconditioner": np.ones((4, 4))}, "preconditioner of sgld must be positive definite; got"),
    ("sgld", {"preconditioner": np.diag([1.0, 1.0, 1.0, np.nan])}, "preconditioner of sgld must be finite; got nan"),
    ("sgld", {"preconditioner": {"beta": np.ones(3)}}, "preconditioner of sgld must have the keys of params, ['beta'"),
    ("sgld", {"preconditioner": {"beta": np.ones(2), "level": 1.0}},
     "preconditioner['beta'] of sgld must have the shape of the parameter, (3,), or be a matrix over its elements"),
    ("sgld", {"preconditioner": {"beta": np.ones(3), "level": 0.0}}, "preconditioner['level'] of sgld must be"),
    ("sgld", {"params": {"beta": np.zeros(3), "level": 0.0, "many": np.zeros(100_000)}, "logLik": all_used},
     "stepsize of sgld must be a number if params have more than 100000 elements; tune can find one; got 'auto'"),
    ("sghmc", {"alpha": {"beta": 0.1, "level": 0.2}}, "alpha of sghmc must be one number if the stepsize is 'auto'"),
    ("sgld", {"logLik": batch_mean},
     "logLik of sgld looks like a mean over the observations: its gradient does not change if each of 11"),
    ("sgld", GROUPS | {"logLik": gathered, "logPrior": None, "preconditioner": None},
     "stepsize of sgld must be a number if a minibatch moves only some rows of params (with"),
    ("ccadl", {"stepsize": "auto"}, "stepsize of ccadl must be a number unless params are one array and"),
    ("ccadl", {"stepsize": "auto", "covariance": "full"},
     "stepsize of ccadl must be a number unless params are one array"),
    ("sghmc", {"betaHat": "fisher"}, "stepsize of sghmc must be a number unless params are one array and"),
    ("sample", {"dynamics": sgmcmc.Dynamics(lambda theta, memory, given: (theta + given.gradient, memory))},
     "stepsize of sample must be a number for Dynamics without `stationary`, from which 'auto' computes the variance "
     "of the chain; got 'auto'"),
    ("sample", {"stepsize": 0.1, "preconditioner": "dense",
                "dynamics": sgmcmc.Dynamics(lambda theta, memory, given: (0.9 * theta + given.noise, memory))},
     "dynamics of sample must move 'beta' by steps that do not depend on its position if there is a preconditioner"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "sentence"), BAD, ids=[f"{b[0]}: {b[2][:40]}" for b in BAD])
def test_what_cannot_be_is_refused_at_set_up(name: str, changes: dict[str, Any], sentence: str) -> None:
    arguments = {"logLik": log_lik, "dataset": DATASET, "params": PARAMS} | ARGUMENTS | changes
    with pytest.raises(ValueError, match=re.escape(sentence)):
        getattr(sgmcmc, name + "Setup")(**arguments)


def test_a_start_of_no_density_is_refused() -> None:
    sampler = sgmcmc.sgldSetup(
        lambda p, d: tf.reduce_sum(tf.math.log(p["level"]) - d["y"] ** 2 * p["level"]), DATASET, {"level": -1.0}, seed=1
    )
    with pytest.raises(ValueError, match="params must be a point with a finite log posterior for an automatic search"):
        sgmcmc.initSess(sampler, verbose=False)


def test_a_posterior_that_is_not_as_expected_is_said_to_be() -> None:
    """Cauchy's distribution to the power of three: its tails are wider than the curvature at the mode says."""

    def wide(params: dict, dataset: dict) -> tf.Tensor:
        return tf.reduce_sum(0.0 * dataset["y"] - 2.0 / N * tf.math.log1p(params["level"] ** 2))

    with pytest.warns(UserWarning, match=r"an sd of 'level' in this chain is .* times the sd expected before the run"):
        sgmcmc.sgldcv(wide, DATASET, {"level": 0.1}, minibatchSize=100, nIters=5000, verbose=False, seed=1)


def test_a_run_that_is_too_short_is_said_to_be() -> None:
    with pytest.warns(
        UserWarning, match=r"this run is worth (about \d+|less than one) independent draws? in its slowest direction"
    ):
        sgmcmc.sgldcv(log_lik, DATASET, PARAMS, **ARGUMENTS, tolerance=0.005, nIters=1500, verbose=False)


def test_a_tolerance_that_cannot_be_kept_is_said_not_to_be() -> None:
    with pytest.warns(UserWarning, match=r"no stepsize of sghmc keeps tolerance=0.05: .* is up to 1\d%, and"):
        begin(sgmcmc.sghmcSetup(log_lik, DATASET, PARAMS, **ARGUMENTS))


@pytest.mark.parametrize("p", [1, 5])
def test_the_thermostat_is_at_rest_up_to_where_it_is_taken_to_be(p: int) -> None:
    """At the largest stepsize that is let through; simulated in NumPy, to 4 standard errors of about 0.5%."""
    a, rng = 0.05, np.random.default_rng(3)
    eps = 0.024
    told = sgnht(a).stationary(eps, np.ones(p), np.zeros(p))  # type: ignore[misc]
    assert np.isfinite(told.variance).all()
    assert np.isinf(sgnht(a).stationary(0.031, np.ones(p), np.zeros(p)).variance).all()  # type: ignore[misc]
    theta, u, xi, squares = np.zeros((1000, p)), np.sqrt(eps) * rng.normal(size=(1000, p)), np.full((1000, 1), a), 0.0
    for iteration in range(4000):
        u = u - eps * theta - xi * u + np.sqrt(2 * a * eps) * rng.normal(size=theta.shape)
        theta, xi = theta + u, xi + (u**2).mean(axis=1, keepdims=True) - eps
        squares += (theta**2).mean() if iteration >= 1000 else 0.0
    assert abs(np.sqrt(squares / 3000 / told.variance.mean()) - 1) < 0.02
