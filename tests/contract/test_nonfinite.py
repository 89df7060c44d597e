"""A log posterior that is NaN or infinite: messages name the observation, the values of params, and what to write."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc

N, BAD = 3000, 1234
RNG = np.random.default_rng(0)
Y = RNG.normal(size=N)
X = RNG.uniform(-1, 1, size=N)
X[BAD] = 20.0
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-X))).astype(float)
LABELS[BAD] = 1.0
OPTIONS: dict[str, Any] = {"verbose": False, "seed": 1}
NORMAL = {"logPrior": lambda params: -0.5 * tf.reduce_sum(params["b"] ** 2)}


def textbook(params: dict, dataset: dict) -> tf.Tensor:
    """0 log 0 for a probability that float32 rounds to 1, which it does for logits beyond 17."""
    p = 1 / (1 + tf.exp(-params["b"] * dataset["x"]))
    return tf.reduce_sum(dataset["y"] * tf.math.log(p) + (1 - dataset["y"]) * tf.math.log(1 - p))


def of_scale(params: dict, dataset: dict) -> tf.Tensor:
    return tf.reduce_sum(-tf.math.log(params["s"]) - 0.5 * (dataset["y"] / params["s"]) ** 2)


def not_taken(params: dict, dataset: dict) -> tf.Tensor:
    """0 times the infinite derivative of a square root at 0."""
    root = tf.where(dataset["y"] != 0, tf.sqrt(tf.abs(dataset["y"] * params["m"])), 0.0)
    return tf.reduce_sum(root - (dataset["y"] - params["m"]) ** 2)


def message_of(function: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises((ValueError, sgmcmc.DivergenceError)) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(*args, **OPTIONS | kwargs)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a divergence": ("sgld", {"stepsize": 1e-5, "minibatchSize": N, "nIters": 50}, "iteration 1: "),
    "one of several chains": (
        "sgld",
        {"stepsize": 1e-5, "minibatchSize": N, "nIters": 50, "nChains": 3, "starts": {"b": [0.1, 0.1, 1.0]}},
        "of chain 2 was NaN or infinite after iteration 1: ",
    ),
    "a start": ("sgldcv", {"nIters": 50}, "there it is nan: "),
    "a search": ("sgldcv", {"stepsize": 1e-5, "optStepsize": 1e-5, "minibatchSize": N, "nIters": 50}, "minibatch 1: "),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_probability_that_was_rounded_to_1(name: str) -> None:
    sampler, changes, where = CALLS[name]
    message = message_of(getattr(sgmcmc, sampler), textbook, {"x": X, "y": LABELS}, {"b": 1.0}, **changes)
    assert f"{where}the log likelihood of observation {BAD} (counted from 0) is nan at params {{'b': 1}}. " in message
    assert re.search(
        r"In float64 it is -2\.06e-09: float32 rounds .* tf.nn.softplus, .* use dtype='float64'\.", message
    )
    assert ("If these params are implausible, decrease" in message) == (name != "a start")


def test_it_has_no_trouble_in_float64() -> None:
    out = sgmcmc.sgldcv(textbook, {"x": X, "y": LABELS}, {"b": 1.0}, **OPTIONS, **NORMAL, nIters=50, dtype="float64")
    assert np.isfinite(out["b"]).all()


def test_a_rounded_number_at_draws_around_the_mode() -> None:
    """The logit of that observation is below 17 at the mode itself."""
    x = X.copy()
    x[BAD] = 16.0
    message = message_of(sgmcmc.sgldcv, textbook, {"x": x, "y": LABELS}, {"b": 0.1}, **NORMAL)
    assert f"the log likelihood of observation {BAD} (counted from 0) is nan at params {{'b': 1." in message
    assert "finite gradients of single observations around the mode" in message
    assert "In float64 it is -" in message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_negative_scale(dtype: str) -> None:
    message = message_of(sgmcmc.sgldcv, of_scale, {"y": Y}, {"s": -0.5}, dtype=dtype)
    assert "the log likelihood of observation 0 (counted from 0) is nan at params {'s': -0.5}. " in message
    assert (
        "It is finite for positive values of 's': declare its domain in transforms, such as transforms={'s': "
        in message
    )


def test_a_parameter_of_several_that_leaves_its_domain() -> None:
    """Weights and scales of a mixture on the scale of the real numbers, with a flat prior."""
    centres = np.repeat([-4.0, 0.0, 5.0], [300, 400, 300])

    def mixture(params: dict, dataset: dict) -> tf.Tensor:
        tfd = tfp.distributions
        normals = tfd.Normal(params["mu"], params["s"])
        return tfd.MixtureSameFamily(tfd.Categorical(probs=params["w"]), normals).log_prob(dataset["y"])

    start = {"w": np.ones(3) / 3, "mu": np.array([-3.0, 0.0, 3.0]), "s": np.ones(3)}
    message = message_of(sgmcmc.sgldcv, mixture, {"y": centres + RNG.normal(size=1000)}, start)
    assert "'w': 'positive'" in message


def test_a_gradient_that_is_not_finite_where_the_log_likelihood_is() -> None:
    y = Y.copy()
    y[BAD] = 0.0
    for call in ({"stepsize": "auto"}, {"stepsize": 1e-5, "minibatchSize": N, "nIters": 20}):
        message = message_of(sgmcmc.sgld, not_taken, {"y": y}, {"m": 0.5}, **call)
        assert (
            f"the log likelihood of observation {BAD} (counted from 0) is -0.25, but its gradient with respect to ['m']"
            in message
        )
        assert "Even in the branch of tf.where that is not taken," in message


def test_a_log_prior() -> None:
    def prior(params: dict) -> tf.Tensor:
        return tf.reduce_sum(tf.math.log(params["b"] - 0.5))

    message = message_of(sgmcmc.sgldcv, textbook, {"x": X, "y": LABELS}, {"b": 0.5}, logPrior=prior)
    assert "logPrior is -inf at params {'b': 0.5}." in message


def test_params_are_those_that_the_user_knows() -> None:
    def narrow(params: dict, dataset: dict) -> tf.Tensor:
        return tf.reduce_sum(tf.math.log(2.0 - params["s"]) - (dataset["y"] / params["s"]) ** 2)

    message = message_of(sgmcmc.sgldcv, narrow, {"y": Y}, {"s": 3.0}, transforms={"s": "positive"})
    assert "is nan at params {'s': 3}." in message
    assert "'positive'" not in message


def test_steps_that_are_too_large_are_blamed_on_the_stepsize() -> None:
    def line(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["y"] - params["b"] * dataset["x"]) ** 2)

    message = message_of(sgmcmc.sgld, line, {"x": X, "y": Y}, {"b": 0.0}, stepsize=10.0, nIters=50)
    assert "try decreasing stepsize" in message
    message = message_of(sgmcmc.sgld, textbook, {"x": X, "y": LABELS}, {"b": 0.0}, stepsize=10.0, nIters=50)
    assert "If these params are implausible, decrease stepsize." in message


@pytest.mark.parametrize("is_mapped", [False, True])
def test_the_number_is_that_of_all_observations_where_some_were_looked_at(tmp_path: Path, is_mapped: bool) -> None:
    """A search begins with some thousand of these."""
    n = 40_000
    x = np.random.default_rng(1).uniform(-1, 1, n)
    bad = np.random.default_rng(2).permutation(n)[:200]
    x[bad] = 20.0
    arrays = {"x": x.astype(np.float32), "y": np.ones(n, np.float32)}
    if is_mapped:
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        arrays = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in arrays}
    message = message_of(sgmcmc.sgldcv, textbook, arrays, {"b": 1.0})
    found = re.search(r"observation (\d+) \(counted from 0\) is nan", message)
    assert found is not None
    assert int(found[1]) in bad
