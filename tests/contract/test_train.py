"""train: where Adam's chains end, from their own starts, and how the learning rate falls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import DivergenceError, polynomial, sgld, train

N, D = 500, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * np.geomspace(0.3, 3, D)
Y = X @ np.linspace(-1, 1, D) + RNG.normal(size=N)
QUIET: dict[str, Any] = {"verbose": False, "seed": 1}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * (dataset["y"] - tf.linalg.matvec(dataset["X"], params["beta"])) ** 2


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


MODEL: dict[str, Any] = {
    "logLik": log_lik, "dataset": {"X": X, "y": Y}, "params": {"beta": np.zeros(D)}, "logPrior": log_prior,
}  # fmt: skip
MODE = np.linalg.solve(X.T @ X + np.eye(D), X.T @ Y)


def test_the_end_is_the_mode():
    """From any start, and with minibatches too, since the learning rate falls to 0."""
    (one,) = train(**MODEL, stepsize=0.1, minibatchSize=N, nIters=2000, **QUIET)
    np.testing.assert_allclose(one["beta"], MODE, atol=1e-4)
    starts = [{"beta": np.full(D, value)} for value in (-1.0, 2.0)]
    for end in train(**MODEL, stepsize=0.1, minibatchSize=50, nIters=2000, starts=starts, **QUIET):
        np.testing.assert_allclose(end["beta"], MODE, atol=0.03)


def test_a_step_is_the_learning_rate_in_each_direction():
    """Adam's first step has the size of the rate whatever the gradient; the second of two has half of it."""
    (one,) = train(**MODEL, stepsize=0.01, minibatchSize=N, nIters=1, **QUIET)
    np.testing.assert_allclose(np.abs(one["beta"]), 0.01, rtol=1e-5)
    (two,) = train(**MODEL, stepsize=0.01, minibatchSize=N, nIters=2, **QUIET)
    np.testing.assert_allclose(np.abs(two["beta"]), 0.015, rtol=0.02)
    (two,) = train(**MODEL, stepsize=polynomial(0.01, 1, 0), minibatchSize=N, nIters=2, **QUIET)
    np.testing.assert_allclose(np.abs(two["beta"]), 0.02, rtol=0.02)


def test_the_same_seed_gives_the_same_and_chains_have_minibatches_of_their_own():
    first, again = (train(**MODEL, minibatchSize=10, nIters=20, nChains=2, **QUIET) for _ in range(2))
    np.testing.assert_array_equal(first[0]["beta"], again[0]["beta"])
    assert (first[0]["beta"] != first[1]["beta"]).any()


def test_a_transform_is_that_of_the_samplers():
    """The mode of log sd under a flat prior for it, exact."""

    def of_sd(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * (dataset["y"] / params["sd"]) ** 2 - tf.math.log(params["sd"])

    (one,) = train(
        of_sd, {"y": Y}, {"sd": 1.0}, 0.05, lambda params: -tf.math.log(params["sd"]), N, 2000,
        transforms={"sd": "positive"}, **QUIET,
    )  # fmt: skip
    np.testing.assert_allclose(one["sd"], np.sqrt(np.mean(Y**2)), rtol=1e-3)


def test_the_ends_are_starts_of_a_sampler():
    trained = train(**MODEL, stepsize=0.1, minibatchSize=50, nIters=500, nChains=3, **QUIET)
    out = sgld(**MODEL, stepsize=1e-12, minibatchSize=50, nIters=1, starts=trained, **QUIET)
    assert out["beta"].shape == (3, 1, D)
    np.testing.assert_allclose(out["beta"][:, 0], [one["beta"] for one in trained], atol=1e-4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"stepsize": "auto"}, "stepsize of train must be a positive number or a schedule"),
     ({"stepsize": -1.0}, "stepsize of train must be a positive number or a schedule"),
     ({"nIters": 0}, "nIters of train must be an integer of at least 1"),
     ({"minibatchSize": 0}, "minibatchSize of train must be"),
     ({"starts": 0.1}, "starts of train must come with nChains")],
)  # fmt: skip
def test_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        train(**{**MODEL, "minibatchSize": 10, **QUIET, **changed})


def test_a_climb_to_infinity_is_named():
    def unbounded(params: dict, dataset: dict) -> tf.Tensor:
        return tf.exp(tf.reduce_sum(params["beta"])) + 0 * dataset["y"]

    with pytest.raises(DivergenceError, match="beta"):
        train(**MODEL | {"logLik": unbounded}, stepsize=10.0, minibatchSize=N, nIters=100, **QUIET)
