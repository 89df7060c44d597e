"""Where the data are, who fetches them and in what blocks cannot change a bit of a chain; and what may go wrong.

It uses the inside of the package: it chooses who fetches the observations.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorflow as tf
import zarr

import sgmcmc
from sgmcmc.run import feed
from sgmcmc.run.feed import Fetch

N, N_ITERS = 300, 77
RNG = np.random.default_rng(0)
DATA = {
    "x": RNG.normal(size=(N, 3)).astype(np.float32),
    "y": RNG.normal(size=N),
    "group": RNG.integers(0, 4, N),
}
PARAMS = {"beta": np.zeros(3), "shift": np.zeros(4)}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    mean = tf.linalg.matvec(dataset["x"], params["beta"]) + tf.gather(params["shift"], dataset["group"])
    return -0.5 * tf.reduce_sum((dataset["y"] - mean) ** 2)


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * (tf.reduce_sum(params["beta"] ** 2) + tf.reduce_sum(params["shift"] ** 2))


class Source:
    """A dataset of a user's own; `fails` is called before each fetch."""

    def __init__(self, fails: Callable[[np.ndarray], None] = lambda indices: None) -> None:
        self.fails, self.taken = fails, 0

    def __len__(self) -> int:
        return N

    def take(self, indices: np.ndarray) -> Mapping[str, Any]:
        assert indices.dtype == np.int64
        self.fails(indices)
        self.taken += len(indices)
        return {name: array[indices] for name, array in DATA.items()}


def arguments(dataset: Any = DATA) -> dict[str, Any]:
    model = {"logLik": log_lik, "dataset": dataset, "params": PARAMS, "logPrior": log_prior, "integers": ["group"]}
    return model | {"stepsize": 1e-3, "minibatchSize": 25, "seed": 3}


def draws(dataset: Any = DATA, sampler: Callable = sgmcmc.sgld, **changes: Any) -> sgmcmc.Draws:
    return sampler(**(arguments(dataset) | {"nIters": N_ITERS, "verbose": False} | changes))


def assert_same(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def feed_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sgmcmc-feed")]


def no_feed_threads() -> bool:
    for _ in range(100):
        gc.collect()  # a thread that is still making a block holds on to its feed
        if not feed_threads():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def in_memory() -> sgmcmc.Draws:
    return draws()


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same data in each kind of place."""
    folder: Path = tmp_path_factory.mktemp("data")
    mapped = {}
    for name, array in DATA.items():
        np.save(folder / f"{name}.npy", array)
        mapped[name] = np.load(folder / f"{name}.npy", mmap_mode="r")
    file = h5py.File(folder / "data.h5", "w")
    group = zarr.open_group(folder / "data.zarr", mode="w")
    for name, array in DATA.items():
        file[name] = array
        group.create_array(name, data=array, chunks=(64, *array.shape[1:]))
    return {
        "memmap": mapped,
        "one entry mapped": DATA | {"x": mapped["x"]},
        "zarr": {name: group[name] for name in DATA},
        "hdf5": {name: file[name] for name in DATA},
        "object": Source(),
    }


@pytest.mark.parametrize("kind", ["memmap", "one entry mapped", "zarr", "hdf5", "object"])
def test_data_on_disk_give_the_chain_of_data_in_memory(kind: str, on_disk: dict, in_memory: sgmcmc.Draws) -> None:
    assert_same(draws(on_disk[kind]), in_memory)


def test_control_variates_and_chains_from_disk(on_disk: dict) -> None:
    changes = {"optStepsize": 1e-3, "nItersOpt": 100, "nChains": 3, "sampler": sgmcmc.sgldcv}
    assert_same(draws(on_disk["memmap"], **changes), draws(**changes))


@pytest.mark.parametrize(
    ("fetch", "longest"), [(Fetch.AHEAD, 2), (Fetch.WHEN_NEEDED, 7), (Fetch.IN_PROGRAM, 1024)], ids=lambda x: str(x)
)
def test_who_fetches_and_the_length_of_blocks_do_not_matter(
    fetch: Fetch, longest: int, in_memory: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whole calls; all of the ways with all of the lengths, and what they fetch, are in test_feed.py."""
    monkeypatch.setattr(feed, "choose", lambda data: fetch)
    monkeypatch.setattr(feed, "LONGEST_BLOCK", longest)
    assert_same(draws(), in_memory)
    assert_same(draws(burnIn=10, thin=4), {name: array[13::4] for name, array in in_memory.items()})


def test_stepping_across_blocks_and_resuming_within_one(
    in_memory: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(feed, "LONGEST_BLOCK", 8)
    sampler = sgmcmc.sgldSetup(**arguments())
    sess = sgmcmc.initSess(sampler)
    for done in (3, 8, 9, 30, 77):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=done - sess.iteration)
        assert_same(sgmcmc.getParams(sampler, sess), {name: array[done - 1] for name, array in in_memory.items()})
    draws(nIters=29, storage=tmp_path / "run.zarr")
    resumed = draws(storage=tmp_path / "run.zarr", resume=True)
    assert_same({name: array.values for name, array in resumed.items()}, in_memory)


def test_what_fails_in_the_source_is_raised_as_itself_and_the_session_goes_on(in_memory: sgmcmc.Draws) -> None:
    class UnpluggedError(OSError):
        pass

    def fails(indices: np.ndarray) -> None:
        if broken and len(indices) > 2:  # the first two are asked for at set-up
            raise UnpluggedError("the disk is gone")

    broken: list[int] = []
    source = Source(fails)
    sampler = sgmcmc.sgldSetup(**arguments(source))
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
    length = sampler._loop.feed.length
    broken.append(1)
    with pytest.raises(UnpluggedError, match="the disk is gone"):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=10 * length)
    assert sess.iteration == 5
    assert_same(sgmcmc.getParams(sampler, sess), {name: array[4] for name, array in in_memory.items()})
    broken.clear()
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=72)
    assert_same(sgmcmc.getParams(sampler, sess), {name: array[76] for name, array in in_memory.items()})
    broken.append(1)
    with pytest.raises(UnpluggedError):
        draws(source)
    assert source.taken > 0


def test_rows_are_checked_when_they_come() -> None:
    bad = {name: array.copy() for name, array in DATA.items()}
    bad["y"][17] = np.nan

    class Late(Source):
        def take(self, indices: np.ndarray) -> Mapping[str, Any]:
            return {name: array[indices] for name, array in bad.items()}

    with pytest.raises(ValueError, match=r"dataset\['y'\] must be finite in float32; got nan at index \(17,\)"):
        draws(Late())

    class Short(Source):
        def take(self, indices: np.ndarray) -> Mapping[str, Any]:
            taken = super().take(indices)
            return taken if len(indices) < 3 else {name: array for name, array in taken.items() if name != "y"}

    with pytest.raises(ValueError, match=r"take of dataset must return 'y' as in its first call; got \['group', 'x'\]"):
        draws(Short())

    class Masked(Source):
        def take(self, indices: np.ndarray) -> Mapping[str, Any]:
            return {
                name: np.ma.masked_array(array[indices], array[indices] == bad["x"][9, 0])
                for name, array in DATA.items()
            }

    with pytest.raises(ValueError, match=r"dataset\['x'\] must have no masked values; got \d+ masked"):
        draws(Masked())


def test_no_thread_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "choose", lambda data: Fetch.AHEAD)
    draws()
    assert no_feed_threads()
    sampler = sgmcmc.sgldSetup(**arguments())
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess)
    assert len(feed_threads()) == 1
    del sampler, sess
    assert no_feed_threads()
    with pytest.raises(sgmcmc.DivergenceError):
        draws(stepsize=10.0, nIters=5000)
    assert no_feed_threads()

    def interrupt(indices: np.ndarray) -> None:
        if threading.current_thread() in feed_threads():  # not yet at set-up
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match=r"interrupted: returning the first 0 of \d+ draws"):
        draws(Source(interrupt))
    assert no_feed_threads()


def test_sources_that_can_only_be_read_in_order_are_refused() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(DATA["y"])
    for got in (dataset, iter([DATA]), (row for row in [DATA])):
        with pytest.raises(ValueError, match=r"dataset of sgld must be a dict of arrays, or an object .* mmap_mode"):
            draws(got)
        with pytest.raises(ValueError, match=r"dataset\['y'\] of sgld must be an array; got .* read once and in order"):
            draws(DATA | {"y": got})


def test_collect_with_the_data_is_refused_where_they_are_not_in_memory(on_disk: dict) -> None:
    with pytest.raises(ValueError, match="collect of sgld must be a function of params alone if the data are not"):
        draws(on_disk["memmap"], collect=lambda params, dataset: {"fit": log_lik(params, dataset)})
    assert "square" in draws(on_disk["memmap"], collect=lambda params: {"square": params["beta"] ** 2})


def test_an_interrupt_while_the_position_is_written_leaves_the_session_whole(
    in_memory: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = sgmcmc.sgldSetup(**arguments())
    sess = sgmcmc.initSess(sampler)
    assign, calls = tf.raw_ops.AssignVariableOp, []

    def interrupted(**given: Any) -> None:
        calls.append(1)
        if len(calls) == 2:  # the second of two parameters
            raise KeyboardInterrupt
        assign(**given)

    with monkeypatch.context() as patch:
        patch.setattr(tf.raw_ops, "AssignVariableOp", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
    assert_same(sgmcmc.getParams(sampler, sess), {name: array[4] for name, array in in_memory.items()})
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
    assert_same(sgmcmc.getParams(sampler, sess), {name: array[9] for name, array in in_memory.items()})


def test_control_variates_as_an_argument_are_the_function_of_that_name() -> None:
    search = {"optStepsize": 1e-3, "nItersOpt": 50}
    named = draws(sampler=sgmcmc.sgldcv, **search)
    assert_same(draws(gradient=sgmcmc.controlVariates(**search)), named)
    with pytest.raises(ValueError, match="gradient of sgld must be None \\(the plain estimate\\), controlVariates"):
        draws(gradient="saga")
    with pytest.raises(ValueError, match="optStepsize of sgld must be a positive number; got -1"):
        draws(gradient=sgmcmc.controlVariates(-1))


def test_a_rule_of_ones_own_runs_like_the_others(tmp_path: Path) -> None:
    def rule(factor: float) -> sgmcmc.Dynamics:
        def step(theta: tf.Tensor, memory: dict, given: sgmcmc.Given) -> tuple[tf.Tensor, dict]:
            noise = (memory["noise"] + given.noise) / 2
            drift = given.eps / 2 * (given.gradient - factor * theta)
            return theta + drift + tf.sqrt(given.eps) * noise, {"noise": given.noise}

        return sgmcmc.Dynamics(step, init=lambda theta, given: {"noise": given.noise})

    own = {"sampler": sgmcmc.sample, "dynamics": rule(0.0)}
    whole = draws(nChains=2, **own)
    setup = sgmcmc.sampleSetup(**arguments(), nChains=2, dynamics=rule(0.0))
    sess = sgmcmc.initSess(setup)
    sgmcmc.sgmcmcStep(setup, sess, nSteps=N_ITERS)
    assert_same(sgmcmc.getParams(setup, sess), {name: array[:, -1] for name, array in whole.items()})
    draws(nChains=2, nIters=30, storage=tmp_path / "own.zarr", **own)
    with pytest.raises(ValueError, match="dynamics of sample must be what it was"):
        draws(nChains=2, storage=tmp_path / "own.zarr", resume=True, sampler=sgmcmc.sample, dynamics=rule(1.0))
    resumed = draws(nChains=2, storage=tmp_path / "own.zarr", resume=True, **own)
    assert_same({name: array.values for name, array in resumed.items()}, whole)
    with pytest.raises(ValueError, match="dynamics of sample must be a Dynamics, or a dict with one for each of"):
        draws(sampler=sgmcmc.sample, dynamics=rule)
    shrinking = sgmcmc.Dynamics(lambda theta, memory, given: (theta[:1], memory))
    with pytest.raises(ValueError, match="dynamics of sample must keep the shape and the type of"):
        draws(sampler=sgmcmc.sample, dynamics=shrinking)
