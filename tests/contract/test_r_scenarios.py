"""What users of the R package do: its scenarios with assertions on the posterior.

Each posterior is Gaussian and known; means over a chain are compared with it by a bound of about six standard errors,
estimated beforehand from the integrated autocorrelation time 2/(stepsize/2 * precision), so that over the choice of
seeds a test fails with probability below 1e-8; seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.catalogue import CATALOGUE, Entry

N_DATA = 1000
STEPSIZE = {"sgld": 2e-4, "sgldcv": 2e-4, "sghmc": 2e-5, "sghmccv": 2e-5, "sgnht": 1e-4, "sgnhtcv": 1e-4}
MODE = {"optStepsize": 1e-4, "nItersOpt": 1000}
# At R's defaults, friction 0.01, the noise of the gradients heats sghmc by a half, and it says so.
pytestmark = pytest.mark.filterwarnings("ignore:the kinetic temperature of 'theta':UserWarning")
R = {entry.name: entry for entry in CATALOGUE if entry.name in STEPSIZE}  # the samplers that R has


def options(entry: Entry) -> dict:
    return MODE if "optStepsize" in entry.settings else {}


@pytest.mark.parametrize("entry", R.values(), ids=R)
def test_normal_mean_in_one_dimension(entry: Entry) -> None:
    x = np.random.default_rng(1).normal(size=N_DATA)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        return tf.reduce_sum(tfp.distributions.Normal(params["theta"], 1.0).log_prob(dataset["x"]))

    def log_prior(params: dict) -> tf.Tensor:
        return tfp.distributions.Normal(0.0, 10.0).log_prob(params["theta"])

    out = entry.one_call(
        log_lik, {"x": x}, {"theta": 0.5}, STEPSIZE[entry.name], logPrior=log_prior, minibatchSize=100, nIters=10_000,
        verbose=False, seed=1, **options(entry),
    )  # fmt: skip
    draws = out["theta"][2000:]
    exact = x.sum() / (N_DATA + 0.01)
    assert abs(draws.mean() - exact) < 0.02
    assert 0.7 < draws.std() * np.sqrt(N_DATA) < 1.5  # sgld's own stationary law has 1.30, the posterior 1


@pytest.mark.parametrize("entry", R.values(), ids=R)
def test_normal_mean_in_three_dimensions_with_its_own_stepsizes(entry: Entry) -> None:
    scale = np.array([1.0, 0.5, 2.0], np.float32)
    x = np.random.default_rng(2).normal(size=(N_DATA, 3)) * scale

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        law = tfp.distributions.MultivariateNormalDiag(params["theta"], scale)
        return tf.reduce_sum(law.log_prob(dataset["x"]))

    out = entry.one_call(
        log_lik, {"x": x}, {"theta": np.zeros(3)}, {"theta": STEPSIZE[entry.name] / 4}, minibatchSize=0.1,
        nIters=20_000, verbose=False, seed=1, **options(entry),
    )  # fmt: skip
    draws = out["theta"][4000:]
    assert draws.shape == (16_000, 3)
    assert (np.abs(draws.mean(axis=0) - x.mean(axis=0)) < 0.035 * scale + 0.01).all()


@pytest.mark.parametrize("entry", [R["sgld"], R["sgldcv"]], ids=lambda entry: entry.name)
def test_covariance_matrix_by_its_cholesky_factor(entry: Entry) -> None:
    rng = np.random.default_rng(3)
    factor = np.array([[1.0, 0.0], [0.7, 0.5]])
    x = rng.normal(size=(N_DATA, 2)) @ factor.T

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        law = tfp.distributions.MultivariateNormalTriL(params["theta"], tf.linalg.band_part(params["L"], -1, 0))
        return tf.reduce_sum(law.log_prob(dataset["x"]))

    def log_prior(params: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(params["L"] ** 2)

    out = entry.one_call(
        log_lik, {"x": x}, {"theta": np.zeros(2), "L": np.eye(2)}, 2e-5, logPrior=log_prior, minibatchSize=100,
        nIters=20_000, verbose=False, seed=1, **options(entry) | ({"optStepsize": 2e-5} if options(entry) else {}),
    )  # fmt: skip
    assert out["L"].shape == (20_000, 2, 2)
    lower = np.tril(out["L"][10_000:])
    covariance = (lower @ np.swapaxes(lower, 1, 2)).mean(axis=0)
    np.testing.assert_allclose(covariance, np.cov(x.T), atol=0.15)
