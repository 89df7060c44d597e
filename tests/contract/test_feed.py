"""What iterations need is made in blocks, by whom and wherever the data are: the chain is the same to the last bit.

And the thread that makes them ahead is never in the way: of errors, of Ctrl-C, of the end of a process, of a fork.
Simpler cases of both are in test_sources.py.

It uses the inside of the package: it chooses who fetches the observations and when, and the lengths of blocks.
"""

from __future__ import annotations

import _thread
import gc
import os
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorflow as tf
import zarr

import sgmcmc
from sgmcmc.run import Pace, Plan, Stretch, feed
from sgmcmc.run.advance import stretches
from sgmcmc.run.feed import Fetch
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import NOTHING, Keep

ROOT = Path(__file__).parents[2]
N, N_ITERS = 300, 30
RNG = np.random.default_rng(0)
DATA = {"x": RNG.normal(1.0, 1.0, (N, 2)), "k": RNG.integers(0, 3, N)}

Tree = dict[str, Any]


def log_lik(params: Tree, dataset: Tree) -> tf.Tensor:
    mean = params["theta"] + tf.gather(params["shift"], dataset["k"])[:, None]
    return -0.5 * tf.reduce_sum((dataset["x"] - mean) ** 2)


def log_prior(params: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["shift"] ** 2)


MODEL = {
    "logLik": log_lik, "params": {"theta": [0.0, 0.5], "shift": np.zeros(3)}, "logPrior": log_prior, "integers": ["k"],
    "minibatchSize": 10, "seed": 7,
}  # fmt: skip
CASES: dict[str, Tree] = {
    "sgld": {"stepsize": 1e-3},
    "sgnht": {"stepsize": {"theta": 1e-4, "shift": 2e-4}, "subsampling": 1.0 + np.arange(N) % 5},
    "sghmc": {"stepsize": 1e-4, "alpha": 0.1, "L": 3, "nChains": 3, "starts": 0.1, "subsampling": "reshuffled"},
}


class Source:
    """A dataset of a user's own; `before` is called before each fetch for the chain, in its thread."""

    def __init__(self, before: Callable[[np.ndarray], None] = lambda indices: None) -> None:
        self.before = before

    def __len__(self) -> int:
        return N

    def take(self, indices: np.ndarray) -> Tree:
        if threading.current_thread().name.startswith("sgmcmc-feed"):
            self.before(indices)
        return {name: array[indices] for name, array in DATA.items()}


def mapped(folder: Path, data: Tree) -> Tree:
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array)
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in data}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    folder = tmp_path_factory.mktemp("data")
    group, file = zarr.open_group(folder / "data.zarr", mode="w"), h5py.File(folder / "data.h5", "w")
    for name, array in DATA.items():
        group.create_array(name, data=array, chunks=(64, *array.shape[1:]))
        file[name] = array
    return {
        "memmap": mapped(folder, DATA),
        "zarr": {name: group[name] for name in DATA},
        "hdf5": {name: file[name] for name in DATA},
        "object": Source(),
    }


def set_up(name: str, dataset: Any = DATA, **changes: Any) -> Any:
    return getattr(sgmcmc, name + "Setup")(dataset=dataset, **MODEL | CASES[name] | changes)


def run(name: str, dataset: Any = DATA, **changes: Any) -> sgmcmc.Draws:
    given = MODEL | CASES[name] | {"nIters": N_ITERS, "verbose": False} | changes
    return getattr(sgmcmc, name)(dataset=dataset, **given)


@cache
def whole(seed: int = 7) -> np.ndarray:
    """The draws of `theta` by sgld, however they are fed."""
    return run("sgld", nIters=400, seed=seed)["theta"]


# --- the bits -----------------------------------------------------------------------------------------------------

Rows = list[np.ndarray]


class Chain:
    """A case with everything recorded, in blocks of one length; its programs are traced once, whoever feeds it."""

    def __init__(self, name: str, block_length: int | None) -> None:
        sampler = set_up(name)._sampler
        self.prepared = sampler.prepare(verbose=False, monitored=True)
        specs = {key: tf.TensorSpec(theta.shape, tf.float32) for key, theta in sampler.start.items()}
        recorder = Keep(specs, gradients=True).recorder(self.prepared.kernel, self.prepared.chains)
        self.loop = Loop(self.prepared, recorder, Fetch.IN_PROGRAM, block_length)
        self.length, self.draw = self.loop.feed.length, None
        assert block_length is None or self.length == block_length

    def run(self, fetch: Fetch, data: Any = None) -> tuple[Rows, Rows]:
        """For each iteration: the draws, statistics and gradients; and what it was inputs with."""
        given = self.prepared if data is None else replace(self.prepared, data=data)
        self.loop.feed = feed.Feed(given, fetch, self.length)
        if fetch is not Fetch.IN_PROGRAM:
            self.loop.feed._draw = self.draw = self.draw or self.loop.feed._draw
        rows, supplies, leaves = [], [], self.loop.flatten(self.prepared.state)
        for stretch, outcome in stretches(self.loop, leaves, Plan(N_ITERS), Pace(self.length)):
            rows.append([row.numpy()[: stretch.n_rows] for row in outcome.rows])
        for number in range(-(-N_ITERS // self.length)):
            supplies.append([leaf.numpy().copy() for leaf in self.loop.feed.block(number)])
        self.loop.feed.close()
        joined = [[np.concatenate(parts)[:N_ITERS] for parts in zip(*each, strict=True)] for each in (rows, supplies)]
        return joined[0], joined[1]


def assert_equal(ours: tuple[Rows, Rows], theirs: tuple[Rows, Rows], what: str) -> None:
    for some, others in zip(ours, theirs, strict=True):
        assert len(some) == len(others) > 0
        for one, other in zip(some, others, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=what)


@cache
def usual(name: str) -> tuple[Rows, Rows]:
    """In blocks of the usual length, whoever fetches them."""
    chain = Chain(name, None)
    made = chain.run(Fetch.IN_PROGRAM)
    for fetch in (Fetch.WHEN_NEEDED, Fetch.AHEAD):
        assert_equal(chain.run(fetch), made, f"{fetch} in blocks of {chain.length}")
    return made


@pytest.mark.parametrize("name", ["sgnht", "sghmc"])
def test_neither_who_fetches_nor_where_the_data_are_nor_the_length_of_blocks_changes_a_bit(
    name: str, sources: Tree
) -> None:
    """In blocks of 7 there are more than there is room for at a time, and the last is cut short."""
    rows, _ = made = usual(name)
    assert all(len(np.unique(row[:, 0].ravel())) > 0.9 * N_ITERS for row in rows)  # the chain moves
    chain = Chain(name, 7)
    for fetch in Fetch:
        assert_equal(chain.run(fetch), made, str(fetch))
    for kind, dataset in sources.items():
        data = set_up("sgld", dataset)._sampler.data
        for fetch in (Fetch.AHEAD, Fetch.WHEN_NEEDED):
            assert_equal(chain.run(fetch, data), made, f"{kind} {fetch}")


@pytest.mark.parametrize("name", ["sgld", "sghmc"])
def test_blocks_of_one_iteration(name: str, sources: Tree) -> None:
    """Which no sampler has: nothing is cut from them, so that XLA fuses, and rounds, the step in another way.

    What is inputs is the same to the last bit, and so is the chain whoever fetches.
    """
    rows, supplies = usual(name)
    chain = Chain(name, 1)
    alone = chain.run(Fetch.IN_PROGRAM)
    assert_equal((alone[1], alone[1]), (supplies, supplies), "supplies")
    for ours, theirs in zip(alone[0], rows, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * np.abs(theirs).max())
    data = set_up("sgld", sources["memmap"])._sampler.data
    for fetch, where in ((Fetch.WHEN_NEEDED, None), (Fetch.AHEAD, None), (Fetch.AHEAD, data)):
        assert_equal(chain.run(fetch, where), alone, str(fetch))


def test_iterations_that_are_far_apart_have_random_numbers_of_their_own() -> None:
    """Of scir, which draws inside the loop; with all data in each minibatch only the number of the iteration differs.

    From the same position, up to the last block before the numbers would repeat.
    """

    def counts(params: Tree, dataset: Tree) -> Tree:
        return {"theta": tf.reduce_sum(dataset["x"], axis=0)}

    data, given = {"x": np.ones((20, 2))}, {"minibatchSize": 20, "normalise": False, "seed": 1}
    sampler = sgmcmc.scirSetup(counts, data, {"theta": [20.0, 20.0]}, 0.5, alpha=1.0, **given)
    prepared = sampler._sampler.prepare(verbose=False)
    loop = Loop(prepared, NOTHING, Fetch.IN_PROGRAM, block_length=4)
    start = [leaf.numpy() for leaf in loop.flatten(prepared.state)]

    def after(k: int) -> bytes:
        outcome = loop.advance([tf.constant(leaf) for leaf in start], Stretch(k, k + 1, k + 2, 0, 1))
        return loop.params_of_chains(outcome.leaves)["theta"].tobytes()

    numbers = [0, 1, 2**16, 2**24, 2**31, 2**31 + 1, 2**32 - 4]
    assert len({after(k) for k in numbers}) == len(numbers)
    assert after(2**31) == after(2**31)


@pytest.mark.parametrize("name", ["sgld", "sghmc"])
def test_steps_thinning_and_resuming_across_the_ends_of_blocks(
    name: str, sources: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = run(name)
    several = "nChains" in CASES[name]
    monkeypatch.setattr(feed, "LONGEST_BLOCK", 5)
    sampler = set_up(name, sources["memmap"])
    for size in (1, 7):
        sess = sgmcmc.initSess(sampler)
        assert sampler._loop.feed.length == 5
        for done in range(size, N_ITERS + 1, size):
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=size)
            for key, theta in sgmcmc.getParams(sampler, sess).items():
                np.testing.assert_array_equal(theta, made[key][:, done - 1] if several else made[key][done - 1])

    kept = slice(9, None, 4)  # after 10, 14, ... iterations
    store = tmp_path / "run.zarr"
    for n_iterations, length in ((12, 5), (N_ITERS, 1024)):  # the first ends within a block
        monkeypatch.setattr(feed, "LONGEST_BLOCK", length)
        resumed = run(name, sources["zarr"], nIters=n_iterations, burnIn=6, thin=4, storage=store, resume=True)
    for key, array in made.items():
        np.testing.assert_array_equal(resumed[key], array[:, kept] if several else array[kept])


def test_a_store_knows_data_on_disk_from_other_data(sources: Tree, tmp_path: Path) -> None:
    """But not where they are: a run goes on from wherever the same data are."""
    store = tmp_path / "run.zarr"
    run("sgld", sources["memmap"], nIters=5, storage=store)
    run("sgld", sources["object"], nIters=6, storage=store, resume=True)
    other = mapped(tmp_path, DATA | {"k": DATA["k"][::-1]})
    with pytest.raises(ValueError, match="dataset of sgld must be what it was when"):
        run("sgld", other, nIters=7, storage=store, resume=True)


# --- the thread ---------------------------------------------------------------------------------------------------


def feeding() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sgmcmc-feed")]


def wait_for_none() -> None:
    """Threads end on their own account, a moment after they are told."""
    deadline = time.monotonic() + 10
    while feeding():
        gc.collect()
        assert time.monotonic() < deadline, feeding()
        time.sleep(0.01)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of 7 iterations, fetched ahead; and no thread before or after."""
    wait_for_none()
    monkeypatch.setattr(feed, "LONGEST_BLOCK", 7)
    monkeypatch.setattr(feed, "choose", lambda data: Fetch.AHEAD)
    yield
    wait_for_none()


class UnpluggedError(OSError):
    """Of the user's own."""


class Unreliable(Source):
    """Fails in the given fetch of a chain, and in all after it until it is mended."""

    def __init__(self, fetch: int) -> None:
        super().__init__(self._count)
        self.fetch, self.fetched = fetch, 0

    def _count(self, indices: np.ndarray) -> None:
        self.fetched += 1
        if self.fetched >= self.fetch:
            raise UnpluggedError("the disk is gone")


@pytest.mark.usefixtures("ahead")
def test_what_the_source_raises_ends_a_run_as_itself_and_a_store_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "run.zarr"
    for place in ({}, {"storage": store}):
        with pytest.raises(UnpluggedError, match=r"^the disk is gone$"):
            run("sgld", Unreliable(3), **place)
        assert not feeding()
    out = run("sgld", Source(), storage=store, resume=True)
    np.testing.assert_array_equal(out["theta"], whole()[:N_ITERS])


@pytest.mark.usefixtures("ahead")
def test_a_session_stands_where_it_was_after_an_error_of_the_source_and_goes_on() -> None:
    source = Unreliable(3)
    sampler = set_up("sgld", source)
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
    for _ in range(2):
        with pytest.raises(UnpluggedError, match=r"^the disk is gone$"):
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=20)  # of which the first two blocks were fetched
        assert sess.iteration == 5
        np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["theta"], whole()[4])
    source.fetch = 10**9
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=25)
    np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["theta"], whole()[29])


@pytest.mark.usefixtures("ahead")
def test_a_number_on_disk_that_is_not_finite_is_named_when_its_row_is_fetched(tmp_path: Path) -> None:
    fetched: list[np.ndarray] = []
    run("sgld", Source(fetched.append))
    late = next(int(i) for i in fetched[3] if not any(i in before for before in fetched[:3]))
    bad = DATA["x"].copy()
    bad[late, 1] = np.nan
    data = mapped(tmp_path, DATA | {"x": bad})
    message = re.escape(f"dataset['x'] must be finite in float32; got nan at index ({late}, 1).")
    with pytest.raises(ValueError, match=message):
        run("sgld", data)
    assert not feeding()
    np.testing.assert_array_equal(run("sgld", data, nIters=21)["theta"], whole()[:21])  # three blocks
    sampler = set_up("sgld", data)
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
    with pytest.raises(ValueError, match=message):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=25)
    np.lib.format.open_memmap(tmp_path / "x.npy", mode="r+")[late] = DATA["x"][late]
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=25)
    np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["theta"], whole()[29])


def interrupting(fetch: int) -> Source:
    """Ctrl-C while the given block is fetched."""
    fetched: list[int] = []

    def before(indices: np.ndarray) -> None:
        fetched.append(len(indices))
        if len(fetched) == fetch:
            _thread.interrupt_main()

    return Source(before)


@pytest.mark.usefixtures("ahead")
def test_an_interrupted_run_returns_its_draws_and_leaves_no_thread() -> None:
    with pytest.warns(UserWarning, match=r"interrupted: returning the first \d+ of 1000000 draws"):
        out = run("sgld", interrupting(40), nIters=10**6)
    assert not feeding()
    made = min(len(out["theta"]), 400)
    assert made >= 30 * 7
    np.testing.assert_array_equal(out["theta"][:made], whole()[:made])


@pytest.mark.usefixtures("ahead")
def test_an_interrupted_session_goes_on() -> None:
    sampler = set_up("sgld", interrupting(40))
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=3)
    with pytest.raises(KeyboardInterrupt):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=10**6)
    assert sess.iteration == 3
    for done in (4, N_ITERS):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=done - sess.iteration)
        np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["theta"], whole()[done - 1])


@pytest.mark.usefixtures("ahead")
def test_divergence_leaves_no_thread() -> None:
    bad = {"dataset": DATA, "nIters": 5000, "verbose": False, **MODEL}
    with pytest.raises(sgmcmc.DivergenceError):
        sgmcmc.sgld(stepsize=1.0, **bad)
    assert not feeding()
    with pytest.raises(sgmcmc.ModeSearchError):
        sgmcmc.sgldcv(stepsize=1e-3, optStepsize=1.0, **bad)
    assert not feeding()
    sampler = sgmcmc.sgldSetup(dataset=DATA, stepsize=1.0, **MODEL)
    sess = sgmcmc.initSess(sampler)
    with pytest.raises(sgmcmc.DivergenceError):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=5000)
    assert sess.iteration == 0 and len(feeding()) == 1  # until the session is gone, as the fixture sees


@pytest.mark.usefixtures("ahead")
def test_a_sampler_has_one_thread_which_goes_with_it(tmp_path: Path) -> None:
    sampler = set_up("sgld")
    sess = sgmcmc.initSess(sampler)
    assert not feeding()  # nothing is fetched before the first step
    sgmcmc.sgmcmcStep(sampler, sess)
    sgmcmc.saveSess(sampler, sess, tmp_path / "chain.sess")
    for begin in (sgmcmc.initSess, lambda sampler: sgmcmc.restoreSess(sampler, tmp_path / "chain.sess")) * 2:
        sess = begin(sampler)
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=20)
        assert len(feeding()) == 1
    gone = weakref.ref(sampler)
    del sampler, sess, begin
    wait_for_none()
    assert gone() is None


# --- processes ----------------------------------------------------------------------------------------------------

OTHER_PROCESS = """
import os, signal, sys, time
import numpy as np, tensorflow as tf
import sgmcmc
from sgmcmc.run import feed
from tests.contract.test_feed import Source, feeding, set_up
feed.LONGEST_BLOCK, feed.choose = 7, lambda data: feed.Fetch.AHEAD
sampler = set_up("sgld", Source())
sess = sgmcmc.initSess(sampler)
sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)
assert len(feeding()) == 1
"""


def in_a_process(code: str) -> subprocess.CompletedProcess:
    command, environment = [sys.executable, "-c", OTHER_PROCESS + code], os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize("end", ["", "sampler.cycle = sampler; raise KeyError('x')"])
def test_a_process_ends_at_once_with_a_session_left_open(end: str) -> None:
    done = in_a_process(f"print(time.time(), flush=True)\n{end}")
    took = time.time() - float(done.stdout)
    assert done.returncode == ("KeyError" in end) == ("KeyError" in done.stderr), done.stderr[-2000:]
    assert took < 15 and "sgmcmc-feed" not in done.stderr  # TensorFlow takes a moment to end


FORK = """
child = os.fork()
if child == 0:
    said = []
    for use in (lambda: sgmcmc.sgmcmcStep(sampler, sess, nSteps=25), lambda: set_up("sgld", Source())):
        try:
            use()
        except RuntimeError as error:
            said.append(str(error))
    print(len(said), len(set(said)), said[0], flush=True)
    sys.exit(0)
deadline, ended = time.monotonic() + 20, 0
while not ended and time.monotonic() < deadline:
    time.sleep(0.05)
    ended, status = os.waitpid(child, os.WNOHANG)
if not ended:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print("ended" if ended and status == 0 else "failed" if ended else "hung", flush=True)
sgmcmc.sgmcmcStep(sampler, sess, nSteps=25)
print("parent", sgmcmc.getParams(sampler, sess)["theta"].tobytes().hex(), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_of_a_process_that_samples_is_refused_with_the_remedy_and_disturbs_nothing() -> None:
    """TensorFlow's own threads are not in the child, which would hang as soon as TensorFlow wants one of them."""
    expected = whole()[N_ITERS - 1].tobytes().hex()
    done = in_a_process(FORK)
    assert done.returncode == 0, done.stderr[-2000:]
    said, ended, parent = done.stdout.splitlines()
    assert said.startswith("2 1 sgmcmc cannot be used in a process that was forked after sgmcmc had been used")
    assert said.endswith("start processes with multiprocessing.get_context('spawn').")
    assert (ended, parent) == ("ended", f"parent {expected}")


FORK_FIRST = """
import multiprocessing, sys
sys.path.insert(0, ".")
import sgmcmc

def sample(seed):
    from tests.contract.test_feed import run
    return run("sgld", seed=seed)["theta"][-1].tobytes().hex()

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(*pool.map(sample, [7, 8]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_processes_forked_before_any_use_sample() -> None:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", FORK_FIRST], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.stdout.split() == [whole(seed)[N_ITERS - 1].tobytes().hex() for seed in (7, 8)], done.stderr


def test_a_session_is_stepped_by_one_thread_at_a_time() -> None:
    """The other is refused while it is being stepped, and welcome afterwards."""
    reached, go_on, told = threading.Event(), threading.Event(), []

    def wait(indices: np.ndarray) -> None:
        reached.set()
        go_on.wait(60)

    sampler = set_up("sgld", Source(wait))
    sess = sgmcmc.initSess(sampler)
    other = threading.Thread(target=lambda: told.append(sgmcmc.sgmcmcStep(sampler, sess, nSteps=5)), name="other")
    other.start()
    assert reached.wait(60)
    with pytest.raises(RuntimeError, match="sessions of one sampler must be used by one thread at a time; 'other' is"):
        sgmcmc.sgmcmcStep(sampler, sess)
    with pytest.raises(RuntimeError, match="one thread at a time"):
        sgmcmc.getParams(sampler, sess)
    with pytest.raises(RuntimeError, match="one thread at a time"):
        sgmcmc.sgmcmcStep(sampler, sgmcmc.initSess(sampler))
    sampler.session = sess
    go_on.set()
    other.join(60)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=25)
    assert told == [None] and sess.iteration == N_ITERS
    np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["theta"], whole()[N_ITERS - 1])
