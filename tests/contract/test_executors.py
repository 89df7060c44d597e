"""Chains in the workers of an executor: the draws are those of the same chains here, and no draw is lost.

It uses the inside of the package: it tests how chains are grouped, and what is sent to workers.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import tensorflow as tf
import xarray as xr

import sgmcmc
from sgmcmc import Draws, runningMean, sgld
from sgmcmc.arguments.destination import grouped, n_workers
from sgmcmc.core.progress import Progress
from sgmcmc.parallel import serialization as parcels
from sgmcmc.parallel.executors import Workers
from sgmcmc.parallel.serialization import Parcel, pickled
from sgmcmc.run.jobs import Report
from tests.contract.conftest import SPAWN
from tests.contract.test_some_chains import CASES, DATASET, PARAMS, PARTS, ROUNDING, RUN, Case, compare, logLik


class InTurn:
    """Makes a job when it is asked for its result, as a queue with one worker would."""

    def submit(self, function, *arguments):
        return Later(function, arguments)


class Later(Future):
    def __init__(self, function, arguments):
        super().__init__()
        self._job = pickle.dumps((function, arguments))

    def done(self):
        if not super().done() and self.set_running_or_notify_cancel():
            function, arguments = pickle.loads(self._job)
            try:
                self.set_result(pickle.loads(pickle.dumps(function(*arguments))))
            except Exception as error:
                self.set_exception(error)
        return super().done()


@pytest.mark.parametrize("case", ["auto", "preferential", "reduced, gradients"])
def test_workers_make_the_chains_of_one_process(case, pool):
    """Draws, statistics, gradients, reduced sums and settings: the same bits as the same chains by themselves."""
    out, whole = CASES[case].run(5, executor=pool, chainsPerJob=3), CASES[case].run(5)
    compare(out, whole, ROUNDING)
    expected = [settings.pop("expected", {}).keys() for settings in (dict(out.settings), dict(whole.settings))]
    assert expected[0] == expected[1]
    assert out.settings.keys() == whole.settings.keys() and out.settings["starts"] == whole.settings["starts"]
    if case in ("auto", "reduced, gradients"):
        compare(out, Draws.concat([CASES[case].run(chains) for chains in PARTS]))


def test_topics_and_mixtures_take_executors(pool):
    docs = np.random.default_rng(0).poisson(1.0, size=(40, 8))
    begin = np.random.default_rng(0).integers(0, 5, size=(4, 40))
    run = {"minibatchSize": 10, "nIters": 20, "seed": 1, "verbose": False}

    def draws(chains, **more):
        topics = sgmcmc.lda(docs, 2, nChains=chains, **run, **more).draws["topics"]
        starts = begin if chains == 4 else begin[chains.start :]
        mixture = sgmcmc.dpMixture(docs, nChains=chains, starts=starts, **run, **more).weights
        return topics, mixture

    for all_chains, last in zip(draws(4, executor=pool, chainsPerJob=2), draws(range(2, 4)), strict=True):
        np.testing.assert_array_equal(all_chains[2:], last)


def kinds_of_arrays(folder):
    rng = np.random.default_rng(0)
    y, x = rng.normal(3.0, size=400), rng.normal(size=(400, 3))
    np.save(folder / "x.npy", np.asfortranarray(x))
    with h5py.File(folder / "y.h5", "w") as file:
        file["group/y"] = y
    return {"x": np.load(folder / "x.npy", mmap_mode="r"), "z": h5py.File(folder / "y.h5")["group/y"]}, {"x": x, "z": y}


def test_data_on_disk_stay_there_and_functions_of_any_kind_travel(pool, tmp_path):
    on_disk, in_memory = kinds_of_arrays(tmp_path)
    scale, number = tf.Variable(0.5), threading.local

    @tf.function
    def squares(x):
        return scale * tf.reduce_sum(x**2)

    @functools.cache
    def sign():
        return -1.0

    def log_lik(params, dataset):
        assert number
        return sign() * squares(dataset["z"] - params["theta"] - tf.linalg.matvec(dataset["x"], params["beta"]))

    def run(dataset, chains, **more):
        return sgld(log_lik, dataset, PARAMS, 1e-4, **RUN, nChains=chains, **more)

    out = run(on_disk, 2, executor=pool)
    compare(out, run(in_memory, range(0, 2)))


def test_views_of_memory_maps_travel_as_their_place(tmp_path):
    whole = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float64, (50, 6))
    whole[...] = np.random.default_rng(0).normal(size=(50, 6))
    whole.flush()
    for view in (whole, whole[7:], whole[::3, 1:], whole[::-1], whole[:, ::-2].T, whole[4]):
        contents = pickled(view, lambda buffer: pytest.fail("its contents were pickled"))
        np.testing.assert_array_equal(pickle.loads(contents), view)
        assert len(contents) < 1000
    changed = np.load(tmp_path / "a.npy", mmap_mode="c")  # in memory, not in the file
    changed[0] = 7.0
    np.testing.assert_array_equal(pickle.loads(pickled(changed, lambda buffer: True)), changed)
    copied = whole[[1, 2]]  # in memory, though of the same type
    np.testing.assert_array_equal(pickle.loads(pickled(copied, lambda buffer: True)), copied)


def test_large_data_travel_as_one_file_that_workers_map(tmp_path, monkeypatch):
    monkeypatch.setattr(parcels, "SMALL", 100)
    data = sgmcmc.sgldSetup(logLik, DATASET, PARAMS, 1e-4)._sampler.data
    parcel = Parcel.of([data, data, "x"], tmp_path)
    (file,) = parcel.files
    assert os.path.getsize(file) == data.size * data.layout.row_bytes and len(parcel.contents) < 2000
    one, other, _ = pickle.loads(pickle.dumps(parcel)).opened()
    assert one is other and one.checksum() == data.checksum() and one.layout.columns == data.layout.columns
    np.testing.assert_array_equal(one.rows, data.rows)
    again = pickle.loads(pickle.dumps(data, protocol=4))  # without files
    np.testing.assert_array_equal(again.rows, data.rows)
    os.unlink(file)
    with pytest.raises(FileNotFoundError, match="does not see: set TMPDIR to a folder that all machines share"):
        parcel.opened()
    with pytest.raises(RuntimeError, match=r"must have the versions of .*; got numpy .*, not 1.0"):
        parcel._replace(made_with=parcel.made_with | {"numpy": "1.0"}).opened()


def settings_of_worker():
    from sgmcmc.parallel.executors import settle

    settle()
    return tf.config.threading.get_intra_op_parallelism_threads(), signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_worker_has_one_thread_and_leaves_ctrl_c_to_its_parent(pool):
    assert pool.submit(settings_of_worker).result() == (1, True)


def interrupt_after(iterations, monkeypatch):
    """Ctrl-C, once, when a job has made so many iterations; the jobs wait for it there."""
    waiting, pressed, original = [], [], Report.reached

    def held(self, done, log_density):
        original(self, done, log_density)
        if done >= iterations:
            waiting.append(done)
            while not self.is_stopped():
                time.sleep(0.01)

    def reached(self, done, log_density=None):
        if waiting and not pressed:
            pressed.append(done)
            raise KeyboardInterrupt

    monkeypatch.setattr(Report, "reached", held)
    monkeypatch.setattr(Progress, "reached", reached)


LONG = {"nIters": 20_000, "thin": 10}


def test_ctrl_c_ends_what_runs_and_keeps_what_is_done(threads, monkeypatch):
    interrupt_after(100, monkeypatch)
    with pytest.warns(UserWarning, match=r"returning the first \d+ of 2000 draws of chains \d, \d, .*fewer"):
        out = Case().run(8, executor=threads, chainsPerJob=2, **LONG)
    assert 0 < len(out.iterations) < 2000 and 2 <= out.nChains <= 4  # the others had not begun
    chains = range(out.chains[0], out.chains[-1] + 1)
    compare(out, Case().run(chains, thin=10, nIters=10 * len(out.iterations)))


def test_ctrl_c_before_the_first_draw_is_one(threads, monkeypatch):
    interrupt_after(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        Case().run(4, executor=threads, nIters=10**7, thin=10**7)


@pytest.mark.parametrize("executor", [None, "threads"])
def test_an_interrupted_store_goes_on_with_or_without_workers(executor, threads, monkeypatch, tmp_path):
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        interrupt_after(100, patch)
        with pytest.warns(UserWarning, match="interrupted"):
            begun = Case().run(5, executor=threads, chainsPerJob=2, storage=path, **LONG)
    exact = Case().run(5, executor=InTurn(), chainsPerJob=2, **LONG)
    n = len(begun.iterations)
    with pytest.warns(UserWarning, match="not finished"):
        loaded = Draws.load(path)
    assert begun.chains == loaded.chains and n <= len(loaded.iterations) < 2000
    np.testing.assert_array_equal(begun["beta"].values, exact["beta"][begun.chains, :n])
    out = Case().run(5, executor=threads if executor else None, storage=path, resume=True, **LONG)
    compare(out, exact)
    compare(Draws.load(path), exact)
    tree = xr.open_datatree(path, engine="zarr")
    for group, members in exact.groups.items():
        for name, array in members.items():
            np.testing.assert_array_equal(tree[group][name].values, array)
    assert out.summary().equals(exact.summary())


def test_a_store_of_which_a_part_or_the_links_are_gone(tmp_path):
    given = {"executor": InTurn(), "chainsPerJob": 2}
    exact = Case().run(4, nIters=60, **given)
    path, followed = tmp_path / "run.zarr", tmp_path / "followed.zarr"
    Case().run(4, storage=path, **given)
    shutil.copytree(path, followed)  # with the chunks of the parts in place of the links
    shutil.copytree(path, tmp_path / "linked.zarr", symlinks=True)
    shutil.rmtree(path / "parts" / "2-3.zarr")
    with pytest.raises(ValueError, match=r"2-3.zarr' is missing"):
        Draws.load(path)
    for store, shown in ((path, 60), (followed, 30), (tmp_path / "linked.zarr", 60)):
        compare(Case().run(4, nIters=60, storage=store, resume=True, **given), exact)
        compare(Draws.load(store), exact)
        posterior = xr.open_datatree(store, engine="zarr")["posterior"]
        np.testing.assert_array_equal(posterior["beta"].values, exact["beta"][:, :shown])


def test_parts_that_have_not_begun_are_not_shown(tmp_path):
    path = tmp_path / "run.zarr"

    class Failing(InTurn):
        def submit(self, function, *arguments):
            return super().submit(fail if arguments[1].start else function, *arguments)

    with pytest.raises(ZeroDivisionError) as error:
        Case().run(5, executor=Failing(), chainsPerJob=2, storage=path)
    assert [draws.chains for draws in error.value.partial] == [[0, 1]]
    with pytest.warns(UserWarning, match=r"not finished: returning the first 30 draws of chains 0, 1; the others have"):
        begun = Draws.load(path)
    assert begun.chains == [0, 1] and begun["theta"].shape == (2, 30)
    assert xr.open_datatree(path, engine="zarr")["posterior"]["theta"].shape == (5, 0)
    out = Case().run(5, storage=path, resume=True)
    compare(out, Case().run(5, executor=InTurn(), chainsPerJob=2))


class Fatal:
    """Observations of which some cannot be had in one of the workers."""

    def __init__(self, folder, how):
        self.folder, self.how, self.parent = folder, how, os.getpid()

    def __len__(self):
        return 400

    def take(self, indices):
        if os.getpid() != self.parent and (self.folder / "armed").exists():
            (self.folder / "armed").unlink()
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the disk is gone")
        return {name: array[indices] for name, array in DATASET.items()}


@pytest.mark.parametrize(("how", "stored"), [("raise", False), ("kill", True)])
def test_a_worker_that_fails_takes_nothing_of_the_others(how, stored, tmp_path):
    def run(chains, **more):
        return sgld(logLik, data, PARAMS, 1e-4, **RUN | {"nIters": 60}, nChains=chains, **more)

    data = Fatal(tmp_path, how)
    storage = {"storage": tmp_path / "run.zarr"} if stored else {}
    (tmp_path / "armed").touch()
    expected, message = (BrokenProcessPool, "terminated abruptly") if how == "kill" else (OSError, "the disk is gone")
    with ProcessPoolExecutor(1, SPAWN) as pool, pytest.raises(expected, match=message) as error:
        run(4, executor=pool, chainsPerJob=2, **storage)
    (note,) = error.value.__notes__
    assert note.startswith("This comes from the job of chains 0 to 1 of sgld.") and ("resume=True" in note) == stored
    for draws in error.value.partial:  # the second may have begun before it was told to end
        compare(draws, run(range(2, 4))[: len(draws.iterations)])
    if stored:
        exact = Draws.concat([run(chains) for chains in (range(0, 2), range(2, 4))])
        compare(run(4, resume=True, **storage), exact)


def test_the_first_jobs_are_kept_if_a_later_one_fails():
    class Failing(InTurn):
        jobs = 0

        def submit(self, function, *arguments):
            self.jobs += 1
            return super().submit(function if self.jobs < 3 else fail, *arguments)

    with pytest.raises(ZeroDivisionError) as error:
        Case().run(6, executor=Failing(), chainsPerJob=2)
    assert "chains 4 to 5 of sgld. `partial` of this error has the draws of the 2 of 3 jobs" in error.value.__notes__[0]
    for draws, chains in zip(error.value.partial, (range(0, 2), range(2, 4)), strict=True):
        compare(draws, Case().run(chains))
        assert draws.chains == list(chains)


def test_jobs_that_others_cancel_are_said():
    class Cancelled(InTurn):
        def submit(self, function, *arguments):
            future = super().submit(function, *arguments)
            if arguments[1].start:
                future.cancel()
            return future

    with pytest.raises(CancelledError) as error:
        Case().run(4, executor=Cancelled(), chainsPerJob=2)
    assert "chains 2 to 3" in error.value.__notes__[0] and len(error.value.partial) == 1


def fail(*arguments):
    return 1 / 0


def test_a_divergence_has_the_draws_of_its_chains_and_of_the_others():
    starts = {"theta": np.array([0.0, 1.0, 2.0, 1e30]), "beta": np.zeros((4, 3))}
    with pytest.raises(sgmcmc.DivergenceError, match="of chain 3 was NaN") as error:
        Case(given={"starts": starts}).run(4, executor=InTurn(), chainsPerJob=2)
    first, second = error.value.partial[0], error.value
    compare(first, Case(given={"starts": {name: x[:2] for name, x in starts.items()}}).run(range(0, 2)))
    assert len(error.value.partial) == 1 and second.chain == 3 and second.draws.chains == [2, 3]


def test_progress_is_one_bar_of_all_jobs(threads, capfd, monkeypatch):
    monkeypatch.setattr("sgmcmc.core.progress.LINE_SECONDS", 0.0)
    Case().run(4, executor=threads, chainsPerJob=2, verbose=True, nIters=2000)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("sgld:")]
    assert "100%, 2000/2000 iterations" in lines[-1] and "log posterior -" in lines[-1]


def test_workers_and_jobs():
    dask = SimpleNamespace(_client=SimpleNamespace(nthreads=lambda: {"a": 2, "b": 2}))

    assert [list(map(len, grouped(range(2, 2 + n), k))) for n, k in ((5, 2), (8, 3), (10, 4), (4, 9))] == [
        [2, 2, 1],
        [3, 3, 2],
        [4, 4, 2],
        [4],
    ]
    assert grouped(range(2, 5), 2) == [range(2, 4), range(4, 5)]
    with ThreadPoolExecutor(3) as threads:
        assert (n_workers(threads), n_workers(dask), n_workers(InTurn())) == (3, 4, os.cpu_count())


lock = threading.Lock()


def locked(params, dataset):
    with lock:
        return logLik(params, dataset)


REFUSED = [
    ({"chainsPerJob": 2}, "chainsPerJob of sgld must come with executor; got 2 without one"),
    ({"executor": 4}, "executor of sgld must be None or an object with a method submit .*; got 4"),
    ({"executor": ThreadPoolExecutor}, "executor of sgld must be None or an object with a method submit"),
    ({"storage": "s3://bucket/run.zarr"}, "storage of sgld must be .*a URL: a store is a folder in a file system"),
    ({"executor": InTurn(), "nChains": None}, "executor of sgld must come with nChains"),
    ({"executor": InTurn(), "chainsPerJob": 0}, "chainsPerJob of sgld must be an integer of at least 1; got 0"),
    (
        {"executor": ProcessPoolExecutor(1, multiprocessing.get_context("fork"))},
        r"must start fresh processes, .*get_context\('spawn'\)\); got one that forks",
    ),
    (
        {"executor": InTurn(), "collect": lambda params: {"t": params["theta"] * (lock is not None)}},
        "executor of sgld must be given functions and data that can be pickled; got lock of <lambda> .*cannot pickle",
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_bad_arguments_are_refused_before_anything_runs(given, message, monkeypatch):
    monkeypatch.setattr("sgmcmc.run.sampler.Sampler.find", lambda *_: pytest.fail("it began"))
    with pytest.raises(ValueError, match=message):
        sgld(logLik, DATASET, PARAMS, 1e-4, **RUN | {"nChains": 4} | given)


def test_a_store_without_parts_is_gone_on_with_here(tmp_path):
    path = tmp_path / "run.zarr"
    Case().run(4, storage=path)
    with pytest.raises(ValueError, match=r"executor of sgld must be None to continue .*begun without one"):
        Case().run(4, storage=path, resume=True, nIters=60, executor=InTurn())


def test_reduced_sums_of_interrupted_jobs_are_of_what_they_made(threads, monkeypatch):
    interrupt_after(100, monkeypatch)
    with pytest.warns(UserWarning, match="interrupted"):
        out = Case(given={"reduce": runningMean()}).run(4, executor=threads, chainsPerJob=2, nIters=20_000)
    assert out.reduced["draws"]["theta"].shape == (4,) and not out


def test_an_executor_that_returns_no_futures_is_refused():
    executor = SimpleNamespace(submit=lambda *arguments: 42)
    with pytest.raises(ValueError, match="submit that returns futures, with done, cancel and result; got 42 from it"):
        Case().run(2, executor=executor)


class Unpacking:
    """An object whose state is an array that is made when it is pickled, as a table of compressed columns has."""

    def __init__(self, value):
        self.value = value

    def __getstate__(self):
        return {"value": np.full(2**18, float(self.value))}


def test_arrays_that_pickling_makes_do_not_come_to_the_files_of_others(threads):
    """They are of one size, and one after the other could be at the same address."""
    with Workers(threads) as workers:
        found = [list(workers.each(_value, Unpacking(k), [k])) for k in range(12)]
    assert found == [[k] for k in range(12)]


def _value(thing, _):
    return float(thing.value.max())
