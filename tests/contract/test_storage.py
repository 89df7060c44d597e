"""A run on disk: readable while it is written, whole after `kill -9`, and gone on with as if it had never stopped.

It uses the inside of the package: it interrupts a run between two writes, and damages its checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import xarray as xr

import sgmcmc
from sgmcmc import run as plan
from sgmcmc.core.files import locked
from sgmcmc.run import mode
from sgmcmc.run import product as sampler_module
from sgmcmc.run.checkpoint import Checkpoint
from sgmcmc.run.loop import Loop
from sgmcmc.storage import zarr as storage
from sgmcmc.storage.store import NAME
from tests.catalogue import EVERY

ROOT = Path(__file__).parents[2]
ROWS = 256  # to a chunk, in the processes that are killed

Tree = dict[str, Any]


def log_lik(params: Tree, dataset: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def log_prior(params: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["theta"] ** 2)


def squares(params: Tree) -> Tree:
    return {**params, "square": tf.reduce_sum(params["theta"] ** 2), "positive": params["theta"] > 0}


X = np.random.default_rng(0).normal(1.0, 1.0, size=(200, 2))
MODEL = {"logLik": log_lik, "dataset": {"x": X}, "params": {"theta": [0.0, 0.0]}, "minibatchSize": 20}
COUNTED = {
    "suffStats": lambda params, dataset: {"theta": tf.reduce_sum(dataset["x"], axis=0)},
    "dataset": {"x": np.abs(X)}, "params": {"theta": [0.3, 0.7]}, "minibatchSize": 20,
}  # fmt: skip
SETTINGS = {
    entry.name: (COUNTED if "simplex" in entry.problems else MODEL) | {"stepsize": entry.stepsize} | entry.settings
    for entry in EVERY
}
REDUCERS = {"mean": sgmcmc.runningMean(), "covariance": sgmcmc.runningCovariance()}


def run(name: str, n_iterations: float, **changes: Any) -> sgmcmc.Draws:
    arguments = SETTINGS[name] | {"seed": 11, "verbose": False, "nIters": n_iterations} | changes
    return getattr(sgmcmc, name)(**arguments)


def assert_begins(whole: sgmcmc.Draws, part: sgmcmc.Draws) -> None:
    """That the draws of `part` are the first of `whole`, in all groups."""
    n = len(part.iterations)
    np.testing.assert_array_equal(part.iterations, whole.iterations[:n])
    assert part.keys() == whole.keys() and part.sampleStats.keys() == whole.sampleStats.keys()
    assert (part.gradients is None) == (whole.gradients is None)
    kept = (slice(None),) * (whole.nChains is not None) + (slice(n),)
    groups = [(part, whole), (part.sampleStats, whole.sampleStats), (part.gradients or {}, whole.gradients or {})]
    for some, every in groups:
        for name, array in some.items():
            np.testing.assert_array_equal(array, every[name][kept], err_msg=name)


def interrupt(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Ctrl-C in the given call of the loop."""
    original, calls = Loop.advance, []

    def interrupted(self: Loop, *args: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(Loop, "advance", interrupted)


def refuse_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    def recomputed(*args: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(sampler_module, "find_mode", recomputed)
    monkeypatch.setattr(mode, "full_gradient", recomputed)


def checkpoint(path: Path) -> Checkpoint:
    return Checkpoint.decode(*storage.read_checkpoint(path, "state"))


# --- kill -9 ------------------------------------------------------------------------------------------------------

KILLED: dict[str, Tree] = {
    "sgld": {},
    "sghmccv": {"nChains": 2, "starts": 0.1, "gradients": True},
    "sgnht": {"thin": 3, "burnIn": 100, "collect": squares, "reduce": REDUCERS},
    "scir": {"nChains": 2, "logScale": True, "stepsize": sgmcmc.polynomial(0.1, 100, 0.5)},
}


def write(folder: str) -> None:
    """What the process does that is killed: endless runs, committed often."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    storage.COMMIT_SECONDS, storage.CHUNK_ROWS = 0.05, ROWS

    def endless(name: str) -> None:
        run(name, 10**8, storage=Path(folder) / f"{name}.zarr", **KILLED[name])

    with ThreadPoolExecutor() as pool:
        for future in as_completed([pool.submit(endless, name) for name in KILLED]):
            traceback.print_exception(future.exception())
            os._exit(1)


Lengths = set[tuple[str, int]]


def read(path: Path) -> tuple[xr.DataTree, Lengths]:
    """What a reader sees, in memory, and how many draws of each array."""
    with xr.open_datatree(path, engine="zarr") as tree:
        groups = [group for group in tree.children if group != "checkpoint"]
        seen = xr.DataTree.from_dict({group: tree[group].to_dataset().load() for group in groups})
    return seen, {(group, size) for group in groups for dim, size in seen[group].sizes.items() if dim == "draw"}


@dataclass
class Killed:
    """A store whose writer was killed, and what a reader saw until then."""

    name: str
    path: Path
    seen: list[tuple[xr.DataTree, Lengths]] = field(default_factory=list)

    def has_enough(self) -> bool:
        lengths = {size for _, sizes in self.seen for _, size in sizes}
        return len(lengths) > 5 and max(lengths) >= 2 * ROWS


@pytest.fixture(scope="module")
def all_killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Killed]:
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("killed")
    killed = {name: Killed(name, folder / f"{name}.zarr") for name in KILLED}
    command = [sys.executable, "-c", f"from tests.contract.test_storage import write; write({str(folder)!r})"]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as writer:
        try:
            deadline = time.monotonic() + 120
            while not all(one.has_enough() for one in killed.values()):
                assert time.monotonic() < deadline and writer.poll() is None
                time.sleep(0.02)
                for one in killed.values():
                    if one.path.exists() and not one.has_enough():
                        one.seen.append(read(one.path))
            time.sleep(rng.uniform(0.0, 0.2))
        finally:
            writer.kill()
    return killed


@pytest.fixture(params=list(KILLED))
def killed(request: pytest.FixtureRequest, all_killed: dict[str, Killed]) -> Killed:
    return all_killed[request.param]


def assert_whole(tree: xr.DataTree) -> None:
    for group in tree.children.values():
        for name, array in group.data_vars.items():
            assert array.dtype == bool or np.isfinite(array.values).all(), name
        if "positive" in group:  # of other arrays of the same row: rows are never torn
            np.testing.assert_array_equal(group["positive"], group["theta"] > 0)


def test_a_reader_sees_whole_rows_while_the_run_goes_on(killed: Killed) -> None:
    lengths = [{size for _, size in sizes} for _, sizes in killed.seen]
    assert all(len(sizes) == 1 for sizes in lengths)
    numbers = [size for (size,) in lengths]
    assert numbers == sorted(numbers) and len(set(numbers)) > 3
    for tree, _ in killed.seen:
        assert_whole(tree)


def test_what_a_killed_run_leaves_is_whole(killed: Killed) -> None:
    tree, sizes = read(killed.path)
    saved = checkpoint(killed.path)
    ((shown,),) = [{size for _, size in sizes}]
    assert saved.stored <= shown >= 2 * ROWS
    keep = KILLED[killed.name]
    assert saved.stored == (saved.iteration - keep.get("burnIn", 0)) // keep.get("thin", 1)
    assert len(list((killed.path / "sample_stats" / "lp" / "c").rglob("0/*"))) > 2  # chunks
    assert_whole(tree)
    assert set(tree.children) == {"posterior", "sample_stats"} | ({"gradients"} if "gradients" in keep else set())


def test_a_killed_run_goes_on_as_if_it_had_not_been(killed: Killed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a new store would have chunks of another size."""
    tree, sizes = read(killed.path)
    shown = max(size for _, size in sizes)
    keep = KILLED[killed.name]
    n_iterations = keep.get("burnIn", 0) + keep.get("thin", 1) * shown + 700
    whole = run(killed.name, n_iterations, **keep)
    with monkeypatch.context() as patch:
        refuse_to_compute(patch)
        patch.setattr(storage, "CHUNK_ROWS", 100)
        again = run(killed.name, n_iterations, storage=killed.path, resume=True, **keep)
    assert len(again.iterations) == len(whole.iterations) > shown
    assert_begins(whole, again)
    for label, result in whole.reduced.items():
        for name, array in result.items():
            np.testing.assert_array_equal(again.reduced[label][name], array)
    for group in tree.children.values():  # and what readers were shown before is what they are shown now
        for name, array in group.data_vars.items():
            now = {"posterior": again, "sample_stats": again.sampleStats, "gradients": again.gradients}[group.name][
                name
            ]
            now = now if whole.nChains else now.expand_dims("chain")
            np.testing.assert_array_equal(array, now[:, :shown])


# --- resume in one process ----------------------------------------------------------------------------------------

THINNED = {"thin": 7, "burnIn": 50, "collect": squares, "reduce": sgmcmc.runningCovariance()}


@pytest.fixture(scope="module")
def whole() -> sgmcmc.Draws:
    return run("sgld", 300, **THINNED)


def test_the_pieces_of_a_run_make_up_the_whole(whole: sgmcmc.Draws, tmp_path: Path) -> None:
    """Pieces that end in burn-in (by Ctrl-C), within a period of thinning, and while rows are recorded (by Ctrl-C)."""
    path = tmp_path / "run.zarr"

    def piece(n_iterations: int, **changes: Any) -> sgmcmc.Draws:
        out = run("sgld", n_iterations, storage=path, resume=True, **THINNED | changes)
        assert_begins(whole, out)
        return out

    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.warns(UserWarning, match="returning the first 0 of 35 draws") as warned,
    ):
        interrupt(patch, 5)
        assert len(piece(300).iterations) == 0
    assert warned[0].filename == __file__
    assert 4 <= checkpoint(path).iteration < 50
    out = piece(60, seed=None)
    assert list(out.iterations) == [57] and out.seed == whole.seed
    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="returning the first . of 35 draws"):
        interrupt(patch, 7)
        assert 3 < len(piece(300, seed=None).iterations) < 35

    # What kill -9 leaves of files that were being written:
    for place in (path, path / "posterior", path / "posterior" / "theta"):
        (place / "zarr.0123456789abcdef.partial").write_bytes(b"{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = piece(300)
    assert len(out.iterations) == 35
    for label, result in whole.reduced.items():
        for name, array in result.items():
            np.testing.assert_array_equal(out.reduced[label][name], array)
    assert len(piece(300).iterations) == 35  # nothing is left to do

    theta = out["theta"]
    assert isinstance(theta, xr.DataArray) and theta.dims == ("draw", "theta_dim_0")
    np.testing.assert_array_equal(out[3:9]["theta"], whole["theta"][3:9])
    np.testing.assert_allclose(out.summary().to_numpy(float), whole.summary().to_numpy(float))
    trees = [one.toArviz() for one in (out, whole)]
    assert set(trees[0].children) == set(trees[1].children) == {"posterior", "sample_stats"}
    for group, dataset in trees[1].children.items():
        assert trees[0][group].data_vars.keys() == dataset.data_vars.keys()
        for name, array in dataset.data_vars.items():
            xr.testing.assert_equal(trees[0][group][name].load(), array)
    out.save(tmp_path / "run.npz")
    assert_begins(whole, sgmcmc.Draws.load(tmp_path / "run.npz"))

    with pytest.raises(ValueError, match=r"nIters of sgld must be at least the 300 iterations .* got 299"):
        piece(299)


def test_a_divergence_is_met_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "STRETCH_SECONDS", 1e9)  # so that it comes amid a long stretch
    path, errors, thin = tmp_path / "run.zarr", [], 3
    settings = {"stepsize": 0.03, "thin": thin, "reduce": REDUCERS, "collect": dict}
    for where in ({}, {"storage": path}, {"storage": path, "resume": True}):
        with pytest.raises(
            sgmcmc.DivergenceError, match=r"the \d+ draws made before are in the attribute draws"
        ) as caught:
            run("sgld", 5000, **settings, **where)
        errors.append(caught.value)
    first = errors[0]
    assert len(first.draws.iterations) == (first.iteration - 1) // thin > 10
    assert first.draws.divergence == {"iteration": first.iteration, "chain": 0, "parameter": "theta"}
    np.testing.assert_allclose(first.draws.reduced["mean"]["theta"], first.draws["theta"].astype(float).mean(axis=0))
    for error in errors[1:]:
        assert (error.iteration, error.parameter) == (first.iteration, first.parameter)
        assert len(error.draws.iterations) == len(first.draws.iterations)
        assert_begins(first.draws, error.draws)
        np.testing.assert_array_equal(error.draws.reduced["mean"]["theta"], first.draws.reduced["mean"]["theta"])
    assert checkpoint(path).stored == len(first.draws.iterations)


# --- refusals -----------------------------------------------------------------------------------------------------

BEGUN: Tree = {
    "logPrior": log_prior, "nChains": 2, "starts": 0.1, "thin": 2, "burnIn": 3, "collect": squares,
    "reduce": sgmcmc.runningMean(), "subsampling": "withReplacement", "optimizer": "adam",
    "dataset": {"x": X, "k": np.arange(200)}, "integers": ["k"],
}  # fmt: skip


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("begun") / "run.zarr"
    run("sghmccv", 20, storage=path, **BEGUN | {"nItersOpt": np.int64(150), "optStepsize": np.float32(2**-13)})
    return path


SAME = BEGUN | {"nItersOpt": 150.0, "optStepsize": 2**-13}


def of_reversed(params: Tree, dataset: Tree) -> tf.Tensor:
    return log_lik({"theta": params["theta"][::-1] * 1.01}, dataset)


OTHER: list[tuple[str, Tree, Any, Any]] = [
    # the setting named, what differs, its value before and its value now
    ("stepsize", {"stepsize": 2e-4}, {"theta": 1e-4}, {"theta": 2e-4}),
    ("stepsize", {"stepsize": lambda k: 1e-4}, {"theta": 1e-4}, {"theta": {"schedule": [1e-4] * 8}}),
    ("alpha", {"alpha": 0.2}, {"theta": 0.1}, {"theta": 0.2}),
    ("L", {"L": 4}, 3, 4),
    ("minibatchSize", {"minibatchSize": 21}, 20, 21),
    ("seed", {"seed": 12}, 11, 12),
    ("N", {"dataset": {"x": X[:100], "k": np.arange(100)}}, 200, 100),
    ("dataset", {"dataset": {"x": X[::-1], "k": np.arange(200)}}, None, None),
    ("params", {"params": {"theta": [0.0, 1e-6]}}, None, None),
    ("logLik", {"logLik": of_reversed}, None, None),
    ("logPrior", {"logPrior": None}, None, None),
    ("logPrior", {"logPrior": lambda params: -0.6 * tf.reduce_sum(params["theta"] ** 2)}, None, None),  # 0 at params
    ("nChains", {"nChains": 3}, 2, 3),
    ("nChains", {"nChains": None, "starts": None}, 2, None),
    ("starts", {"starts": 0.2}, 0.1, 0.2),
    ("starts", {"starts": {"theta": np.zeros((2, 2))}}, 0.1, None),
    ("sharedMinibatch", {"sharedMinibatch": True}, False, True),
    ("subsampling", {"subsampling": "uniform"}, "withReplacement", "uniform"),
    ("subsampling", {"subsampling": np.ones(200)}, "withReplacement", None),
    ("integers", {"integers": []}, ["k"], []),
    ("dtype", {"dtype": "float64"}, "float32", "float64"),
    ("thin", {"thin": 1}, 2, 1),
    ("burnIn", {"burnIn": 4}, 3, 4),
    ("gradients", {"gradients": True}, False, True),
    ("collect", {"collect": None}, None, None),
    ("collect", {"collect": lambda params: dict(params)}, None, None),
    ("collect", {"collect": lambda params: squares({"theta": 2.0 * params["theta"]})}, None, None),
    ("reduce", {"reduce": {"mean": sgmcmc.runningMean()}}, None, None),
    ("reduce", {"reduce": sgmcmc.runningCovariance()}, None, None),
    ("reduce", {"reduce": None}, None, {}),
    ("optStepsize", {"optStepsize": 2**-12}, 2**-13, 2**-12),
    ("nItersOpt", {"nItersOpt": 151}, 150, 151),
    ("optimizer", {"optimizer": "sgd"}, "adam", "sgd"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "changes", "before", "now"), OTHER, ids=[f"{o[0]}-{i}" for i, o in enumerate(OTHER)]
)
def test_another_setting_is_refused_by_name(begun: Path, setting: str, changes: Tree, before: Any, now: Any) -> None:
    with pytest.raises(ValueError) as refused:
        run("sghmccv", 30, storage=begun, resume=True, **SAME | changes)
    message = str(refused.value)
    start = f"{setting} of sghmccv must be what it was when {str(begun)!r} was begun, "
    assert message.startswith(start) and message.endswith(".")
    was, got = message[len(start) : -1].split("; got ")
    assert was != got and "None" not in was
    assert before is None or was == repr(before)
    assert now is None or got == repr(now)


def test_another_sampler_is_refused_by_name(begun: Path) -> None:
    with pytest.raises(ValueError, match=r"sampler of sgld must be what it was .* 'sghmccv'; got 'sgld'"):
        run("sgld", 30, storage=begun, resume=True)


def test_the_same_settings_written_differently_go_on(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_compute(monkeypatch)
    like = {
        "minibatchSize": 0.1,
        "stepsize": {"theta": 1e-4},
        "nChains": 2.0,
        "dataset": {"k": range(200), "x": X.tolist()},
    }
    out = run("sghmccv", 30, storage=str(begun), resume=True, **SAME | like)
    assert list(out.iterations) == list(range(5, 30, 2)) and out["theta"].shape == (2, 13, 2)


def garbage(folder: Path) -> Path:
    path = folder / "garbage.zarr"
    path.mkdir()
    (path / "zarr.json").write_text("{}")
    return path


def foreign(folder: Path) -> Path:
    xr.Dataset({"theta": ("draw", np.zeros(3))}).to_zarr(folder / "foreign.zarr", consolidated=False)
    return folder / "foreign.zarr"


BAD: list[tuple[Callable[[Path], Any], Tree, str]] = [
    (lambda folder: 5, {},
     "storage of sgld must be None or the path of a Zarr store, whose name ends in '.zarr'; got 5"),
    (lambda folder: folder / "run.nc", {}, "whose name ends in '.zarr'; got "),
    (lambda folder: folder / "none" / "run.zarr", {}, "in a folder that exists; got "),
    (lambda folder: None, {"resume": True}, "resume of sgld must come with storage, the store to continue; got"),
    (lambda folder: folder / "run.zarr", {"resume": 1}, "resume of sgld must be True or False; got 1"),
    (garbage, {}, "storage of sgld must be a new path, or come with resume=True; got .*, which exists"),
    (garbage, {"resume": True}, "storage of sgld must be a store that this package wrote; got .*, which is not one"),
    (foreign, {"resume": True}, "storage of sgld must be a store that this package wrote; got .*, which is not one"),
    (lambda folder: folder / "run.zarr", {"collect": lambda params: {"a/b": params["theta"]}},
     r"names of draws of sgld must be usable in storage; got \['a/b'\]"),
    (lambda folder: folder / "run.zarr", {"collect": lambda params: {"chain": params["theta"]}}, r"got \['chain'\]"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "changes", "message"), BAD, ids=range(len(BAD)))
def test_bad_stores_are_refused_by_name(
    place: Callable[[Path], Any], changes: Tree, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run("sgld", 10, storage=place(tmp_path), **changes)


@pytest.mark.parametrize("missing", ["zarr", "xarray"])
def test_without_zarr_it_is_said_how_to_get_it(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"^storage needs Zarr and xarray: pip install zarr xarray$"):
        run("sgld", 10, storage=tmp_path / "run.zarr")


def test_a_schedule_may_be_a_table() -> None:
    """A table as long as the run is a schedule like any other, in the type of the run."""
    table = tf.constant(np.linspace(1e-3, 1e-4, 30, dtype=np.float32))
    out = run("sgld", 30, stepsize=lambda k: tf.gather(table, tf.cast(k, tf.int32)))
    assert out.settings["stepsize"] == {
        "theta": {"schedule": [pytest.approx(1e-3), pytest.approx(table[1]), *[None] * 6]}
    }
    np.testing.assert_array_equal(out.sampleStats["step_size"][:, 0], table)


def test_two_runs_do_not_write_one_store(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    run("sgld", 30, storage=path)
    lock = locked(path / NAME)
    with pytest.raises(ValueError, match=r"storage must be a store that no other run is writing; got '.*run.zarr'"):
        run("sgld", 60, storage=path, resume=True)
    os.close(lock)
    assert len(run("sgld", 60, storage=path, resume=True)["theta"]) == 60


@pytest.mark.parametrize("chains", [None, 2])
def test_a_store_is_loaded_as_draws(tmp_path: Path, chains: int | None) -> None:
    path = tmp_path / "run.zarr"
    out = run("sghmc", 60, storage=path, nChains=chains, thin=2, burnIn=10)
    loaded = sgmcmc.Draws.load(path)
    assert_begins(out, loaded)
    assert len(loaded.iterations) == 25 and loaded.settings["alpha"] == out.settings["alpha"] and loaded.seed == 11


def test_functions_are_told_apart_by_what_they_give(tmp_path: Path) -> None:
    """Also those that give the same where the chain begins."""

    def counts(level: float) -> dict[str, Any]:
        count = sgmcmc.Reducer(
            lambda draw: {"count": tf.zeros([])},
            lambda sums, draw: {"count": sums["count"] + tf.cast(draw["theta"][0] > level, tf.float32)},
        )
        return {"reduce": count}

    def above(level: float) -> dict[str, Any]:
        return {"collect": lambda params: {"above": params["theta"] > level}}

    for name, changed in (("reduce", counts), ("collect", above)):
        path = tmp_path / f"{name}.zarr"
        run("sgld", 20, storage=path, **changed(0.5))
        with pytest.raises(ValueError, match=f"{name} of sgld must be what it was when"):
            run("sgld", 40, storage=path, resume=True, **changed(100.0))
        run("sgld", 40, storage=path, resume=True, **changed(0.5))


def test_a_folder_that_cannot_be_written_is_named_before_the_run(tmp_path: Path, monkeypatch: Any) -> None:
    def read_only(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", read_only)
    monkeypatch.setattr(sampler_module, "find_mode", read_only)  # what is not reached
    with pytest.raises(ValueError, match=r"storage of sgldcv must be in a writable folder; .*Permission"):
        run("sgldcv", 60, storage=tmp_path / "run.zarr")
    assert list(tmp_path.iterdir()) == []


def test_more_steps_than_random_numbers_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"nIters of sghmc must make fewer than 2\*\*32 steps.*; got \d+ iterations of 3"
    ):
        run("sghmc", 10**10, thin=10**9)
