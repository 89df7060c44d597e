"""How often a call traces, since each operation of a graph costs as much as many iterations.

It uses the inside of the package: it needs the defaults of all options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.arguments.signatures import RUN_DEFAULTS

X = np.random.default_rng(0).normal(3.0, 1.0, 2000).astype(np.float32)
RUN = {"verbose": False, "seed": 1}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * params["theta"] ** 2


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that are traced."""
    traced, function = [], tf.function

    def counted(one: Callable, **options: Any) -> Any:
        traced.append(one)
        return function(one, **options)

    monkeypatch.setattr(tf, "function", counted)
    return traced


# On 22 and on 11 observations, the rows, the loop and its supplies; and the search's two sizes of blocks.
@pytest.mark.parametrize(("name", "most"), [("sgld", 5), ("sgldcv", 14)])
def test_a_repeated_call_traces_no_more_than_it_must(name: str, most: int, traces: list) -> None:
    stepsize = {"stepsize": 1e-5} if name == "sgld" else {}

    def call() -> None:
        run = getattr(sgmcmc, name)
        run(log_lik, {"x": X}, {"theta": 0.0}, logPrior=log_prior, nIters=5, **stepsize, **RUN)

    call()
    traces.clear()
    call()
    assert 0 < len(traces) <= most


@pytest.mark.parametrize("name", ["sgld", "sgldcv"])
def test_a_second_run_of_one_setup_traces_and_prepares_nothing(name: str, traces: list) -> None:
    setup = getattr(sgmcmc, name + "Setup")
    sampler = setup(log_lik, {"x": X}, {"theta": 0.0}, 1e-5, logPrior=log_prior, seed=1)
    first = sampler.run(20, False, **RUN_DEFAULTS)
    traces.clear()
    again = sampler.run(20, False, **RUN_DEFAULTS)
    longer = sampler.run(30, False, **RUN_DEFAULTS)
    assert not traces
    np.testing.assert_array_equal(again["theta"], first["theta"])
    np.testing.assert_array_equal(longer["theta"][:20], first["theta"])
    thinned = sampler.run(20, False, **RUN_DEFAULTS | {"thin": 2})  # records other rows
    np.testing.assert_array_equal(thinned["theta"], first["theta"][1::2])
