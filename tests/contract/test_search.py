"""The search for the mode: how few passes it makes, where it falls back, and what it says where there is no mode.

It uses the inside of the package: it counts the passes of the search, and makes it fail at a chosen point.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.laplace import newton, search
from sgmcmc.laplace.posterior import Passes, Posterior

RNG = np.random.default_rng(1)
N, D = 100_000, 10
X = np.hstack([np.ones((N, 1)), RNG.normal(size=(N, D - 1))])
BETA = 0.5 * RNG.normal(size=D)
FEW = {"x": X[:5000, :3], "y": X[:5000, :3] @ [1.0, 2.0, 3.0] + RNG.standard_t(3, size=5000)}


def prior(params: dict) -> tf.Tensor:
    return -0.005 * sum(tf.reduce_sum(x**2) for x in params.values())


def linear(params: dict, dataset: dict) -> tf.Tensor:
    residual = dataset["y"] - tf.linalg.matvec(dataset["x"], params["beta"])
    return tf.reduce_sum(-0.5 * residual**2 * tf.exp(-2 * params["log_sd"]) - params["log_sd"])


def logistic(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["x"], params["beta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.math.softplus(eta))


def poisson(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["x"], params["beta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.exp(eta))


def student(params: dict, dataset: dict) -> tf.Tensor:
    scaled = (dataset["y"] - tf.linalg.matvec(dataset["x"], params["beta"])) * tf.exp(-params["log_sd"])
    return tf.reduce_sum(-2 * tf.math.log1p(scaled**2 / 3) - params["log_sd"])


def mixture(params: dict, dataset: dict) -> tf.Tensor:
    first = tf.math.log_sigmoid(params["w"]) - 0.5 * (dataset["y"] - params["m"][0]) ** 2
    second = tf.math.log_sigmoid(-params["w"]) - 0.5 * (dataset["y"] - params["m"][1]) ** 2
    return tf.reduce_sum(tf.reduce_logsumexp(tf.stack([first, second]), axis=0))


def median(params: dict, dataset: dict) -> tf.Tensor:
    return -tf.reduce_sum(tf.abs(dataset["y"] - tf.linalg.matvec(dataset["x"], params["beta"])))


CHANCE = RNG.random(N)
MODELS: dict[str, tuple[Callable, dict, dict]] = {
    "linear": (linear, {"x": X, "y": X @ BETA + 3 * RNG.normal(size=N)}, {"beta": np.zeros(D), "log_sd": 0.0}),
    "logistic": (logistic, {"x": X, "y": 1.0 * (1 / (1 + np.exp(-X @ BETA)) > CHANCE)}, {"beta": np.zeros(D)}),
    "poisson": (poisson, {"x": X[:, :3], "y": RNG.poisson(np.exp(X[:, :3] @ [2.0, 0.5, -0.5]))},
                {"beta": [-20.0, 3.0, 3.0]}),
    "student": (student, {"x": X, "y": X @ BETA + RNG.standard_t(3, size=N)}, {"beta": np.zeros(D), "log_sd": 1.0}),
    "mixture": (mixture, {"y": RNG.normal(np.where(CHANCE < 0.3, -2.0, 2.0))}, {"w": 0.0, "m": [-0.5, 0.5]}),
}  # fmt: skip


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Passes]:
    """The counts of all posteriors from now on."""
    made: list[Passes] = []

    class Counted(Passes):
        def __init__(self, n_data: int) -> None:
            super().__init__(n_data)
            made.append(self)

    monkeypatch.setattr("sgmcmc.laplace.posterior.Passes", Counted)
    return made


def begun(name: str, log_lik: Callable, dataset: dict, params: dict, **settings: Any) -> Any:
    sampler = getattr(sgmcmc, name + "Setup")(log_lik, dataset, params, seed=1, **settings)
    sgmcmc.initSess(sampler, verbose=False)
    return sampler


def left(sampler: Any, dataset: dict, params: dict) -> float:
    """The Newton step from the mode that was found, in posterior standard deviations, in float64 and on all data."""
    setup = sampler._sampler
    model = sgmcmc.sgldcvSetup(
        setup.model._log_lik, dataset, params, 1.0, logPrior=prior, dtype="float64", seed=1
    )._sampler.model
    posterior = Posterior(model, {name: np.shape(x) for name, x in params.items()})
    at = posterior.flat({name: sampler.paramsOpt[name].numpy() for name in params})
    gradient, precision = posterior.value_and_gradient(at)[1], -posterior.hessian(at)
    return float(np.sqrt(gradient @ np.linalg.solve(precision, gradient)))


@pytest.mark.parametrize("name", MODELS)
def test_everything_before_the_first_iteration_takes_six_passes_and_one_of_the_hessian(
    name: str, counted: list[Passes]
) -> None:
    """The mode, the curvature, the noise and the control variates. The terms of the noise count twice."""
    log_lik, dataset, params = MODELS[name]
    sampler = begun("sgldcv", log_lik, dataset, params, logPrior=prior)
    made = {key: sum(passes.of(key) for passes in counted) for key in ("first", "directed", "second", "terms")}
    assert made["first"] + made["directed"] + 2 * made["terms"] <= 6 and made["second"] <= 1.15, made
    assert made["first"] > 2 and made["second"] >= 1  # the counts see them
    assert left(sampler, dataset, params) < 0.05


@pytest.mark.parametrize("name", ["poisson", "mixture", "student"])
def test_where_newton_steps_do_not_help_the_search_climbs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them refused: every stage climbs, and ends at the same mode."""
    climbs, climbed = [], search.climbed
    monkeypatch.setattr(newton, "SHRINKS", 0.0)
    monkeypatch.setattr(search, "climbed", lambda *given: climbs.append(given[0].data.size) or climbed(*given))
    log_lik, dataset, params = MODELS[name]
    sampler = begun("sgldcv", log_lik, dataset, params, logPrior=prior)
    assert climbs[:3] == [1000, 10_000, N]
    assert left(sampler, dataset, params) < 0.1


def test_a_category_that_a_part_has_not_seen_does_not_mislead_the_search(counted: list[Passes]) -> None:
    """20 of 100,000 observations have it, and a flat prior: without them it has no curvature at all."""
    _, dataset, params = MODELS["logistic"]
    x = dataset["x"].copy()
    x[:, 3] = 0.0
    x[RNG.choice(N, 20, replace=False), 3] = 1.0
    dataset = dataset | {"x": x}
    sampler = begun("sgldcv", logistic, dataset, params, logPrior=prior)
    assert left(sampler, dataset, params) < 0.1 and sampler.expected["sd"]["beta"][3] > 0.4


def test_the_search_tells_the_passes_done_and_expected(capsys: pytest.CaptureFixture[str]) -> None:
    sampler = sgmcmc.sgldcvSetup(*MODELS["logistic"], seed=1, logPrior=prior)
    sgmcmc.initSess(sampler, verbose=True)
    assert "Finding the mode: 100%, 4.7/4.7 passes in" in capsys.readouterr().err


def of_groups(params: dict, dataset: dict) -> tf.Tensor:
    return tf.reduce_sum(-0.5 * (dataset["y"] - params["mu"] - tf.gather(params["b"], dataset["g"])) ** 2)


def of_effects(params: dict) -> tf.Tensor:
    n = params["b"].shape[0]
    return -0.5 * tf.reduce_sum((params["b"] * tf.exp(-params["log_sd"])) ** 2) - n * params["log_sd"]


def test_a_hierarchical_model_without_a_mode_is_said_to_be_one() -> None:
    """The joint density of 200 effects and their scale rises without bound as the scale falls to 0."""
    groups = RNG.integers(0, 200, 4000)
    y = 0.2 * RNG.normal(size=200)[groups] + RNG.normal(size=4000)
    params = {"mu": 0.0, "b": np.zeros(200), "log_sd": 0.0}
    with pytest.warns(
        UserWarning, match=r"the curvature in \['b'\] grew more than a million times: .* to have no mode"
    ):
        begun("sgldcv", of_groups, {"y": y, "g": groups}, params, logPrior=of_effects, integers=["g"], stepsize=1e-5)


def test_classes_that_a_flat_prior_lets_separate_are_said_to_be() -> None:
    y = 1.0 * (FEW["x"] @ [1.0, 2.0, 3.0] > 0)
    with pytest.warns(UserWarning, match=r"mostly along \['beta'\]. It therefore has no mode there and is improper"):
        begun("sgldcv", logistic, {"x": FEW["x"], "y": y}, {"beta": np.zeros(3)}, stepsize=1e-5)


def natural(params: dict, dataset: dict) -> tf.Tensor:
    scaled = (dataset["y"] - params["m"]) / params["sigma"]
    return tf.reduce_sum(-0.5 * scaled**2 - tf.math.log(params["sigma"]))


def test_a_scale_that_begins_at_zero_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"a finite log posterior .* it is nan, but it is finite nearby, at another 'sigma'"
    ):
        begun("sgld", natural, {"y": FEW["y"]}, {"m": 0.0, "sigma": 0.0})


def test_a_scale_that_begins_far_too_small_is_found() -> None:
    """Several climbs, each with the curvature where the one before ended: it changes by nine powers of ten."""
    y = 5 + FEW["x"][:, 1]
    sampler = begun("sgldcv", natural, {"y": y}, {"m": 0.0, "sigma": 1e-3})
    assert sampler.paramsOpt["sigma"].numpy() == pytest.approx(y.std(), rel=1e-3)


def flat_at_the_start(params: dict, dataset: dict) -> tf.Tensor:
    return tf.reduce_sum(0.0 * dataset["y"] - tf.nn.relu(params["a"] - 3.0) ** 2)


NO_CURVATURE: dict[str, tuple[Callable, dict, dict]] = {
    "median": (median, {"beta": np.zeros(3)}, {}),
    "median, with a prior": (median, {"beta": np.zeros(3)}, {"logPrior": prior}),
    "flat": (flat_at_the_start, {"a": 0.0}, {}),
    "absolute value": (lambda p, d: -tf.reduce_sum(tf.abs(d["y"] - p["a"])), {"a": 0.1}, {}),
}


@pytest.mark.parametrize("name", NO_CURVATURE)
@pytest.mark.parametrize("sampler", ["sgld", "sgldcv"])
def test_a_log_likelihood_without_curvature_is_refused(sampler: str, name: str) -> None:
    log_lik, params, settings = NO_CURVATURE[name]
    of = f"logLik of {sampler} has no usable curvature at the mode in {[*params]}"
    with warnings.catch_warnings(), pytest.raises(ValueError, match=of.replace("[", r"\[").replace("]", r"\]")):
        warnings.simplefilter("ignore", UserWarning)  # that the search has not converged
        begun(sampler, log_lik, FEW, params, **settings)


def test_a_prior_that_is_stronger_than_the_data_is_no_lack_of_curvature() -> None:
    def strong(params: dict) -> tf.Tensor:
        return -1e6 * tf.reduce_sum(params["beta"] ** 2)

    y = 1.0 * (FEW["y"] > 0)
    sampler = begun("sgld", logistic, {"x": FEW["x"], "y": y}, {"beta": np.zeros(3)}, logPrior=strong)
    np.testing.assert_allclose(sampler.expected["sd"]["beta"], 1 / np.sqrt(2e6), rtol=0.06)


def test_minibatches_larger_than_what_pays_are_said_to_be() -> None:
    with pytest.warns(UserWarning, match="minibatches of sgldcv have 50000 observations, more than is efficient: with"):
        begun("sgldcv", *MODELS["logistic"], logPrior=prior, minibatchSize=0.5)


def log_gamma(params: dict, dataset: dict) -> tf.Tensor:
    return tf.reduce_sum(0.0 * dataset["y"] + (0.5 * params["a"] - tf.exp(params["a"])) / 5000)


def test_a_chain_that_moves_more_slowly_than_expected_is_said_to() -> None:
    """The logarithm of a Gamma(0.5) variable: its left tail is exponential, and long."""
    with pytest.warns(UserWarning, match=r"'a' in this chain needs about \d+ iterations for an independent draw, not"):
        sgmcmc.sgldcv(log_gamma, FEW, {"a": 0.0}, minibatchSize=50, nIters=60_000, nChains=4, verbose=False, seed=1)


def test_chains_that_move_as_expected_are_not_warned_of() -> None:
    log_lik, dataset, params = MODELS["logistic"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for seed in range(3):
            sgmcmc.sgldcv(
                log_lik, dataset, params, logPrior=prior, minibatchSize=100, nIters=4000, verbose=False, seed=seed
            )


def test_a_chain_in_another_mode_is_said_to_be_there() -> None:
    """Two wells, 20 sds apart; the second chain starts in the other one."""

    def wells(params: dict, dataset: dict) -> tf.Tensor:
        each = tf.stack([-0.5 * (params["a"] + 10) ** 2, -0.5 * (params["a"] - 10) ** 2])
        return tf.reduce_sum(0.0 * dataset["y"] + tf.reduce_logsumexp(each) / 5000)

    with pytest.warns(UserWarning, match="the mean of chain 1 is 19 expected sds of 'a' away"):
        sgmcmc.sgldcv(
            wells, FEW, {"a": -9.0}, minibatchSize=50, nIters=3000, nChains=2, starts={"a": [-10.0, 10.0]},
            verbose=False, seed=1,
        )  # fmt: skip
