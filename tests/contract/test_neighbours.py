"""Log likelihoods whose terms are not those of single observations, and Setups that several threads use.

It uses the inside of the package: it looks at what a sampler keeps between runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.arguments.signatures import of_run

Y = np.random.default_rng(0).normal(size=1000)


def pairs(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["y"][0::2] - dataset["y"][1::2] - params["theta"]) ** 2)


def fours(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((tf.reshape(dataset["y"], [-1, 4]) - params["theta"]) ** 2)


def scaled(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["y"] / tf.reduce_max(tf.abs(dataset["y"])) - params["theta"]) ** 2)


@pytest.mark.parametrize("log_lik", [pairs, fours])
def test_rows_that_belong_together_are_refused(log_lik: Callable) -> None:
    """A minibatch would draw them apart."""
    with pytest.raises(ValueError, match="logLik of sgld must take any number of observations"):
        sgmcmc.sgldSetup(log_lik, {"y": Y}, {"theta": 0.0}, 1e-6, minibatchSize=100, seed=1)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 50])
def test_what_depends_on_the_other_rows_of_a_minibatch_is_seen_in_few_of_them(n: int) -> None:
    with pytest.warns(UserWarning, match="whose gradient for some observations is not the sum of those for the two"):
        sgmcmc.sgldSetup(scaled, {"y": Y[:n]}, {"theta": 0.0}, 1e-6, minibatchSize=2, seed=1)


def test_threads_that_run_one_setup_get_its_draws() -> None:
    sampler = sgmcmc.sgldSetup(
        lambda p, d: -0.5 * tf.reduce_sum((d["y"] - p["theta"]) ** 2), {"y": Y}, {"theta": 0.0}, 1e-4, seed=1
    )
    alone = sampler.run(500, False, **of_run({}))["theta"]
    drawn: list[np.ndarray] = []

    def repeat() -> None:
        drawn.extend(np.asarray(sampler.run(500, False, **of_run({}))["theta"]) for _ in range(4))

    threads = [threading.Thread(target=repeat) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 12
    for each in drawn:
        np.testing.assert_array_equal(each, alone)


def test_a_setup_keeps_one_loop() -> None:
    sampler = sgmcmc.sgldSetup(
        lambda p, d: -0.5 * tf.reduce_sum((d["y"] - p["theta"]) ** 2), {"y": Y}, {"theta": 0.0}, 1e-4, seed=1
    )
    for thin in (1, 2, 3):
        sampler.run(12, False, **of_run({"thin": thin}))
    assert len(sampler._cache.loops) == 1
