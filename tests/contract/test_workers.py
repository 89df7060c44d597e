"""What workers make besides the chains of a run: passes over all observations, gradients, and rungs of `tune`.

It uses the inside of the package: it counts the pieces of passes.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import sgld
from sgmcmc.dataset import full_pass
from sgmcmc.dataset.memory import InMemory
from sgmcmc.parallel.executors import Workers
from tests.contract.conftest import SPAWN
from tests.contract.test_some_chains import DATASET, PARAMS, logLik


def passing(on_disk, folder):
    """A sampler that makes passes of all kinds: for gradients, products, the Hessian and weights."""
    rng = np.random.default_rng(0)
    x, beta = rng.normal(size=(5003, 3)), np.array([1.0, -1.0, 0.5])
    rows = np.column_stack([x, rng.poisson(np.exp(0.3 * x @ beta))]).astype(np.float32)
    np.save(folder / "rows.npy", rows)

    def log_lik(params, dataset):
        eta = tf.linalg.matvec(dataset["rows"][:, :3], params["beta"])
        return dataset["rows"][:, 3] * eta - tf.exp(eta)

    dataset = {"rows": np.load(folder / "rows.npy", mmap_mode="r") if on_disk else rows}
    weighted = {"subsampling": sgmcmc.preferential(), "seed": 1}
    return sgmcmc.sgldcvSetup(log_lik, dataset, {"beta": np.zeros(3)}, minibatchSize=50, **weighted)._sampler


@pytest.fixture
def small_passes(monkeypatch):
    """In small pieces, by workers however few the data."""
    monkeypatch.setattr(full_pass, "WORTH", 0)
    monkeypatch.setattr("sgmcmc.dataset.BLOCK_BYTES", 300 * 16)


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_passes_by_workers_have_the_same_bits(on_disk, pool, threads, tmp_path, small_passes, monkeypatch):
    sampler = passing(on_disk, tmp_path)
    made, summed = [], full_pass._made_of
    monkeypatch.setattr(full_pass.FullPass, "blocks", lambda *given: made.append(1) or blocks(*given))
    here = sampler.find(False)
    of_all, jobs = len(made), []

    class Counting:
        def submit(self, function, *arguments):
            assert arguments[0] is summed
            jobs.append(arguments[2].part)
            return pool.submit(function, *arguments)

    for executor in (Counting(), threads):
        made.clear()
        with Workers(executor) as workers:
            there = sampler.find(False, workers)
            folder = workers._folder
            assert len(list(folder.glob("array-*"))) <= 1  # of all data once
        assert not folder.exists()
        equal = tf.nest.map_structure(lambda a, b: bool(np.array_equal(a, b)), here, there)
        assert all(tf.nest.flatten(equal))
        if isinstance(executor, Counting):
            assert len(made) < of_all  # parts of the data, and the terms of some observations
    assert len(jobs) > 3 * 17 and {part.start for part in jobs if part.stop - part.start == 300} > {0, 300, 4500}


blocks = full_pass.FullPass.blocks


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000, 5003])
def test_sums_are_those_of_numpy_however_they_are_cut(size):
    data = InMemory({"x": np.random.default_rng(0).normal(size=5003)})

    def of_block(words, factor, weights):
        x = data.layout.unpack(words)["x"]
        return [tf.reduce_sum(factor * weights * x), tf.reduce_sum(tf.ones_like(x))]

    weights = np.random.default_rng(1).random(5003)
    passes = full_pass.FullPass(data, of_block, size)
    total, n = passes.summed([tf.constant(2.0, tf.float64)], of_each=[weights])
    np.testing.assert_allclose(total, 2 * weights @ data.arrays()["x"], rtol=1e-9)
    assert n == 5003

    def rows(words):
        return [data.layout.unpack(words)["x"] ** 2]

    (squares,) = full_pass.FullPass(data, rows, size).joined()
    np.testing.assert_array_equal(squares, data.arrays()["x"] ** 2)


def test_what_fails_in_a_pass_says_where(small_passes, tmp_path):
    sampler = passing(False, tmp_path)
    with (
        ProcessPoolExecutor(1, SPAWN, initializer=_dies_at_the_third_call) as dying,
        Workers(dying) as workers,
        pytest.raises(BrokenProcessPool) as caught,
    ):
        sampler.find(False, workers)
    assert "from a pass over all observations" in caught.value.__notes__[0]
    assert "with observations 600 to 899" in caught.value.__notes__[0]


def _dies_at_the_third_call():
    calls, made_of = [], full_pass._made_of

    def dying(*given):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return made_of(*given)

    full_pass._made_of = dying


def test_full_gradients_by_workers_have_the_same_bits(pool):
    draws = {"theta": np.linspace(2, 4, 5), "beta": np.zeros((5, 3))}
    here, there = (
        sgmcmc.diagnostics.fullGradients(draws, logLik, DATASET, verbose=False, executor=one) for one in (None, pool)
    )
    for name in draws:
        np.testing.assert_array_equal(here[name], there[name])


def test_tune_takes_an_executor(pool):
    model, jobs = (logLik, DATASET, PARAMS), {"executor": pool, "chainsPerJob": 1}
    given = {"nGradients": 200_000, "minibatchSize": 40, "verbose": False, "seed": 1}
    here, there = (sgmcmc.tune(sgld, *model, [1e-5, 1e-4], **given, **more) for more in ({}, jobs))
    assert there.settings == here.settings and there.table.shape == here.table.shape
    numbers = [tuned.table.select_dtypes("number").to_numpy() for tuned in (there, here)]
    np.testing.assert_allclose(*numbers, rtol=1e-3)
