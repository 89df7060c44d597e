"""The density at 0 of a prior, which sgzigzag with inclusion finds by integration.

It uses the inside of the package: it compares the integrals over the atom with quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

from sgmcmc import sgzigzagSetup
from sgmcmc.samplers import sgzigzag

tfd = tfp.distributions
SCALES = np.array([1e-4, 1.0, 1e4])


def density(log_prior: Callable | None, monkeypatch: pytest.MonkeyPatch, dtype: str = "float32", **params: Any) -> Any:
    """That of `beta`."""
    found, find = [], sgzigzag._density_at_zero
    monkeypatch.setattr(sgzigzag, "_density_at_zero", lambda *given: found.append(find(*given)) or found[0])

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        return tf.reduce_sum(dataset["x"]) * sum(tf.reduce_sum(theta) for theta in params.values())

    sgzigzagSetup(
        log_lik, {"x": np.zeros(9)}, {"beta": np.zeros(3)} | params, 1e-4, log_prior, 3, dtype=dtype,
        inclusion={"beta": 0.5},
    )  # fmt: skip
    return found[0]


def normal(params: dict) -> tf.Tensor:
    beta = params["beta"]
    return -0.5 * tf.reduce_sum((beta / tf.constant(SCALES, beta.dtype)) ** 2) + 100.0


def laplace(params: dict) -> tf.Tensor:
    beta = params["beta"]
    return -tf.reduce_sum(tf.abs(beta) / tf.constant(SCALES, beta.dtype))


def cauchy(params: dict) -> tf.Tensor:
    beta = params["beta"]
    return -tf.reduce_sum(tf.math.log1p((beta / tf.constant(SCALES, beta.dtype)) ** 2))


def shifted(params: dict) -> tf.Tensor:
    beta = params["beta"]
    return tf.reduce_sum(tfd.Normal(tf.constant([1, 3, -2], beta.dtype), tf.constant(1, beta.dtype)).log_prob(beta))


def quartic(params: dict) -> tf.Tensor:
    """Whose float32 gradient overflows far away."""
    return -tf.reduce_sum((0.001 * params["beta"] ** 2) ** 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("log_prior", "exact"),
    [(normal, stats.norm.pdf(0) / SCALES), (laplace, 0.5 / SCALES), (cauchy, 1 / np.pi / SCALES),
     (shifted, stats.norm.pdf([1, 3, -2])), (quartic, np.full(3, stats.gennorm.pdf(0, 8) / 1000**0.5))],
)  # fmt: skip
def test_it_is_that_of_the_normalised_prior(log_prior, exact, dtype, monkeypatch):
    """To 0.1%, at any scale and without the prior's constant."""
    np.testing.assert_allclose(density(log_prior, monkeypatch, dtype), exact, rtol=1e-3)


def test_another_parameter_may_have_any_prior(monkeypatch):
    found = density(lambda params: normal(params) - params["other"] ** 4, monkeypatch, other=0.0)
    np.testing.assert_allclose(found, stats.norm.pdf(0) / SCALES, rtol=1e-3)


@pytest.mark.parametrize(
    "log_prior",
    [lambda params: -tf.reduce_sum(params["beta"]),
     lambda params: -tf.reduce_sum(tf.math.log1p(tf.abs(params["beta"]))),
     lambda params: tf.reduce_sum(tf.math.log(tf.math.log1p(1 / params["beta"] ** 2))),
     lambda params: tf.reduce_sum(tfd.Gamma(2.0, 1.0).log_prob(params["beta"]))],
    ids=["grows", "heavy", "infinite at 0", "of positive numbers"],
)  # fmt: skip
def test_what_has_no_such_density_is_refused(log_prior, monkeypatch):
    message = "logPrior of sgzigzag must be a log density of 'beta', which inclusion names, that is finite at 0 and"
    with pytest.raises(ValueError, match=message):
        density(log_prior, monkeypatch)


@pytest.mark.parametrize(
    "log_prior",
    [lambda params: -0.5 * tf.reduce_sum(params["beta"] ** 2) - 0.02 * params["beta"][0] * params["beta"][2],
     lambda params: -1.5 * tf.math.log1p(tf.reduce_sum(params["beta"] ** 2)) - tf.reduce_sum(params["beta"] ** 2),
     lambda params: tf.reduce_sum(tfd.Normal(0.0, tf.exp(params["log_scale"])).log_prob(params["beta"])),
     lambda params: -0.5 * tf.reduce_sum((params["beta"] - params["log_scale"]) ** 2)],
    ids=["correlated", "multivariate t", "a scale", "a mean"],
)  # fmt: skip
def test_a_density_that_depends_on_others_is_refused(log_prior, monkeypatch):
    message = "with independent elements; got one that depends on other elements or parameters"
    with pytest.raises(ValueError, match=message):
        density(log_prior, monkeypatch, log_scale=0.0)
