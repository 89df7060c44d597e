"""The noise of a linear regression, whose terms are linear in the parameters, by sums over all observations."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc.dataset.memory import InMemory
from sgmcmc.laplace.noise import Terms, noise_of_one
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import whitening
from sgmcmc.model import Model, Returns

N = 200
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 3)), RNG.normal(size=N)
MODE = np.linalg.lstsq(X, Y)[0]


def posterior_of(x):
    def log_lik(params, dataset):
        return -0.5 * (dataset["y"] - tf.linalg.matvec(dataset["X"], params["w"])) ** 2

    model = Model(log_lik, None, InMemory({"X": x, "y": Y}), Returns.TERMS, tf.float64)
    return Posterior(model, {"w": (x.shape[1],)})


@pytest.mark.parametrize("sd", [0.5, 1.0, 2.0])
def test_the_noise_of_control_variates_grows_with_the_distance_of_the_draws(sd):
    """Of one element, where the squares of the draws are exact, with terms x^2 (theta - centre)."""
    posterior, x = posterior_of(X[:, :1]), X[:, 0]
    precision = (x**2).sum()

    def terms(params, dataset, constants, memory):
        return {"w": -(dataset["X"] ** 2) * (params["w"] - constants["centre"])}

    white = whitening(np.array([[precision]]), tf.float64)
    found = noise_of_one(posterior, Terms(terms, {"centre": tf.constant(MODE[:1])}), MODE[:1], white, sd, 1, None)
    expected = sd**2 * (N * (x**4).sum() / precision**2 - 1)
    np.testing.assert_allclose(found.covariance, [[expected]], rtol=1e-9)


def test_the_covariance_and_the_kurtosis_are_those_of_weighted_draws():
    """Of one observation drawn by probabilities q_i, whose term weighs 1/q_i; here at the mode."""
    posterior, white = posterior_of(X), whitening(X.T @ X, tf.float64)
    q = np.linspace(1, 3, N)
    q /= q.sum()
    t = X * (Y - X @ MODE)[:, None] @ white.root / q[:, None]
    terms = Terms(lambda params, dataset, *_: posterior.model.term_gradients(params, dataset), {})
    found = noise_of_one(posterior, terms, MODE, white, 1e-6, 1, q)
    mean = q @ t
    np.testing.assert_allclose(found.covariance, (q[:, None] * t).T @ t - np.outer(mean, mean), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.kurtosis, (q @ t**4) / (q @ t**2) ** 2, rtol=1e-3)
