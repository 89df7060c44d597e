"""Parameters of which logLik gathers rows: SGLD moves these rows alone, all other samplers the whole parameter.

The oracle is the same model written with a one-hot product, which has a dense gradient and moves every row. Minibatches
hold the same group several times, so gradients must be summed over repeats and noise added once. The law of rows is the
matter of tests/statistical/test_gathered_rows.py.

It uses the inside of the package: it steps the loop at iterations beyond what a run would reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.run import Plan
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import NOTHING
from tests.catalogue import CATALOGUE, Entry

N_GROUPS, N_DATA, N = 40, 400, 30
RNG = np.random.default_rng(2)
GROUP = RNG.integers(0, N_GROUPS, N_DATA)
X = RNG.normal(size=(N_DATA, 2))
EPS = 1e-3
START = {"common": np.zeros(2), "groups": RNG.normal(size=(N_GROUPS, 2))}  # rows are not numbered first


def gathered(params: dict, dataset: dict) -> tf.Tensor:
    mean = tf.gather(params["groups"], dataset["group"]) + params["common"]
    return -0.5 * tf.reduce_sum((dataset["x"] - mean) ** 2)


def one_hot(params: dict, dataset: dict) -> tf.Tensor:
    mean = tf.matmul(tf.one_hot(dataset["group"], N_GROUPS), params["groups"]) + params["common"]
    return -0.5 * tf.reduce_sum((dataset["x"] - mean) ** 2)


def one_iteration(entry: Entry, log_lik: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The position after one iteration, of two leaps at most, and the memory of the dynamics."""
    settings = entry.settings | ({"L": 2} if "L" in entry.settings else {})
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
def test_rows_move_alone_only_where_that_is_right(entry: Entry) -> None:
    sparse, memory = one_iteration(entry, gathered)
    dense, of_dense = one_iteration(entry, one_hot)
    start = START["groups"].astype(np.float32)
    touched = (sparse["groups"] != start).any(axis=1)
    assert (dense["groups"] != start).any(axis=1).all()
    if entry.name in ("sgld", "sgldcv"):
        assert 0.3 * N < touched.sum() < N  # some groups more than once
    else:
        assert touched.all()
        np.testing.assert_allclose(sparse["groups"], dense["groups"], rtol=1e-5, atol=1e-6)
        tf.nest.map_structure(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), memory, of_dense)
    np.testing.assert_allclose(sparse["common"], dense["common"], rtol=1e-5, atol=1e-6)


def test_one_step_of_rows() -> None:
    """That of the dense model, but for the noise, whose variance is the number of visits over its mean."""
    entry = next(entry for entry in CATALOGUE if entry.name == "sgld")
    sampler = entry.setup(
        gathered, {"x": X, "group": GROUP}, START, EPS, minibatchSize=N, seed=1, integers=["group"], nChains=1
    )._sampler
    prepared = sampler.prepare(verbose=False)
    loop = Loop(prepared, NOTHING)
    after = loop.unflatten(
        loop.advance(loop.flatten(prepared.state), Plan(1, thin=None).stretch(0, 1, loop.capacity)).leaves
    )[0]
    batch = loop.feed.block(0)[1].numpy()[0].ravel()
    dense, _ = one_iteration(entry, one_hot)
    start, count = START["groups"].astype(np.float32), np.bincount(GROUP[batch], minlength=N_GROUPS)
    residual = X[batch] - START["groups"][GROUP[batch]]
    gradient = np.zeros_like(START["groups"])
    np.add.at(gradient, GROUP[batch], N_DATA / N * residual)
    noise = dense["groups"] - start - EPS / 2 * gradient
    visits = N_DATA / N * count / np.bincount(GROUP, minlength=N_GROUPS)
    expected = start + EPS / 2 * gradient + np.sqrt(visits)[:, None] * noise
    np.testing.assert_allclose(
        after.params["groups"][0], np.where(count[:, None] > 0, expected, start), rtol=1e-4, atol=1e-5
    )


def test_minibatches_with_weights_move_the_whole_parameter() -> None:
    out = sgmcmc.sgld(
        gathered, {"x": X, "group": GROUP}, START, EPS, minibatchSize=N, nIters=1, seed=1, integers=["group"],
        subsampling=1.0 + np.arange(N_DATA) % 3, verbose=False,
    )  # fmt: skip
    assert (out["groups"][0] != START["groups"].astype(np.float32)).any(axis=1).all()


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
