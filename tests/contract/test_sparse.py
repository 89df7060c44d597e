"""Parameters of which logLik gathers rows: in one iteration only these rows move, each as if the parameter were dense.

The oracle is the same model written with a one-hot product, which has a dense gradient and moves every row. Minibatches
hold the same group several times, so gradients must be summed over repeats and noise added once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Plan
from sgmcmc.run.recorder import NOTHING
from tests.catalogue import CATALOGUE, Entry

N_GROUPS, N_DATA, N = 40, 400, 30
RNG = np.random.default_rng(2)
GROUP = RNG.integers(0, N_GROUPS, N_DATA)
X = RNG.normal(size=(N_DATA, 2))
START = {"groups": RNG.normal(size=(N_GROUPS, 2)), "shift": np.zeros(2)}


def gathered(params: dict, dataset: dict) -> tf.Tensor:
    mean = tf.gather(params["groups"], dataset["group"]) + params["shift"]
    return -0.5 * tf.reduce_sum((dataset["x"] - mean) ** 2)


def one_hot(params: dict, dataset: dict) -> tf.Tensor:
    mean = tf.matmul(tf.one_hot(dataset["group"], N_GROUPS), params["groups"]) + params["shift"]
    return -0.5 * tf.reduce_sum((dataset["x"] - mean) ** 2)


def one_iteration(entry: Entry, log_lik: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The position after one iteration of a single leap, and the memory of the dynamics."""
    settings = entry.settings | ({"L": 1} if "L" in entry.settings else {})
    settings |= {"nItersOpt": 0} if "nItersOpt" in settings else {}
    sampler = entry.setup(
        log_lik,
        {"x": X, "group": GROUP},
        START,
        entry.stepsize,
        minibatchSize=N,
        seed=1,
        integers=["group"],
        **settings,
    )
    prepared = sampler._sampler.prepare(verbose=False)
    loop = Loop(prepared, NOTHING)
    outcome = loop.advance(loop.flatten(prepared.state), Plan(1, thin=None).stretch(0, 1, loop.capacity))
    after, _ = loop.unflatten(outcome.leaves)
    return {name: theta[0].numpy() for name, theta in after.params.items()}, after.memory


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_rows_move_as_in_the_dense_model(entry: Entry) -> None:
    sparse, memory = one_iteration(entry, gathered)
    dense, _ = one_iteration(entry, one_hot)
    start = START["groups"].astype(np.float32)
    touched = (sparse["groups"] != start).any(axis=1)
    assert 0.3 * N < touched.sum() < N  # some groups more than once
    np.testing.assert_allclose(sparse["groups"][touched], dense["groups"][touched], rtol=1e-5, atol=1e-6)
    assert (dense["groups"] != start).any(axis=1).all()
    np.testing.assert_allclose(sparse["shift"], dense["shift"], rtol=1e-5, atol=1e-6)
    if "thermostat" in memory["groups"]:
        momentum = memory["groups"]["momentum"][0].numpy()
        kinetic = np.mean(momentum[touched].astype(float) ** 2)  # each row once, however often it was gathered
        expected = entry.settings["a"] + kinetic - entry.stepsize
        np.testing.assert_allclose(memory["groups"]["thermostat"][0], expected, rtol=1e-6)


def test_a_dense_prior_moves_all_rows() -> None:
    out = sgmcmc.sgld(
        gathered,
        {"x": X, "group": GROUP},
        START,
        1e-3,
        logPrior=lambda params: -0.5 * tf.reduce_sum(params["groups"] ** 2),
        minibatchSize=N,
        nIters=1,
        seed=1,
        integers=["group"],
        verbose=False,
    )
    assert (out["groups"][0] != START["groups"].astype(np.float32)).any(axis=1).all()


def test_group_means_are_recovered() -> None:
    """R's example of 200 groups: the average of the chain is near each group's mean."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(200), 20)
    x = rng.normal(size=200)[group] + rng.normal(size=4000)
    out = sgmcmc.sgld(
        lambda params, dataset: -0.5 * tf.reduce_sum((dataset["x"] - tf.gather(params["mu"], dataset["group"])) ** 2),
        {"x": x, "group": group},
        {"mu": np.zeros(200)},
        2e-3,
        minibatchSize=400,
        nIters=10_000,
        seed=1,
        integers=["group"],
        verbose=False,
    )
    means = np.array([x[group == j].mean() for j in range(200)])
    error = out["mu"][2000:].mean(axis=0) - means
    # The averages have standard errors near 0.02; 200 groups make 6 of them a safe bound.
    assert np.abs(error).max() < 0.12
    assert np.sqrt(np.mean(error**2)) < 0.03
