"""What comes back: names, shapes, types, R's fields, one trace."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sgmcmc
from tests.catalogue import CATALOGUE, EVERY, Entry, dense
from tests.contract.conftest import N_ITERS, N, Run


def test_the_catalogue_is_complete() -> None:
    lower_case = {name for name in sgmcmc.__all__ if name + "Setup" in sgmcmc.__all__}
    assert {entry.name for entry in EVERY} == lower_case


def test_draws_have_the_shapes_of_the_parameters(run: Run) -> None:
    for name, theta in run.problem.params.items():
        assert run.draws[name].shape == (N_ITERS, *np.shape(theta))
        assert run.draws[name].dtype == np.float32
        assert np.isfinite(run.draws[name]).all()
        assert (run.draws[name][0] != run.draws[name][-1]).any()


def test_fields(run: Run) -> None:
    sampler = run.sampler
    n_data = len(run.problem.dataset["x"])
    assert (sampler.N, sampler.n, sampler.seed) == (n_data, N, 3)
    assert sampler.stepsize == dict.fromkeys(run.problem.params, run.entry.stepsize)
    for name, entry in run.problem.dataset.items():
        np.testing.assert_allclose(sampler.data[name], entry, rtol=1e-6)
    for name, theta in run.problem.params.items():
        assert isinstance(sampler.params[name], tf.Variable)
        assert sampler.params[name].shape == np.shape(theta)
    for field in ("alpha", "L", "a", "paramsOpt", "logPostOptGrad"):
        assert hasattr(sampler, field) == (field in run.entry.fields), field
    for field in set(run.entry.settings) & {"alpha", "a"}:
        assert getattr(sampler, field) == dict.fromkeys(run.problem.params, run.entry.settings[field])
    if "L" in run.entry.fields:
        assert run.entry.settings["L"] == sampler.L
    assert run.entry.name in repr(sampler)


def test_params_compute_in_the_users_own_functions(run: Run) -> None:
    """As R's `-logLik(sgld$params, testset) / n`: eagerly and in a function of the user's own."""
    sampler = run.sampler
    dtypes = {name: tf.int32 if name in run.problem.integers else tf.float32 for name in run.problem.dataset}
    held_out = {name: tf.constant(value[:50], dtypes[name]) for name, value in run.problem.dataset.items()}
    log_loss = tf.function(lambda: -run.problem.logLik(sampler.params, held_out) / 50.0)
    for name, theta in run.problem.params.items():
        sampler.params[name].assign(theta)
    before = log_loss().numpy()
    sess = sgmcmc.initSess(sampler, verbose=False)
    for _ in range(3):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=20)
    assert log_loss().numpy() < before
    np.testing.assert_allclose(log_loss(), -run.problem.logLik(sampler.params, held_out) / 50.0, rtol=1e-5)


def test_the_log_posterior_step_by_step_is_that_of_one_call(run: Run) -> None:
    sampler = run.sampler
    sess = sgmcmc.initSess(sampler, verbose=False)
    assert np.isnan(sampler.estLogPost)
    for made in (1, 3, N_ITERS):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=made - sess.iteration)
        assert sampler.estLogPost == run.draws.logPosterior[made - 1]
        assert repr(sess).startswith(f"<session after {made} iterations: ")
        assert all(f"{name} {np.shape(theta)}" in repr(sess) for name, theta in run.problem.params.items())


def test_params_hold_the_start_before_the_session_begins() -> None:
    start = {"theta": [[1.0, 2.0]]}
    sampler = sgmcmc.sgldSetup(
        lambda params, dataset: -tf.reduce_sum((dataset["x"] - params["theta"]) ** 2),
        {"x": np.zeros((20, 2))},
        start,
        1e-3,
        minibatchSize=5,
    )
    np.testing.assert_array_equal(sampler.params["theta"], start["theta"])
    with pytest.raises(ValueError, match="estLogPost needs a session; call initSess first"):
        _ = sampler.estLogPost


@pytest.mark.parametrize("entry", [e for e in CATALOGUE if "paramsOpt" in e.fields], ids=lambda e: e.name)
def test_control_variates_start_at_the_mode_with_the_exact_gradient(entry: Entry) -> None:
    problem = dense()
    sampler = entry.setup(
        stepsize=entry.stepsize, seed=1, verbose=False, minibatchSize=N, **problem.arguments(), **entry.settings
    )
    sess = sgmcmc.initSess(sampler, verbose=False)
    mode = sgmcmc.getParams(sampler, sess)
    data = {name: tf.constant(value, tf.float32) for name, value in problem.dataset.items()}
    with tf.GradientTape() as tape:
        value = problem.logLik(sampler.paramsOpt, data) + problem.logPrior(sampler.paramsOpt)
    exact = tape.gradient(value, sampler.paramsOpt)
    for name in problem.params:
        np.testing.assert_array_equal(mode[name], sampler.paramsOpt[name])
        np.testing.assert_allclose(sampler.logPostOptGrad[name], exact[name], rtol=1e-3, atol=1e-3)
        assert (mode[name] != 0).any()
    from_mode = entry.setup(
        stepsize=entry.stepsize,
        seed=1,
        verbose=False,
        minibatchSize=N,
        **problem.arguments() | {"params": mode},
        **entry.settings | {"nItersOpt": 0},
    )
    sess_from_mode = sgmcmc.initSess(from_mode, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=10)
    sgmcmc.sgmcmcStep(from_mode, sess_from_mode, nSteps=10)
    for name, theta in sgmcmc.getParams(sampler, sess).items():
        np.testing.assert_array_equal(theta, sgmcmc.getParams(from_mode, sess_from_mode)[name])


def test_the_users_function_is_traced_once_for_all_blocks() -> None:
    problem, calls = dense(), []

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        calls.append(1)
        return problem.logLik(params, dataset)

    sampler = sgmcmc.sgldSetup(log_lik, problem.dataset, problem.params, 1e-3, minibatchSize=N)
    sess = sgmcmc.initSess(sampler)
    sgmcmc.sgmcmcStep(sampler, sess)
    traced = len(calls)
    for size in (1, 2, 50, 3000):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=size)
    sgmcmc.sgmcmcStep(sampler, sgmcmc.initSess(sampler))
    assert len(calls) == traced


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_constant_schedule_is_the_number(dtype: str) -> None:
    """To the last bit: a Python number that passed through float32 would differ in float64."""
    problem = dense()
    settings = {"dtype": dtype, "minibatchSize": N, "nIters": 20, "seed": 1, "verbose": False}
    number, schedule = (
        sgmcmc.sgld(problem.logLik, problem.dataset, problem.params, h, **settings) for h in (1e-3, lambda t: 1e-3)
    )
    exact = sgmcmc.sgld(problem.logLik, problem.dataset, problem.params, lambda t: 0 * t + 1e-3, **settings)
    for name, array in number.items():
        np.testing.assert_array_equal(array, schedule[name])
        np.testing.assert_allclose(array, exact[name], rtol=1e-12 if dtype == "float64" else 1e-5)


def test_float64() -> None:
    problem = dense()
    out = sgmcmc.sgld(
        problem.logLik, problem.dataset, problem.params, 1e-3, dtype="float64", minibatchSize=N, nIters=50, seed=1,
        verbose=False,
    )  # fmt: skip
    single = sgmcmc.sgld(
        problem.logLik, problem.dataset, problem.params, 1e-3, minibatchSize=N, nIters=50, seed=1, verbose=False
    )
    for name, array in out.items():
        assert array.dtype == np.float64
        np.testing.assert_allclose(array, single[name], rtol=1e-3, atol=1e-4)


def test_terms_and_sum_give_the_same_chain() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    for subsampling in ("uniform", "withReplacement", rng.uniform(0.5, 2.0, 100)):
        chains = [
            sgmcmc.sgld(
                lambda params, dataset, reduce=reduce: reduce(-0.5 * (dataset["x"] - params["theta"]) ** 2),
                {"x": x},
                {"theta": 0.0},
                1e-3,
                minibatchSize=10,
                nIters=30,
                seed=1,
                verbose=False,
                subsampling=subsampling,
            )["theta"]
            for reduce in (tf.reduce_sum, tf.identity)
        ]
        np.testing.assert_allclose(chains[0], chains[1], rtol=1e-4, atol=1e-6)


def test_datasets_of_every_kind_give_the_same_chain() -> None:
    y = np.arange(60) % 2
    x = np.linspace(-1, 1, 60).astype(np.float32)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        p = tf.sigmoid(params["beta"] * dataset["x"])
        return tf.reduce_sum(dataset["y"] * tf.math.log(p) + (1 - dataset["y"]) * tf.math.log(1 - p))

    frame = pd.DataFrame({"y": y})
    kinds = [
        {"x": x, "y": y},
        {"x": x.tolist(), "y": y.tolist()},
        {"x": pd.Series(x), "y": frame["y"]},
        {"x": tf.constant(x), "y": y.astype(bool)},
        {"x": x.astype(np.float64), "y": y.astype(np.uint8)},
    ]
    chains = [sgmcmc.sgld(log_lik, data, {"beta": 0}, 1e-2, None, 10, 20, False, 1)["beta"] for data in kinds]
    for other in chains[1:]:
        np.testing.assert_array_equal(chains[0], other)
    as_frame = sgmcmc.sgldSetup(
        lambda params, dataset: -tf.reduce_sum((dataset["z"] - params["m"]) ** 2),
        {"z": pd.DataFrame({"a": y, "b": x})},
        {"m": np.zeros(2)},
        1e-3,
        minibatchSize=10,
    )
    assert as_frame.data["z"].shape == (60, 2)


def test_pandas_entries_have_one_index() -> None:
    """Rows with different labels belong to different observations; by position they are combined only if asked."""
    x = pd.Series(np.arange(60.0))
    y = x.sample(frac=1.0, random_state=0)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["y"] - params["m"] * dataset["x"]) ** 2)

    given = {"params": {"m": 0.0}, "stepsize": 1e-6, "minibatchSize": 10}
    with pytest.raises(
        ValueError, match=r"dataset of sgld must have entries with one pandas index; got others for 'y'"
    ):
        sgmcmc.sgldSetup(log_lik, {"x": x, "y": y}, **given)
    for aligned in (y.to_numpy(), y.loc[x.index], y.reset_index(drop=True)):
        sgmcmc.sgldSetup(log_lik, {"x": x, "y": aligned}, **given)


def test_schedules_stand_where_numbers_stand() -> None:
    problem = dense()
    constant = sgmcmc.sgld(**problem.arguments(), stepsize=1e-3, minibatchSize=N, nIters=30, seed=1, verbose=False)
    flat = sgmcmc.polynomial(1e-3, a=10, b=0)
    same = sgmcmc.sgld(**problem.arguments(), stepsize=flat, minibatchSize=N, nIters=30, seed=1, verbose=False)
    mixed = dict.fromkeys(problem.params, 1e-3) | {"scalar": sgmcmc.polynomial(1e-3, a=1, b=1)}
    falling = sgmcmc.sgld(**problem.arguments(), stepsize=mixed, minibatchSize=N, nIters=30, seed=1, verbose=False)
    for name in problem.params:
        np.testing.assert_allclose(constant[name], same[name], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(constant[name][0], falling[name][0], rtol=1e-5)
    early, late = (np.abs(np.diff(falling["scalar"][part])).mean() for part in (slice(0, 5), slice(25, 30)))
    assert late < early
