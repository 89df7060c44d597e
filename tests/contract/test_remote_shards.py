"""Shards with executors of their own: the same chains as if all were here, though no observation is.

It uses the inside of the package: it looks at what a worker keeps open, and at the jobs of a chain.
"""

from __future__ import annotations

import gc
import itertools
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import groups, runningMean, saga, sgldcv, shards, tune
from sgmcmc.dataset import remote
from sgmcmc.run.shards import ChainStretch
from tests.contract.test_shards import logistic, logistic_shards
from tests.contract.test_some_chains import DATASET, PARAMS, RUN, compare, logLik, moving

ROUNDING = 1e-4
PARTS = [{name: x[begin:end] for name, x in DATASET.items()} for begin, end in ((0, 150), (150, 400))]


@pytest.fixture
def places():
    """An executor for each shard."""
    executors = [ThreadPoolExecutor(1) for _ in PARTS]
    yield executors
    for executor in executors:
        executor.shutdown()


CASES = {
    "auto": ("sgldcv", {"nIters": 200}),
    "one chain": ("sgldcv", {"nChains": None}),
    "leaps": ("sghmccv", {"L": 3}),
    "thermostat, shared": ("sgnhtcv", {"sharedMinibatch": True}),
    "plain, replaced": ("sgld", {"stepsize": 1e-4, "subsampling": "withReplacement", "burnIn": 3, "thin": 4}),
    "dense, scattered": ("sgldcv", {"preconditioner": "dense", "starts": 0.1, "dtype": "float64"}),
    "positive": ("sgldcv", {"transforms": {"theta": "positive"}}),
    "reduced": ("sgldcv", {"reduce": runningMean(), "collect": lambda params: {"t": params["theta"] ** 2}}),
    "covariance": ("ccadl", {"stepsize": 1e-5, "a": 0.1}),
}


@pytest.mark.parametrize("name", CASES)
def test_chains_are_those_of_shards_that_are_here(name, places):
    sampler, given = CASES[name]
    data = (shards(PARTS, 4), shards([lambda part=part: part for part in PARTS], 4, places))
    here, there = (getattr(sgmcmc, sampler)(logLik, x, PARAMS, **RUN | {"nChains": 3} | given) for x in data)
    compare(here, there, ROUNDING)
    assert here.settings["shards"] == there.settings["shards"]
    if name == "auto":
        ratios = [out.settings["expected"]["sdRatio"]["beta"] for out in (here, there)]
        np.testing.assert_allclose(*ratios, rtol=ROUNDING)


@pytest.mark.parametrize("hop", [1, 100])
def test_stays_of_all_lengths(hop, places):
    given = RUN | {"nIters": 220, "nChains": 2}
    here, there = (sgldcv(logLik, shards(PARTS, hop, ex), PARAMS, **given) for ex in (None, places))
    compare(here, there, ROUNDING)


def two_logistic_shards():
    first, *others = logistic_shards(by_column=True)
    return [first, {key: np.concatenate([part[key] for part in others]) for key in first}]


def test_a_part_of_the_data_is_the_same_wherever_it_is(places):
    """Of 20,000 observations the search and the stepsize use parts: the settings agree to rounding."""
    data = two_logistic_shards()
    given = {"minibatchSize": 100, "nIters": 20, "seed": 1, "verbose": False}
    here, there = (
        sgldcv(logistic, shards(data, 5, executors), {"beta": np.zeros(4)}, **given) for executors in (None, places)
    )
    compare(here, there, ROUNDING)
    here, there = (out.settings["expected"] for out in (here, there))
    np.testing.assert_allclose(here["stepsize"], there["stepsize"], rtol=ROUNDING)
    np.testing.assert_allclose(here["sdRatio"]["beta"], there["sdRatio"]["beta"], rtol=ROUNDING)


def opened_apart(part, parent):
    assert os.getpid() != parent
    return part


def test_processes_open_their_shards_themselves(pool):
    """The functions that open the data refuse to be called here."""
    opens = [partial(opened_apart, part, os.getpid()) for part in PARTS]
    given = RUN | {"nChains": 2}
    there = sgldcv(logLik, shards(opens, executors=[pool] * 2), PARAMS, **given)
    compare(sgldcv(logLik, shards(PARTS), PARAMS, **given), there, ROUNDING)


class Listening:
    """An executor that keeps what its jobs return, as it would travel."""

    def __init__(self, executor):
        self.executor, self.heard = executor, []

    def submit(self, function, *arguments):
        return self.executor.submit(self._called, function, *arguments)

    def _called(self, function, *arguments):
        result = function(*arguments)
        self.heard.append(pickle.dumps(result))
        return result


def test_no_number_of_an_observation_leaves_its_worker(places, tmp_path):
    """Not one of 80,000 numbers is in the bytes that the jobs of a stored run return, in which its draws are found."""
    data, listening = two_logistic_shards(), [Listening(place) for place in places]
    out = sgldcv(
        logistic, shards(data, 5, listening), {"beta": np.zeros(4)}, preconditioner="dense", minibatchSize=100,
        nIters=100, nChains=2, dtype="float64", storage=tmp_path / "run.zarr", seed=1, verbose=False,
    )  # fmt: skip
    assert out["beta"].shape == (2, 100, 4)
    heard = b"".join(itertools.chain(*(one.heard for one in listening)))
    numbers = np.concatenate([np.ravel(part["z"]) for part in data]).astype("<f8")
    words = {heard[k : k + 8] for k in range(len(heard) - 7)}
    assert len(heard) > 10_000 and not words.intersection(x.tobytes() for x in numbers)
    assert words.intersection(x.tobytes() for x in np.ravel(out["beta"]).astype("<f8"))


def test_steps_and_resuming(places, tmp_path):
    data, given = shards(PARTS, 7, places), {"stepsize": 1e-5, "minibatchSize": 40, "seed": 1, "verbose": False}
    store = tmp_path / "run.zarr"
    sgldcv(logLik, data, PARAMS, nIters=30, storage=store, **given)
    whole = sgldcv(logLik, data, PARAMS, nIters=60, storage=store, resume=True, **given)
    compare(whole, sgldcv(logLik, data, PARAMS, nIters=60, **given), ROUNDING)
    sampler = sgmcmc.sgldcvSetup(logLik, data, PARAMS, **given)
    sess = sgmcmc.initSess(sampler, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=59)
    sgmcmc.saveSess(sampler, sess, tmp_path / "session")
    sgmcmc.sgmcmcStep(sampler, sess)
    assert np.isclose(sgmcmc.getParams(sampler, sess)["theta"], whole["theta"][-1], rtol=ROUNDING)
    other = sgmcmc.sgldcvSetup(logLik, data, PARAMS, **given)
    sess = sgmcmc.restoreSess(other, tmp_path / "session")
    sgmcmc.sgmcmcStep(other, sess)
    assert np.isclose(sgmcmc.getParams(other, sess)["theta"], whole["theta"][-1], rtol=ROUNDING)


def test_what_is_lost_by_rounding_is_said_here(places):
    """By the type of the data, as if they were here: seconds since 1970 in float32."""
    parts = [{"x": 1.7e9 + np.arange(200.0), "z": np.ones((200, 3))}] * 2
    with pytest.warns(UserWarning, match=r"dataset\['x'\] of sgldcv in shard [01]"):
        sgmcmc.sgldcvSetup(logLik, shards(parts, executors=places), PARAMS, stepsize=1e-5, seed=1)


def failing(part):
    raise OSError("the disk is gone")


def test_a_shard_that_cannot_be_opened_is_named(places):
    opens = [lambda: PARTS[0], lambda: failing(PARTS[1])]
    with pytest.raises(OSError, match="the disk is gone") as caught:
        sgldcv(logLik, shards(opens, executors=places), PARAMS, **RUN)
    assert caught.value.__notes__ == ["This error is from the job that opens shard 1."]
    with pytest.raises(ValueError, match=r"dataset\['x'\] of sgldcv in shard 1 must be finite"):
        sgldcv(logLik, shards([PARTS[0], {"x": [np.nan], "z": np.ones((1, 3))}], executors=places), PARAMS, **RUN)


def test_a_failure_in_a_stay_loses_nothing_that_is_stored(places, tmp_path):
    data, given = shards(PARTS, 5, places), RUN | {"nIters": 100, "nChains": 2}
    complete = sgldcv(logLik, data, PARAMS, **given)

    class Breaking(ThreadPoolExecutor):
        def submit(self, function, /, *arguments):
            late = any(isinstance(x, ChainStretch) and x.stretch.begin >= 50 for x in arguments)
            return super().submit(broken if late else function, *arguments)

    def broken(*arguments):
        raise OSError("the line is cut")

    breaking = [Breaking(1) for _ in PARTS]
    store = tmp_path / "run.zarr"
    with pytest.raises(OSError, match="the line is cut") as caught:
        sgldcv(logLik, shards(PARTS, 5, breaking), PARAMS, storage=store, **given)
    assert "on shard" in caught.value.__notes__[0]
    resumed = sgldcv(logLik, data, PARAMS, storage=store, resume=True, **given)
    compare(resumed, complete, ROUNDING)
    for executor in breaking:
        executor.shutdown()


def with_index(place):
    def gathered(params, dataset):
        return -0.5 * tf.reduce_sum((dataset["x"] - tf.gather(params["group"], dataset["g"])) ** 2)

    parts = [{"x": np.ones(50), "g": np.arange(50) % 3}, {"x": np.ones(50), "g": np.arange(50) % 4}]
    return sgldcv(gathered, shards(parts, executors=[place] * 2), {"group": np.zeros(3)}, integers=["g"], **RUN)


def test_data_that_change_between_jobs_are_refused(places, tmp_path):
    file = tmp_path / "x.npy"
    np.save(file, PARTS[1]["x"])
    data = shards([lambda: PARTS[0], lambda: PARTS[1] | {"x": np.load(file)}], executors=places)
    sampler = sgmcmc.sgldcvSetup(logLik, data, PARAMS, seed=1, verbose=False)
    np.save(file, PARTS[1]["x"] + 1)
    sgmcmc.initSess(sampler, verbose=False)  # by what the worker has open
    remote._data.clear()  # as if it were another worker
    with pytest.raises(RuntimeError, match="must not change; these have changed"):
        sgmcmc.sgldcv(logLik, sampler._sampler.data, PARAMS, **RUN)


def test_workers_close_what_nobody_needs(places):
    remote._data.clear()
    sampler = sgmcmc.sgldcvSetup(logLik, shards(PARTS, executors=places), PARAMS, seed=1, verbose=False)
    sgmcmc.initSess(sampler, verbose=False)
    assert len(remote._data) == 2
    del sampler
    gc.collect()
    for place in places:
        place.submit(int).result()
    assert not remote._data


def test_an_index_out_of_range_is_found_there(places):
    with pytest.raises(ValueError, match=r"here from 0 to 2 for an axis of 3; got 3, which is in dataset\['g'\]"):
        with_index(places[0])


REFUSED = {
    "few executors": ({}, 1, "executors of shards, of sgldcv, must have one for each of 2 datasets; got 1"),
    "executor": ({"nChains": 4, "executor": ThreadPoolExecutor(1)}, 2, "must be None for shards with executors of"),
    "gradients": ({"gradients": True}, 2, "gradients of sgldcv must be False for shards with executors"),
    "stepsize": ({"optStepsize": 1e-4}, 2, "optStepsize of sgldcv must be 'auto' for shards with executors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_observations_here_is_refused(name, places):
    given, n_executors, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        sgldcv(logLik, shards(PARTS, executors=places[:n_executors]), PARAMS, **RUN | given)


def test_what_remembers_observations_is_refused(places):
    data = shards(PARTS, executors=places)
    with pytest.raises(ValueError, match="gradient of sgld must be None or control variates for shards with executors"):
        sgmcmc.sgld(logLik, data, PARAMS, stepsize=1e-5, gradient=saga(), **RUN)
    with pytest.raises(ValueError, match="gibbs of sgld must be None for shards with executors"):
        sgmcmc.sgld(logLik, data, PARAMS, stepsize=1e-5, gibbs=moving, **RUN)
    with pytest.raises(RuntimeError, match="stay with their workers, and cannot be read here"):
        tune(sgmcmc.sgld, logLik, data, PARAMS, [1e-6, 1e-5], minibatchSize=40, seed=1, verbose=False)
    with pytest.raises(ValueError, match="executor of sgldcv must be None or an object with a method submit"):
        sgldcv(logLik, shards(PARTS, executors=["here"] * 2), PARAMS, **RUN)


def test_an_observation_without_a_finite_term_is_found_there(places):
    parts = [{name: x.copy() for name, x in part.items()} for part in PARTS]
    parts[1]["x"][7] = 0.0

    def of_logarithm(params, dataset):
        return tf.reduce_sum(params["theta"] * tf.math.log(tf.abs(dataset["x"])) - params["theta"] ** 2)

    with pytest.raises(ValueError, match=r"the log likelihood of observation 157 \(counted from 0\) is -inf at params"):
        sgldcv(of_logarithm, shards(parts, executors=places), {"theta": 1.0}, verbose=False, seed=1)


def test_groups_are_whole_and_their_padding_does_not_count(places):
    def of_groups(seed):
        rng = np.random.default_rng(seed)
        g = np.repeat(np.arange(200), np.append(rng.integers(1, 4, size=199), 3))
        return groups({"g": g, "x": rng.normal(0.5, 1.0, size=len(g))}, by="g")

    def of_rows(params, dataset):
        return dataset["inside"] * -0.5 * (dataset["x"] - params["theta"]) ** 2

    def masked(params, dataset):
        return tf.reduce_sum(of_rows(params, dataset), axis=1)

    def counting(params, dataset):
        return masked(params, dataset | {"inside": tf.ones_like(dataset["x"])})

    parts = [of_groups(1), of_groups(2)]
    given = ({"theta": 0.0}, 1e-4)
    run = {"nIters": 20, "minibatchSize": 10, "seed": 1, "verbose": False}
    here = sgmcmc.sgld(masked, shards(parts, hop=1), *given, **run)
    there = sgmcmc.sgld(masked, shards(parts, hop=1, executors=places), *given, **run)
    np.testing.assert_allclose(there["theta"], here["theta"], rtol=1e-6)
    with pytest.raises(ValueError, match="logLik of sgld must not depend on padding"):
        sgmcmc.sgldSetup(counting, shards(parts, hop=1, executors=places), *given, minibatchSize=10)
