"""What the help pages of R's package show, line by line in Python: one test for each page.

| page, vignette or test | in Python | what differs |
|---|---|---|
| sgld, sghmc, sgnht | the same | nothing |
| sgldcv, sghmccv, sgnhtcv | the same | an optStepsize of 0.1 is for Adam, and diverges without: the error says so |
| sgldSetup to sgnhtcvSetup | the same | nothing; the fields that are tested below are R's |
| initSess, sgmcmcStep, getParams | the same loop | TensorFlow 2 has no session: what was run in it is computed |
| getDataset | the same, test_datasets.py | nothing |
| vignettes mvGauss, gaussMixture, logisticRegression, nn | vignettes/ | the models; text and data are ours |
| burn-in in them, one parameter after the other | out.burnIn(k) | for all parameters at once; alone it is an error |
| test losses in them, by a placeholder and sess.run | a function of getParams | TensorFlow 2 has neither |
| tests, one and three dimensions, Cholesky | test_r_scenarios.py | assertions on the posterior, R's only run |
| tests of errors | test_arguments.py | the error names the argument |

The data are 1000 standard normals, the model their mean. The posterior has the sd 0.03, the chains 0.03 to 0.1 with the
noise of minibatches of 10; their averages have standard errors below 0.008, so that the bound of 0.05 is six of them at
least.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc

N, N_ITERS = 1000, 10_000
X = np.random.default_rng(13).normal(size=N)
DATASET, PARAMS = {"x": X}, {"theta": 0.0}
STEPSIZE = {"sgld": 1e-4, "sghmc": 1e-5, "sgnht": 1e-5}
CONTROL_VARIATES = ("sgldcv", "sghmccv", "sgnhtcv")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of the tuning of these examples, which is R's


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    distn = tfp.distributions.Normal(params["theta"], 1.0)
    return tf.reduce_sum(distn.log_prob(dataset["x"]))


def stepsize(name: str) -> dict[str, float]:
    return {"theta": STEPSIZE[name.removesuffix("cv")]}


def assert_posterior(theta: np.ndarray) -> None:
    assert theta.shape == (N_ITERS,)
    late = theta[1000:]
    assert abs(late.mean() - X.mean()) < 0.05 and 0.015 < late.std() < 0.3


@pytest.mark.parametrize("name", ["sgld", "sghmc", "sgnht"])
def test_sampler_by_positions_as_in_r(name: str) -> None:
    """In R: output = sgld(logLik, dataset, params, stepsize)."""
    output = getattr(sgmcmc, name)(log_lik, DATASET, PARAMS, stepsize(name), verbose=False, seed=13)
    assert_posterior(output["theta"])


@pytest.mark.parametrize("name", CONTROL_VARIATES)
def test_sampler_with_control_variates_as_in_r(name: str) -> None:
    """In R: output = sgldcv(logLik, dataset, params, stepsize, optStepsize); for 0.1 Adam must be named here."""
    sampler, opt_stepsize = getattr(sgmcmc, name), 1e-1
    with pytest.raises(sgmcmc.ModeSearchError, match="optStepsize"):
        sampler(log_lik, DATASET, PARAMS, stepsize(name), opt_stepsize, verbose=False, seed=13)
    output = sampler(log_lik, DATASET, PARAMS, stepsize(name), opt_stepsize, optimizer="adam", verbose=False, seed=13)
    assert_posterior(output["theta"])
    assert_posterior(sampler(log_lik, DATASET, PARAMS, stepsize(name), 1e-4, verbose=False, seed=13)["theta"])


@pytest.mark.parametrize("name", ["sgld", "sghmc", "sgnht", *CONTROL_VARIATES])
def test_setup_and_a_loop_as_in_r(name: str) -> None:
    """In R: sgld = sgldSetup(...); sess = initSess(sgld); for (i in 1:nIters) { sgmcmcStep(sgld, sess) }."""
    arguments: list[Any] = [log_lik, DATASET, PARAMS, stepsize(name)] + [1e-4] * name.endswith("cv")
    sampler = getattr(sgmcmc, name + "Setup")(*arguments, seed=13)
    sess = sgmcmc.initSess(sampler, verbose=False)
    out = np.zeros(200)
    for i in range(200):
        sgmcmc.sgmcmcStep(sampler, sess)
        out[i] = sgmcmc.getParams(sampler, sess)["theta"]
    assert np.isfinite(out).all() and len(np.unique(out)) > 190  # to the bit those of one call: test_samplers.py
    assert (sampler.N, sampler.n, sampler.stepsize) == (N, N // 100, stepsize(name))
    for field in ("params", *(("paramsOpt", "logPostOptGrad") if name.endswith("cv") else ())):
        assert set(getattr(sampler, field)) == {"theta"}
    settings = {"sghmc": {"alpha": {"theta": 0.01}, "L": 5}, "sgnht": {"a": {"theta": 0.01}}}.get(
        name.removesuffix("cv"), {}
    )
    assert {key: getattr(sampler, key) for key in settings} == settings
