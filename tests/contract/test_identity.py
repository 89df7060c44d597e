"""A run goes on only with the functions that it was begun with, on any machine; what cannot be told apart is known.

It uses the inside of the package: it compares fingerprints of functions without runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.run import product as sampler_module
from sgmcmc.run.checkpoint import function_identity
from tests.contract.test_sessions import set_up
from tests.contract.test_storage import MODEL, Tree, log_lik, run

X = MODEL["dataset"]["x"]


@pytest.fixture(scope="module")
def sampler() -> Any:
    """A sampler, whose identity says what is known of a model."""
    return sgmcmc.sgldSetup(**MODEL, stepsize=1e-4, seed=1)._sampler


def on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where functions round otherwise."""

    def rounded(values: Any, *others: Any) -> Tree:
        return function_identity([float(value) * (1 + 3e-7) for value in values], *others)

    monkeypatch.setattr(sampler_module, "function_identity", rounded)


def test_a_run_goes_on_where_functions_round_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "run.zarr", run("sgld", 90)
    run("sgld", 30, storage=path)
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        on_another_machine(patch)
        run("sgld", 60, storage=path, resume=True)
    out = run("sgld", 90, storage=path, resume=True)  # and back
    np.testing.assert_array_equal(out["theta"], whole["theta"])


def test_a_session_goes_on_where_functions_round_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, path = set_up("sgld"), tmp_path / "chain.sess"
    sgmcmc.saveSess(first, sgmcmc.initSess(first), path)
    on_another_machine(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgmcmc.restoreSess(set_up("sgld"), path)


SHIFT = tf.constant(np.zeros((1000, 2), np.float32))  # more than TensorFlow writes into a graph


def with_shift(params: Tree, dataset: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"] + SHIFT[0]) ** 2)


OTHER: list[tuple[Callable[..., tf.Tensor], str]] = [
    (lambda p, d: 1.0005 * log_lik(p, d), "gives values that differ by more than rounding"),
    (lambda p, d: log_lik(p, d) * tf.where(tf.reduce_max(tf.abs(d["x"])) > 50.0, 2.0, 1.0), "is another program"),
    (lambda p, d: -0.5 * tf.reduce_sum(tf.minimum((d["x"] - p["theta"]) ** 2, 1e6)), "is another program"),
    (with_shift, "is another program"),
]


@pytest.mark.parametrize(("other", "found"), OTHER, ids=range(len(OTHER)))
def test_a_function_that_differs_a_little_is_named(other: Callable[..., tf.Tensor], found: str, tmp_path: Path) -> None:
    """By 0.05%, or for outliers alone, of which there may be none in the data."""
    path = tmp_path / "run.zarr"
    run("sgld", 20, storage=path)
    with pytest.warns(
        UserWarning, match=rf"logLik of sgld must be what it was when '{path}' was begun; it {found}"
    ) as said:
        run("sgld", 20, storage=path, resume=True, logLik=other)
    assert [warning.filename for warning in said] == [str(Path(run.__code__.co_filename))]


def falls_at(iteration: int) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda k: tf.where(k < iteration, 1e-4, 1e-6)


def test_a_schedule_that_differs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    run("sgld", 20, storage=path, stepsize=falls_at(200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("sgld", 20, storage=path, resume=True, stepsize=falls_at(200))
    with pytest.warns(UserWarning, match=r"schedule of sgld must be what it was when .* begun; it is another program"):
        run("sgld", 20, storage=path, resume=True, stepsize=falls_at(500))
    first, session = set_up("sgld", stepsize=sgmcmc.cyclical(1e-4, 10_000)), tmp_path / "chain.sess"
    sgmcmc.saveSess(first, sgmcmc.initSess(first), session)
    with pytest.raises(ValueError, match="stepsize of sgld must be what it was when"):
        sgmcmc.restoreSess(set_up("sgld", stepsize=sgmcmc.cyclical(1e-4, 5_000)), session)


def test_a_session_of_a_function_that_differs_a_little_is_named(tmp_path: Path) -> None:
    first, path = set_up("sgld"), tmp_path / "chain.sess"
    sgmcmc.saveSess(first, sgmcmc.initSess(first), path)
    other = set_up("sgld", logPrior=lambda params: 1e-9 * params["phi"])
    with pytest.warns(UserWarning, match=rf"logPrior of sgld must be what it was when '{path}' was saved") as said:
        sgmcmc.restoreSess(other, path)
    assert [warning.filename for warning in said] == [__file__]


def test_a_function_is_known_by_its_graph(sampler: Any) -> None:
    """Made anew it is the same; what it closes over belongs to it; of Python that it calls nothing is known."""

    def graph(function: Callable[..., Any], *specs: Any) -> str | None:
        return function_identity([], function, *(specs or (tf.TensorSpec([2]),)))["graph"]

    def scaled(by: Any) -> Callable[[tf.Tensor], tf.Tensor]:
        return lambda x: tf.reduce_sum(x * by)

    large = [tf.fill([500, 2], 1.0), tf.fill([500, 2], 1.0 + 1e-7)]
    for same, other in ((2.0, 2.0 + 1e-6), large, ([tf.Variable(1.0), tf.Variable(1.0)][0], tf.Variable(1.5))):
        assert graph(scaled(same)) == graph(scaled(same)) != graph(scaled(other))
    assert graph(lambda x: tf.numpy_function(np.sum, [x], tf.float32)) is None
    assert graph(lambda x: tf.map_fn(lambda y: tf.numpy_function(np.sin, [y], tf.float32), x)) is None
    again = sgmcmc.sgldSetup(**MODEL, stepsize=1e-4, seed=1)._sampler
    assert again.identity == sampler.identity and sampler.identity["logLik"]["graph"]


def test_reducers_and_dynamics_that_differ_a_little_are_named(tmp_path: Path) -> None:
    def sums(scale: float) -> Tree:
        update = lambda total, draw: {"sum": total["sum"] + scale * tf.reduce_sum(draw["theta"])}  # noqa: E731
        return {"reduce": sgmcmc.Reducer(lambda draw: {"sum": tf.zeros([])}, update)}

    def rule(scale: float) -> Tree:
        step = lambda theta, memory, given: (theta + scale * given.eps * given.gradient, memory)  # noqa: E731
        return {"dynamics": sgmcmc.Dynamics(step)}

    for name, changed in (("reduce", sums), ("dynamics", rule)):
        path, sampler = tmp_path / f"{name}.zarr", "sample" if name == "dynamics" else "sgld"
        arguments = MODEL | {"stepsize": 1e-4, "seed": 1, "verbose": False, "storage": path, "resume": True}
        run_it = getattr(sgmcmc, sampler)
        run_it(**arguments, nIters=10, **changed(0.5))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run_it(**arguments, nIters=10, **changed(0.5))
        with pytest.warns(UserWarning, match=f"{name} of {sampler} must be what it was .*; it is another program"):
            run_it(**arguments, nIters=10, **changed(0.5 + 1e-6))
