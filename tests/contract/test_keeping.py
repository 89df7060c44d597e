"""What is kept of a run: collect, reduce, gradients, with thinning and several chains; and shared minibatches.

It uses the inside of the package: it tests memory limits without a run that needs them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.arguments.run import checked_run
from sgmcmc.arguments.signatures import of_run
from sgmcmc.run import Pace, Plan
from sgmcmc.run.one_call import Run
from tests.catalogue import CATALOGUE, Entry, sparse

Tree = dict[str, Any]


def log_lik(params: Tree, dataset: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def log_prior(params: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["theta"] ** 2)


X = np.random.default_rng(0).normal(1.0, 1.0, size=(100, 2))
MODEL = {"logLik": log_lik, "dataset": {"x": X}, "params": {"theta": [0.0, 0.5]}, "logPrior": log_prior}


def sgld(**changes: Any) -> sgmcmc.Draws:
    given = {"stepsize": 1e-3, "minibatchSize": 10, "nIters": 101, "seed": 7, "verbose": False}
    return sgmcmc.sgld(**MODEL | given | changes)


@pytest.fixture(scope="module")
def plain() -> np.ndarray:
    """All draws of two chains."""
    return sgld(nChains=2)["theta"]


@pytest.fixture(scope="module")
def single() -> np.ndarray:
    """All draws of a single chain."""
    return sgld()["theta"]


KEPT = {"burnIn": 20, "thin": 3}
AT = slice(22, None, 3)

largest = sgmcmc.Reducer(
    init=lambda draw: [x - 1e30 for x in draw.values()],
    update=lambda top, draw: [tf.maximum(a, b) for a, b in zip(top, draw.values(), strict=True)],
    result=lambda top: dict(enumerate(top)),
)


def residuals(params: Tree, dataset: Tree) -> Tree:
    return {
        "loss": tf.reduce_mean((dataset["x"] - params["theta"]) ** 2),
        "above": params["theta"] > 0.9,
        "tenths": tf.cast(tf.round(10 * params["theta"]), tf.int32),
    }


# --- collect ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collected() -> sgmcmc.Draws:
    """Everything at once, of the draws of `plain`."""
    reducers = {"mean": sgmcmc.runningMean(), "covariance": sgmcmc.runningCovariance()}
    return sgld(nChains=2, collect=residuals, reduce=reducers, gradients=True, **KEPT)


def losses(theta: np.ndarray) -> np.ndarray:
    return ((X - theta[..., None, :]) ** 2).mean(axis=(-2, -1))


def test_collected_in_place_of_the_draws_is_the_function_of_the_draws(
    plain: np.ndarray, collected: sgmcmc.Draws
) -> None:
    theta = plain[:, AT]
    assert set(collected) == {"loss", "above", "tenths"}
    assert [collected[name].dtype for name in ("loss", "above", "tenths")] == [np.float32, bool, np.int32]
    np.testing.assert_allclose(collected["loss"], losses(theta), rtol=1e-5)
    np.testing.assert_array_equal(collected["above"], theta > 0.9)
    assert 0 < collected["above"].mean() < 1
    np.testing.assert_array_equal(collected["tenths"], np.round(10 * theta))
    np.testing.assert_array_equal(collected.iterations, np.arange(23, 102, 3))
    table = collected.summary()
    np.testing.assert_allclose(table.loc["above[1]", "mean"], collected["above"][..., 1].mean())


def test_collected_beside_the_draws(plain: np.ndarray, single: np.ndarray) -> None:
    out = sgld(collect=lambda params: {**params, "loss": tf.reduce_sum(params["theta"]), "one": 1.0}, nChains=1)
    np.testing.assert_array_equal(out["theta"][0], single)
    np.testing.assert_allclose(out["theta"][0], plain[0], rtol=2e-4)
    np.testing.assert_allclose(out["loss"], out["theta"].sum(axis=-1), rtol=1e-5)
    np.testing.assert_array_equal(out["one"], np.ones((1, 101)))


class Loss:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, params: Tree, dataset: Tree) -> Tree:
        return {"out": self.scale * tf.reduce_mean((dataset["x"] - params["theta"]) ** 2)}


def scaled(scale: float, params: Tree) -> Tree:
    return {"out": scale * params["theta"]}


def with_defaults(params: Tree, scale: float = 2.0) -> Tree:
    return {"out": scale * params["theta"]}


def with_optional_data(params: Tree, dataset: Tree | None = None) -> Tree:
    return {"out": tf.reduce_mean((dataset["x"] - params["theta"]) ** 2)}


CALLABLES: dict[str, tuple[Callable, Callable]] = {
    "an object": (Loss(3.0), lambda theta: 3.0 * losses(theta)),
    "a partial": (functools.partial(scaled, 3.0), lambda theta: 3.0 * theta),
    "a partial with data": (functools.partial(with_optional_data, dataset={"x": tf.constant(X, tf.float32)}), losses),
    "a function with defaults": (with_defaults, lambda theta: 2.0 * theta),
    "a function with optional data": (with_optional_data, losses),
}


def test_callables_of_every_kind(single: np.ndarray) -> None:
    """What a run evaluates, in one run and at the draws of another."""
    sampler = sgmcmc.sgldSetup(**MODEL, stepsize=1e-3, minibatchSize=10)._sampler
    for kind, (function, of_draws) in CALLABLES.items():
        collect = checked_run(sampler, True, 5, False, of_run({"collect": function})).keep.collect
        found = [collect({"theta": tf.constant(theta)})["out"] for theta in single[:5]]
        np.testing.assert_allclose(found, of_draws(single[:5]), rtol=1e-5, err_msg=kind)
    function, of_draws = CALLABLES["an object"]
    np.testing.assert_allclose(sgld(collect=function, nIters=5)["out"], of_draws(single[:5]), rtol=1e-5)


def test_collect_is_evaluated_for_the_stored_draws_only() -> None:
    """Counted by an operation that XLA cannot compile, so that the plain graph runs."""
    calls = []

    def count(theta: np.ndarray) -> np.ndarray:
        calls.append(theta.copy())
        return theta

    def counted(params: Tree) -> Tree:
        theta = tf.numpy_function(count, [params["theta"]], tf.float32)
        return {"theta": tf.ensure_shape(theta, [2])}

    with pytest.warns(UserWarning, match="XLA cannot compile"):
        out = sgld(collect=counted, nIters=2000, thin=200)
    assert len(out["theta"]) == 10 <= len(calls) < 100
    for draw in out["theta"]:
        assert any((draw == theta).all() for theta in calls)


def changing(params: Tree) -> Tree:
    return {"positive": tf.boolean_mask(params["theta"], params["theta"] > 0)}


def failing(params: Tree) -> Tree:
    raise RuntimeError("no such thing")


BAD_COLLECT: list[tuple[Any, str]] = [
    (5, "collect of sgld must be a function of params, or of params and dataset, in TensorFlow operations; got 5"),
    (lambda: {}, "collect of sgld must be a function of params, .* it raised TypeError"),
    (lambda params, dataset, more: {}, "collect of sgld must be a function of params, .* it raised TypeError"),
    (lambda params: params["theta"], "that returns a dict of tensors; it raised"),
    (lambda params: None, "that returns a dict of tensors; it raised TypeError"),
    (lambda params: {}, "returns a dict of tensors; it raised TypeError: it must return a dict of tensors by name"),
    (lambda params: {1: params["theta"]}, "it must return a dict of tensors by name"),
    (lambda params: {"nested": params}, "that returns a dict of tensors; it raised"),
    (lambda params: {"theta": params["tehta"]}, "it raised KeyError: 'tehta'"),
    (failing, "it raised RuntimeError: no such thing"),
    (changing, r"collect of sgld must return tensors of the same shape for every draw; got 'positive' of the"),
    (lambda params: {"x": tf.random.normal([2])}, "collect of sgld must not draw random numbers by itself"),
    (lambda params: {"s": tf.strings.as_string(params["theta"])}, "must return numbers; got 's' of string"),
]  # fmt: skip


@pytest.mark.parametrize(("collect", "message"), BAD_COLLECT, ids=range(len(BAD_COLLECT)))
def test_bad_functions_to_collect_are_named(collect: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sgld(collect=collect)


# --- reduce -------------------------------------------------------------------------------------------------------


def covariances(values: np.ndarray) -> np.ndarray:
    """Of the elements, from [C, T, ...]."""
    return np.stack([np.cov(x.reshape(len(x), -1), rowvar=False).reshape(x[0].size, -1) for x in values])


def test_reduced_without_the_draws_being_stored(plain: np.ndarray) -> None:
    reducers = {"mean": sgmcmc.runningMean(), "covariance": sgmcmc.runningCovariance(), "largest": largest}
    out = sgld(nChains=2, reduce=reducers, **KEPT)
    assert dict(out) == out.sampleStats == {} and len(out.iterations) == 0 and "reduced mean" in repr(out)
    theta = plain[:, AT].astype(np.float64)
    assert out.reduced["mean"]["theta"].dtype == np.float64
    np.testing.assert_allclose(out.reduced["mean"]["theta"], theta.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(out.reduced["covariance"]["theta"], covariances(theta), rtol=1e-9)
    np.testing.assert_array_equal(out.reduced["largest"][0], theta.max(axis=1))
    with pytest.raises(ValueError, match="summary needs draws, but none are stored: reduce="):
        out.summary()
    with pytest.raises(ValueError, match="toArviz needs draws, but none are stored"):
        out.toArviz()


def test_reduced_of_a_single_chain(single: np.ndarray) -> None:
    out = sgld(reduce=sgmcmc.runningCovariance())
    assert out.reduced.keys() == {"draws"}
    np.testing.assert_allclose(
        out.reduced["draws"]["theta"], np.cov(single.astype(np.float64), rowvar=False), rtol=1e-9
    )


def test_what_is_collected_is_what_is_reduced(collected: sgmcmc.Draws) -> None:
    for name, array in collected.items():
        values = array.astype(np.float64)
        np.testing.assert_allclose(collected.reduced["mean"][name], values.mean(axis=1), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(collected.reduced["covariance"][name], covariances(values), rtol=1e-7, atol=1e-15)


GOOD = sgmcmc.runningMean()
REDUCE = "reduce of sgld must be a Reducer such as runningMean\\(\\), or a dict of Reducers by name; got "
STATE = r"reduce\['draws'\] of sgld must keep an accumulator of fixed shapes, in TensorFlow operations; it raised "

BAD_REDUCE: list[tuple[Any, str]] = [
    (sgmcmc.runningMean, REDUCE),
    ("mean", REDUCE + "'mean'"),
    ({}, REDUCE + "{}"),
    ({"mean": np.mean}, REDUCE),
    ({1: GOOD}, REDUCE),
    (GOOD._replace(update=lambda sums, draw: tf.concat([sums["count"][None], draw["theta"]], 0)), STATE),
    (sgmcmc.Reducer(lambda draw: draw["theta"], lambda kept, draw: tf.concat([kept, draw["theta"]], 0)),
     STATE + r"TypeError: update turns float32\(2,\) into float32\(4,\)"),
    (sgmcmc.Reducer(lambda draw: draw["theta"], lambda kept, draw: tf.cast(kept, tf.float64)),
     STATE + r"TypeError: update turns float32\(2,\) into float64\(2,\)"),
    (sgmcmc.Reducer(lambda draw: {}, lambda kept, draw: {}), STATE + "TypeError: its accumulator holds no tensor"),
    (sgmcmc.Reducer(lambda draw: draw["tehta"], lambda kept, draw: kept), STATE + "KeyError: 'tehta'"),
    (GOOD._replace(result=lambda kept: kept["tehta"]), "a result that is a dict of arrays; it raised KeyError"),
]  # fmt: skip


@pytest.mark.parametrize(("reduce", "message"), BAD_REDUCE, ids=range(len(BAD_REDUCE)))
def test_bad_reducers_are_named(reduce: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sgld(reduce=reduce)


# --- gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgld", "sghmccv"])
def test_gradients_belong_to_their_draws(name: str) -> None:
    """All data in every minibatch: the gradient is exact."""
    (entry,) = (entry for entry in CATALOGUE if entry.name == name)
    given = {"stepsize": entry.stepsize, "minibatchSize": 100, "nIters": 30, "thin": 3, "burnIn": 4, "verbose": False}
    settings = entry.settings | ({"nItersOpt": 0} if "nItersOpt" in entry.settings else {})
    out = entry.one_call(**MODEL | given | settings, seed=1, gradients=True, dtype="float64")
    assert out.gradients["theta"].shape == out["theta"].shape == (8, 2)
    np.testing.assert_allclose(out.gradients["theta"], X.sum(axis=0) - 101.0 * out["theta"], rtol=1e-9)


def test_gradients_do_not_change_the_draws(plain: np.ndarray, collected: sgmcmc.Draws) -> None:
    """And are estimates from other minibatches than the chain's own: their noise is not that of the next step."""
    out = sgld(nChains=2, gradients=True)
    np.testing.assert_array_equal(out["theta"], plain)
    np.testing.assert_array_equal(out.gradients["theta"][:, AT], collected.gradients["theta"])
    exact = X.sum(axis=0) - 101.0 * plain
    noise = out.gradients["theta"] - exact
    assert out.gradients["theta"].shape == plain.shape and noise.std() > 10
    moves = (np.diff(plain, axis=1) - 5e-4 * exact[:, :-1]) / 5e-4  # the noise of the gradient, and that injected
    for shift in (0, 1):
        own = np.corrcoef(moves[:, shift:].ravel(), noise[:, : moves.shape[1] - shift].ravel())[0, 1]
        assert abs(own) < 0.2
    assert (noise[0] != noise[1]).all()


# --- memory -------------------------------------------------------------------------------------------------------


def test_calls_that_copy_a_large_state_are_not_made_short() -> None:
    pace = Pace(64, shortest=16)
    assert pace.length == 16
    pace.adapt(16, 10.0)
    assert pace.length == 16
    pace.adapt(16, 1e-3)
    assert pace.length == 32


@pytest.mark.parametrize("thin", [1, 3, 10, 1000])
@pytest.mark.parametrize(("longest", "at_most"), [(2**20, 50), (1024, 100_000 // 1024 + 20)])
def test_stretches_grow_long_whatever_is_thinned(thin: int, longest: int, at_most: int) -> None:
    """Each costs a call; one for each row would be most of the time of a cheap chain. And each row is due once."""
    plan, pace, done, calls, rows = Plan(100_000, thin, burn_in=5), Pace(longest), 0, 0, []
    while done < plan.n_iterations:
        end_of_block = (done // longest + 1) * longest
        stretch = plan.stretch(done, min(done + pace.length, end_of_block), longest)
        assert stretch.begin == done < stretch.end <= end_of_block
        rows += [stretch.due + k * thin for k in range(stretch.n_rows)]
        assert not stretch.n_rows or (stretch.begin < rows[-stretch.n_rows] and rows[-1] <= stretch.end)
        pace.adapt(stretch.end - stretch.begin, elapsed=0.0)
        done, calls = stretch.end, calls + 1
    assert done == plan.n_iterations and calls < at_most
    assert rows == list(range(5 + thin, 100_001, thin))


class StartedError(Exception):
    pass


def test_what_does_not_fit_into_memory_is_refused_before_anything_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    free = 16_000

    def started(self: Run) -> None:
        raise StartedError

    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    monkeypatch.setattr(Run, "draws", started)
    message = r"nIters of sgld must produce draws that fit into memory; got \d+ draws, which need 0\.0 GB, while 0\.0"
    fits: list[Tree] = [  # 8 bytes for each draw of a chain, 4 for its log posterior, and 4 for its variance ratio
        {"nIters": 1000}, {"nIters": 500, "nChains": 2}, {"nIters": 666, "gradients": True},
        {"nIters": 4000, "thin": 4}, {"nIters": 5000, "burnIn": 4000}, {"nIters": 500, "dtype": "float64"},
        {"nIters": 1777, "collect": lambda params: {"above": params["theta"][0] > 0}},
    ]  # fmt: skip
    for settings in fits:
        with pytest.raises(StartedError):
            sgld(**settings)
        with pytest.raises(MemoryError, match=message):
            sgld(**settings | {"nIters": settings["nIters"] + settings.get("thin", 1)})
    free = 0
    with pytest.raises(MemoryError, match=r"got 1000000000 draws, which need 16\.0 GB"):
        sgld(nIters=10**9)


def test_a_run_on_disk_needs_no_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=0))
    monkeypatch.setattr(Run, "draws", lambda self: SimpleNamespace(n_rows=self.plan.n_rows))
    assert sgld(nIters=10**9, storage=tmp_path / "run.zarr").n_rows == 10**9


def test_sums_need_no_memory_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100))
    monkeypatch.setattr(Run, "draws", lambda self: SimpleNamespace(n_rows=self.plan.n_rows))
    assert sgld(nIters=10**9, reduce=sgmcmc.runningMean()).n_rows == 10**9
    with pytest.raises(MemoryError, match="reduce of sgld must keep sums that fit into memory"):
        sgld(nIters=10, reduce=sgmcmc.runningCovariance())


# --- shared minibatches -------------------------------------------------------------------------------------------

W = np.random.default_rng(3).normal(1.0, 1.0, 40)


def linear(params: Tree, dataset: Tree) -> tf.Tensor:
    """The estimate of this density, divided by theta, is the sum over the minibatch: it tells which one it was."""
    return tf.reduce_sum(dataset["w"]) * params["theta"]


KINDS = [entry for entry in CATALOGUE if entry.name in ("sgld", "sghmc", "ccadl", "sghmccv")]


@pytest.mark.parametrize("entry", KINDS, ids=lambda entry: entry.name)
def test_all_chains_look_at_the_shared_minibatch(entry: Entry) -> None:
    """In one step, in leaps, with the noise of its gradient estimated and at a mode: more a minibatch is not used for.

    A rule of dynamics is given the gradient of its own chain, from wherever that comes.
    """
    given = {"params": {"theta": 5.0}, "stepsize": 1e-6, "minibatchSize": 3, "nIters": 12, "seed": 2, "verbose": False}
    given |= entry.settings | ({"nItersOpt": 0} if "nItersOpt" in entry.settings else {})
    run = functools.partial(entry.one_call, linear, {"w": W}, dtype="float64", nChains=3, **given)
    shared, own = run(starts={"theta": [5.0, 6.0, 7.0]}, sharedMinibatch=True), run(starts={"theta": [5.0, 6.0, 7.0]})

    def sums(out: sgmcmc.Draws) -> np.ndarray:
        lp, theta = out.logPosterior, out["theta"]
        return lp / theta if entry.name.startswith("sghmc") else lp[:, 1:] / theta[:, :-1]

    np.testing.assert_allclose(shared["theta"][0], own["theta"][0], rtol=1e-12)
    np.testing.assert_allclose(sums(shared)[0], sums(own)[0], rtol=1e-9)
    for c in (1, 2):
        np.testing.assert_allclose(sums(shared)[c], sums(shared)[0], rtol=1e-9)
        assert (np.abs(sums(own)[c] - sums(own)[0]) > 1e-6).all()
        noise = shared["theta"] - shared["theta"].mean(axis=1, keepdims=True)
        assert (np.abs(noise[c] - noise[0]) > 1e-9).any()  # which is not shared
    assert len(np.unique(np.round(sums(shared)[0], 6))) > 8  # not one minibatch for all iterations


def test_gradients_and_gathered_rows_with_a_shared_minibatch() -> None:
    problem = sparse()
    given = {"stepsize": 1e-3, "minibatchSize": 5, "nIters": 20, "seed": 2, "verbose": False, "gradients": True}
    shared = sgmcmc.sgld(**problem.arguments(), **given, nChains=2, sharedMinibatch=True)
    for name, array in shared.items():
        assert shared.gradients[name].shape == array.shape
    moved = (np.diff(shared["groups"], axis=1) != 0).any(axis=-1)
    np.testing.assert_array_equal(moved[0], moved[1])
    touched = (shared.gradients["groups"] != 0).any(axis=-1)  # [C, T, 200]: the rows that the minibatch gathered
    np.testing.assert_array_equal(touched[0], touched[1])
    assert (touched[0].sum(axis=-1) <= 5).all() and (touched[0][0] != touched[0][1]).any()


def test_a_shared_minibatch_is_for_several_chains() -> None:
    with pytest.raises(ValueError, match="sharedMinibatch of sgld must come with nChains; got nChains=None"):
        sgld(sharedMinibatch=True)
    with pytest.raises(ValueError, match="sharedMinibatch of sgld must be True or False; got 1"):
        sgld(nChains=2, sharedMinibatch=1)
