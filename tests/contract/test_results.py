"""What comes back: types, one trace, whatever the data, the terms and the stepsize are given as."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sgmcmc
from tests.catalogue import dense

N = 25


def draws(stepsize: Any, dtype: str = "float32") -> sgmcmc.Draws:
    given = {"dtype": dtype, "minibatchSize": N, "nIters": 30, "seed": 1, "verbose": False}
    return sgmcmc.sgld(**dense().arguments(), stepsize=stepsize, **given)


@cache
def of_number(dtype: str) -> sgmcmc.Draws:
    return draws(1e-3, dtype)


def test_params_hold_the_start_before_the_session_begins() -> None:
    start = {"theta": [[1.0, 2.0]]}
    sampler = sgmcmc.sgldSetup(
        lambda params, dataset: -tf.reduce_sum((dataset["x"] - params["theta"]) ** 2),
        {"x": np.zeros((20, 2))},
        start,
        1e-3,
        minibatchSize=5,
    )
    np.testing.assert_array_equal(sampler.params["theta"], start["theta"])
    with pytest.raises(ValueError, match="estLogPost needs a session; call initSess first"):
        _ = sampler.estLogPost


def test_the_users_function_is_traced_once_for_all_blocks() -> None:
    problem, calls = dense(), []

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        calls.append(1)
        return problem.logLik(params, dataset)

    sampler = sgmcmc.sgldSetup(log_lik, problem.dataset, problem.params, 1e-3, minibatchSize=N)
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess)
    traced = len(calls)
    for size in (1, 2, 50, 3000):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=size)
    sgmcmc.sgmcmcStep(sampler, sgmcmc.initSess(sampler))
    assert len(calls) == traced


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_constant_schedule_is_the_number(dtype: str) -> None:
    """To the last bit: a Python number that passed through float32 would differ in float64."""
    number, schedule, exact = of_number(dtype), draws(lambda t: 1e-3, dtype), draws(lambda t: 0 * t + 1e-3, dtype)
    for name, array in number.items():
        np.testing.assert_array_equal(array, schedule[name])
        np.testing.assert_allclose(array, exact[name], rtol=1e-12 if dtype == "float64" else 1e-5)


def test_float64() -> None:
    single = of_number("float32")
    for name, array in of_number("float64").items():
        assert array.dtype == np.float64
        np.testing.assert_allclose(array, single[name], rtol=1e-3, atol=1e-4)


def test_terms_and_sum_give_the_same_chain() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    for subsampling in ("uniform", "withReplacement", rng.uniform(0.5, 2.0, 100)):
        chains = [
            sgmcmc.sgld(
                lambda params, dataset, reduce=reduce: reduce(-0.5 * (dataset["x"] - params["theta"]) ** 2),
                {"x": x},
                {"theta": 0.0},
                1e-3,
                minibatchSize=10,
                nIters=30,
                seed=1,
                verbose=False,
                subsampling=subsampling,
            )["theta"]
            for reduce in (tf.reduce_sum, tf.identity)
        ]
        np.testing.assert_allclose(chains[0], chains[1], rtol=1e-4, atol=1e-6)


def test_datasets_of_every_kind_give_the_same_chain() -> None:
    y = np.arange(60) % 2
    x = np.linspace(-1, 1, 60).astype(np.float32)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        p = tf.sigmoid(params["beta"] * dataset["x"])
        return tf.reduce_sum(dataset["y"] * tf.math.log(p) + (1 - dataset["y"]) * tf.math.log(1 - p))

    frame = pd.DataFrame({"y": y})
    kinds = [
        {"x": x, "y": y},
        {"x": x.tolist(), "y": y.tolist()},
        {"x": pd.Series(x), "y": frame["y"]},
        {"x": tf.constant(x), "y": y.astype(bool)},
        {"x": x.astype(np.float64), "y": y.astype(np.uint8)},
    ]
    held = [sgmcmc.sgldSetup(log_lik, data, {"beta": 0}, 1e-2, None, 10).data for data in kinds]
    for name in kinds[0]:
        for arrays in held:
            assert arrays[name].dtype == np.float32
            np.testing.assert_array_equal(arrays[name], held[0][name])
    chains = [sgmcmc.sgld(log_lik, data, {"beta": 0}, 1e-2, None, 10, 20, False, 1)["beta"] for data in kinds[::2]]
    for other in chains[1:]:
        np.testing.assert_array_equal(chains[0], other)
    as_frame = sgmcmc.sgldSetup(
        lambda params, dataset: -tf.reduce_sum((dataset["z"] - params["m"]) ** 2),
        {"z": pd.DataFrame({"a": y, "b": x})},
        {"m": np.zeros(2)},
        1e-3,
        minibatchSize=10,
    )
    assert as_frame.data["z"].shape == (60, 2)


def test_pandas_entries_have_one_index() -> None:
    """Rows with different labels belong to different observations; by position they are combined only if asked."""
    x = pd.Series(np.arange(60.0))
    y = x.sample(frac=1.0, random_state=0)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["y"] - params["m"] * dataset["x"]) ** 2)

    given = {"params": {"m": 0.0}, "stepsize": 1e-6, "minibatchSize": 10}
    with pytest.raises(
        ValueError, match=r"dataset of sgld must have entries with the same pandas index; got different ones for 'y'"
    ):
        sgmcmc.sgldSetup(log_lik, {"x": x, "y": y}, **given)
    for aligned in (y.to_numpy(), y.loc[x.index], y.reset_index(drop=True)):
        sgmcmc.sgldSetup(log_lik, {"x": x, "y": aligned}, **given)


def test_schedules_stand_where_numbers_stand() -> None:
    constant, same = of_number("float32"), draws(sgmcmc.polynomial(1e-3, a=10, b=0))
    falling = draws(dict.fromkeys(constant, 1e-3) | {"scalar": sgmcmc.polynomial(1e-3, a=1, b=1)})
    for name, array in constant.items():
        np.testing.assert_allclose(array, same[name], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(array[0], falling[name][0], rtol=1e-5)
    early, late = (np.abs(np.diff(falling["scalar"][part])).mean() for part in (slice(0, 5), slice(25, 30)))
    assert late < early
