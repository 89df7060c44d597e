"""Estimators and minibatches crossed with dynamics: chains, storage, stepping; and what does not go together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import Stationary, adaptive, controlVariates, preferential, saga, svrg
from tests.catalogue import CATALOGUE, Entry

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 2)) * [1.0, 3.0]
Y = (RNG.random(N) < 1 / (1 + np.exp(-X @ [1.0, -0.5] - 0.3))).astype(float)
LENGTH, FIRST = 23, 11


def at_mode() -> np.ndarray:
    """The level and the slopes, by Newton's method."""
    design, b = np.hstack([np.ones((N, 1)), X]), np.zeros(3)
    for _ in range(20):
        s = 1 / (1 + np.exp(-design @ b))
        b += np.linalg.solve((design.T * s * (1 - s)) @ design + np.eye(3), design.T @ (Y - s) - b)
    return b


DATASET, PARAMS = {"X": X, "y": Y}, {"slope": at_mode()[1:], "level": at_mode()[0]}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    logit = tf.linalg.matvec(dataset["X"], params["slope"]) + params["level"]
    return tf.reduce_sum(dataset["y"] * logit - tf.nn.softplus(logit))


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * (tf.reduce_sum(params["slope"] ** 2) + params["level"] ** 2)


def mode() -> controlVariates:
    return controlVariates(nItersOpt=0)  # params are the mode


VARIANTS: dict[str, dict[str, Any]] = {
    "saga": {"gradient": saga()},
    "saga, repeats": {"gradient": saga(), "subsampling": "withReplacement"},
    "svrg": {"gradient": svrg(every=5)},
    "preferential": {"subsampling": preferential()},
    "preferential, control variates": {"gradient": mode(), "subsampling": preferential(floor=0.2)},
    "adaptive": {"gradient": mode(), "minibatchSize": adaptive(pilot=40)},
    "adaptive, preferential": {
        "gradient": mode(),
        "subsampling": preferential(),
        "minibatchSize": adaptive(0.25 * (1 + (X**2).sum(axis=1)), threshold=20.0),
    },
}
DYNAMICS = [entry for entry in CATALOGUE if not entry.name.endswith("cv")]


def arguments(entry: Entry, variant: str) -> dict[str, Any]:
    given = {"logLik": log_lik, "dataset": DATASET, "params": PARAMS, "logPrior": log_prior, "stepsize": 1e-2 / 4}
    return given | {"minibatchSize": 20, "seed": 5, "nChains": 2} | entry.settings | VARIANTS[variant]


# Each estimator and each minibatch with a plain step (sgld) or with what differs in a step: leaps (sghmc), the noise of
# the gradient (ccadl), a place of the gradient's own (baoab, badodab, ubu). The others differ in their memory alone.
OF_DYNAMICS = {
    "sgld": ("saga", "preferential", "adaptive"),
    "sghmc": ("saga, repeats", "svrg", "adaptive, preferential"),
    "ccadl": ("saga, repeats", "svrg", "preferential, control variates"),
    "baoab": ("adaptive, preferential",),
    "badodab": ("svrg",),
    "ubu": ("saga, repeats",),
    "barker": ("saga, repeats",),
    "sgzigzag": ("svrg",),
    "samadams": ("svrg",),
    "sgnht": ("adaptive, preferential",),
    "psgld": ("saga, repeats",),
    "sample": ("svrg",),
}
CROSSED = [(entry, variant) for entry in DYNAMICS for variant in OF_DYNAMICS[entry.name]]


@pytest.mark.parametrize(("entry", "variant"), CROSSED, ids=[f"{entry.name}: {variant}" for entry, variant in CROSSED])
def test_a_chain_is_the_same_resumed_from_a_store_and_step_by_step(entry: Entry, variant: str, tmp_path: Path) -> None:
    """Each of them interrupted, at different iterations, and by turns in steps of one and of several."""
    given = arguments(entry, variant)
    first = entry.one_call(**given, nIters=FIRST, verbose=False, storage=tmp_path / "run.zarr")
    whole = entry.one_call(**given, nIters=LENGTH, verbose=False, storage=tmp_path / "run.zarr", resume=True)
    for name, theta in whole.items():
        assert theta.shape[:2] == (2, LENGTH) and np.isfinite(theta).all()
        np.testing.assert_array_equal(theta[:, :FIRST], first[name])
    sampler = entry.setup(**given)
    sess = sgmcmc.initSess(sampler, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=7)
    sgmcmc.saveSess(sampler, sess, tmp_path / "chain.sess")
    again = entry.setup(**given)
    sess = sgmcmc.restoreSess(again, tmp_path / "chain.sess")
    for size in (*[1] * (LENGTH - 7 - 9), 9):
        sgmcmc.sgmcmcStep(again, sess, nSteps=size)
        for name, theta in sgmcmc.getParams(again, sess).items():
            np.testing.assert_array_equal(theta, whole[name][:, sess.iteration - 1])


def test_a_chain_in_memory_is_that_of_a_store(tmp_path: Path) -> None:
    """Also what is recorded beside the draws; neither storage knows where draws come from."""
    given = arguments(CATALOGUE[0], "adaptive")
    whole = sgmcmc.sgld(**given, nIters=LENGTH, verbose=False)
    sgmcmc.sgld(**given, nIters=FIRST, verbose=False, storage=tmp_path / "run.zarr")
    resumed = sgmcmc.sgld(**given, nIters=LENGTH, verbose=False, storage=tmp_path / "run.zarr", resume=True)
    for name, values in (whole | whole.sampleStats).items():
        np.testing.assert_array_equal((resumed | resumed.sampleStats)[name], values)


def position(n_steps: int, **given: Any) -> dict[str, np.ndarray]:
    """Where sgld stands after so many iterations."""
    sampler = sgmcmc.sgldSetup(**given)
    sess = sgmcmc.initSess(sampler, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=n_steps)
    return sgmcmc.getParams(sampler, sess)


def test_the_number_of_chains_does_not_change_a_chain() -> None:
    for variant in ("saga, repeats", "svrg", "adaptive"):
        given = arguments(CATALOGUE[0], variant)
        if variant == "adaptive":  # a pilot of two chains goes further than one
            given["minibatchSize"] = adaptive(np.ones(N), threshold=10.0)
        two, one = position(40, **given), position(40, **given | {"nChains": None})
        np.testing.assert_allclose(two["slope"][0], one["slope"], rtol=1e-4, atol=1e-5)


def test_adaptive_sizes_are_those_of_the_bound() -> None:
    """From the positions themselves: n = |theta - mode|^2 sum L_i^2 N / V_0 in parts of 10, for the iteration after."""
    V0 = 4000.0
    constants = 0.25 * (1 + (X**2).sum(axis=1))
    given = arguments(CATALOGUE[0], "adaptive") | {"minibatchSize": adaptive(constants, threshold=V0, pilot=40)}
    sampler = sgmcmc.sgldSetup(**given)
    sgmcmc.initSess(sampler, verbose=False)
    mode = {name: value.numpy() for name, value in sampler.paramsOpt.items()}
    out = sgmcmc.sgld(**given, nIters=200, verbose=False)
    square = ((out["slope"] - mode["slope"]) ** 2).sum(axis=-1) + (out["level"] - mode["level"]) ** 2
    wanted = square[:, :-1] * (constants**2).sum() * N / V0
    parts = np.clip(np.ceil(wanted / 10), 1, N // 10)
    found = out.sampleStats["minibatch_size"][:, 1:]
    assert (found == 10 * parts).mean() > 0.99  # but for rounding at the edges
    assert len(np.unique(found)) > 5
    np.testing.assert_array_equal(out.sampleStats["observations"], np.cumsum(out.sampleStats["minibatch_size"], axis=1))


def test_leaps_count() -> None:
    given = arguments(CATALOGUE[1], "adaptive") | {"minibatchSize": adaptive(np.ones(N), threshold=1e9, pilot=150)}
    out = sgmcmc.sghmc(**given, nIters=5, verbose=False)  # so far from the bound that one part is always enough
    np.testing.assert_array_equal(out.sampleStats["observations"][:, -1], 5 * CATALOGUE[1].settings["L"] * 32)


def test_the_weights_of_control_variates_are_those_of_the_hessians() -> None:
    """tr(H_i Sigma H_i^T), here sigma_i^2 (1 - sigma_i)^2 |x_i|^2 x_i^T Sigma x_i, within the noise of 8 draws."""
    given = arguments(CATALOGUE[0], "preferential, control variates") | {"subsampling": preferential(floor=0.0)}
    sampler = sgmcmc.sgldSetup(**given | {"gradient": controlVariates()})
    prepared = sampler._sampler.prepare(verbose=False)
    p = 1 / prepared.constants["minibatch"]["inverse"].numpy()
    mode = {name: theta.numpy() for name, theta in prepared.mode.params.items()}
    design = np.hstack([np.ones((N, 1)), X])
    s = 1 / (1 + np.exp(-(X @ mode["slope"] + mode["level"])))
    w = s * (1 - s)
    sigma = np.linalg.inv((design * w[:, None]).T @ design + np.eye(3))
    exact = w * np.sqrt((design**2).sum(axis=1) * np.einsum("ij,jk,ik->i", design, sigma, design))
    ratio = p / (exact / exact.sum())
    assert np.abs(np.log(ratio)).max() < 1.5 and np.abs(np.log(ratio)).mean() < 0.35
    # What the noise of the draws costs: the variance of the estimate, over that with the exact weights.
    assert 1 <= (exact**2 / p).sum() / exact.sum() ** 2 < 1.12
    assert np.corrcoef(p, exact)[0, 1] > 0.85
    of_norms = np.abs(Y - s) * np.sqrt((design**2).sum(axis=1))
    assert np.corrcoef(p, of_norms)[0, 1] < 0.9


def test_observations_without_a_term_at_the_mode_are_drawn_all_the_same() -> None:
    """Those of a penalty that is not active at the mode: without them the posterior would be another one."""
    x = np.where(np.arange(200) % 2 == 0, np.random.default_rng(0).normal(size=200), np.nan)
    kinked, x = np.isnan(x), np.nan_to_num(x)

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        smooth = -0.5 * (dataset["x"] - params["theta"]) ** 2
        return tf.where(dataset["kinked"] > 0, -10.0 * tf.nn.relu(params["theta"] - 0.5) ** 2, smooth)

    sampler = sgmcmc.sgldSetup(
        log_lik, {"x": x, "kinked": kinked * 1.0}, {"theta": 0.0}, minibatchSize=20, seed=1,
        subsampling=preferential(floor=0.0),
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"preferential\(floor=0\) would never draw 100 of 200 observations"):
        prepared = sampler._sampler.prepare(verbose=False)
    p = 1 / prepared.constants["minibatch"]["inverse"].numpy()
    np.testing.assert_allclose(p[kinked], p[kinked][0], rtol=1e-5)
    assert 0.05 * p.mean() < p[kinked][0] < 0.2 * p.mean()


def test_the_weights_of_plain_gradients_are_their_norms_at_the_mode() -> None:
    given = arguments(CATALOGUE[0], "preferential") | {"subsampling": preferential(floor=0.25)}
    prepared = sgmcmc.sgldSetup(**given)._sampler.prepare(verbose=False)
    mode = {name: theta.numpy() for name, theta in prepared.mode.params.items()}
    s = 1 / (1 + np.exp(-(X @ mode["slope"] + mode["level"])))
    norms = np.abs(Y - s) * np.sqrt(1 + (X**2).sum(axis=1))
    expected = 0.75 * norms / norms.sum() + 0.25 / N
    np.testing.assert_allclose(1 / prepared.constants["minibatch"]["inverse"].numpy(), expected, rtol=1e-4)


DENSE = np.array([[0.2, 0.1, 0.0], [0.1, 3.0, 0.4], [0.0, 0.4, 0.1]])


@pytest.mark.parametrize("given", [DENSE, "diagonal"], ids=["dense", "diagonal"])
def test_the_weights_are_norms_in_the_coordinates_of_the_preconditioner(given: Any) -> None:
    """|A^T t_i|^2 = t_i^T M t_i with M = A A^T, by level and slopes; "diagonal" is the curvature at the mode."""
    settings = arguments(CATALOGUE[0], "preferential") | {"subsampling": preferential(floor=0.0)}
    prepared = sgmcmc.sgldSetup(**settings, preconditioner=given)._sampler.prepare(verbose=False)
    at = prepared.mode.params
    design = np.hstack([np.ones((N, 1)), X])
    s = 1 / (1 + np.exp(-design @ np.append(at["level"], at["slope"])))
    M = np.diag(1 / (s * (1 - s) @ design**2 + 1)) if isinstance(given, str) else given
    terms = (Y - s)[:, None] * design
    norms = np.sqrt(np.einsum("ij,jk,ik->i", terms, M, terms))
    np.testing.assert_allclose(
        1 / prepared.constants["minibatch"]["inverse"].numpy(), norms / norms.sum(), rtol=1e-3, atol=1e-6
    )


def test_terms_that_are_not_finite_are_not_weighed() -> None:
    """Draws around the mode of a variance that is given as it is are negative now and then."""
    x = np.array([2.0, 1.0] + [0.0] * 3)

    def of_root(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["x"] - tf.sqrt(params["variance"])) ** 2)

    given = {"gradient": controlVariates(), "subsampling": preferential(), "minibatchSize": 2, "seed": 1}
    with pytest.raises(
        ValueError, match=r"logLik must have finite gradients around the mode, .*'variance': 'positive'"
    ):
        sgmcmc.sgld(of_root, {"x": x}, {"variance": 0.5}, 1e-4, nIters=5, verbose=False, **given)


def test_svrg_has_ten_passes_between_full_gradients_whatever_the_leaps() -> None:
    for entry in (CATALOGUE[0], CATALOGUE[1]):
        sampler = entry.setup(**arguments(entry, "svrg") | {"gradient": svrg()})
        leaps = entry.settings.get("L", 1)
        assert sampler._sampler.settings["every"] == 10 * N // (20 * leaps)


def found_stepsize(**given: Any) -> float:
    """That of "auto"."""
    sampler = sgmcmc.sgldSetup(**given, seed=1)
    sgmcmc.initSess(sampler, verbose=False)
    return sampler.expected["stepsize"]


def test_an_automatic_stepsize_is_larger_with_less_noise() -> None:
    given = {"logLik": log_lik, "dataset": DATASET, "params": PARAMS, "logPrior": log_prior, "minibatchSize": 4}
    found = {
        name: found_stepsize(**given, **more)
        for name, more in {
            "plain": {},
            "preferential": {"subsampling": preferential()},
            "svrg": {"gradient": svrg()},
            "control variates": {"gradient": controlVariates()},
            "both": {"gradient": controlVariates(), "subsampling": preferential()},
        }.items()
    }
    assert found["plain"] < found["preferential"] < found["svrg"] < found["control variates"] < found["both"]


def gathered(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.gather(params["level"], dataset["group"])) ** 2)


def test_saga_and_svrg_move_all_rows_together() -> None:
    data = {"y": Y, "group": np.arange(N) % 5}
    for gradient in (saga(), svrg(every=3)):
        out = sgmcmc.sgld(
            gathered, data, {"level": np.zeros(5)}, 1e-3, minibatchSize=10, nIters=20, integers=["group"],
            gradient=gradient, verbose=False, seed=1,
        )  # fmt: skip
        assert (np.diff(out["level"], axis=0) != 0).all()


@pytest.mark.parametrize("variant", ["saga", "svrg", "preferential"])
def test_data_on_disk_give_the_same_chain(variant: str, tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    given = arguments(CATALOGUE[0], variant) | {"nChains": None}
    on_disk = {"X": np.load(tmp_path / "X.npy", mmap_mode="r"), "y": Y}
    here, there = position(12, **given), position(12, **given | {"dataset": on_disk})
    np.testing.assert_allclose(there["slope"], here["slope"], rtol=1e-5)
    with pytest.raises(ValueError, match="minibatchSize of sgld must be a number for data that are not in memory"):
        sgmcmc.sgldSetup(**arguments(CATALOGUE[0], "adaptive") | {"dataset": on_disk})


def batch_mean(params: dict, dataset: dict) -> tf.Tensor:
    return log_lik(params, dataset) / tf.cast(tf.shape(dataset["y"])[0], tf.float32)


def with_prior(params: dict, dataset: dict) -> tf.Tensor:
    return log_lik(params, dataset) + log_prior(params)


def two() -> sgmcmc.Dynamics:
    """A rule that tells where it settles, another each time."""
    return sgmcmc.Dynamics(
        lambda theta, memory, given: (theta + given.noise, memory),
        stationary=lambda eps, precision, noise: Stationary(1 / precision, precision),
    )


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("sgld", {"gradient": "saga"}, "gradient of sgld must be None (the plain estimate), controlVariates(), saga(),"),
    ("sgld", {"gradient": svrg(every=0)}, "every of svrg"),
    ("sgld", {"gradient": saga(), "logLik": with_prior}, "logLik of sgld must be a sum over the observations, for"),
    ("sgld", {"subsampling": preferential(), "logLik": with_prior}, "logLik of sgld must be a sum over the"),
    ("sgldcv", {"minibatchSize": adaptive(np.ones(3))}, "lipschitz of adaptive of sgldcv must give one number for"),
    ("sgld", {"subsampling": preferential(floor=1.5)}, "floor of preferential of sgld must be a number from 0 to 1"),
    ("sgld", {"subsampling": preferential(weights=np.ones(3))}, "subsampling of sgld must give one weight for each of"),
    ("sgld", {"subsampling": preferential(weights=-np.ones(N))}, "subsampling of sgld must give positive finite"),
    ("sgld", {"gradient": saga(), "subsampling": "reshuffled"},
     "subsampling of sgld must draw each minibatch afresh, for saga(); got 'reshuffled'"),
    ("sgld", {"subsampling": np.ones(N), "logLik": with_prior}, "logLik of sgld must be a sum over the observations"),
    ("sample", {"stepsize": "auto", "dynamics": {"slope": two(), "level": two()}},
     "stepsize of sample must be given if parameters have different dynamics; got 'auto'"),
    ("sgld", {"minibatchSize": adaptive()}, "minibatchSize of sgld must be a number without control variates"),
    ("sgld", {"minibatchSize": adaptive(), "gradient": svrg()}, "minibatchSize of sgld must be a number without"),
    ("sgldcv", {"minibatchSize": adaptive(pilot=0)}, "pilot of adaptive of sgldcv must be an integer in [1, N] or"),
    ("sgldcv", {"minibatchSize": adaptive(threshold=1.0)}, "lipschitz of adaptive of sgldcv must be given with a"),
    ("sgldcv", {"minibatchSize": adaptive(np.ones(N), -1.0)}, "threshold of adaptive of sgldcv must be a positive"),
    ("sgldcv", {"minibatchSize": adaptive(np.ones(2), 1.0)}, "lipschitz of adaptive of sgldcv must give one number"),
    ("sgldcv", {"minibatchSize": adaptive(-np.ones(N), 1.0)}, "lipschitz of adaptive of sgldcv must give finite"),
    ("sgldcv", {"minibatchSize": adaptive(pilot=20), "subsampling": "reshuffled"},
     "subsampling of sgldcv must draw each minibatch afresh, for an adaptive size; got 'reshuffled'"),
    ("sgldcv", {"minibatchSize": adaptive(pilot=20), "stepsize": "auto"},
     "stepsize of sgldcv must be a number for minibatches of adaptive size; got 'auto'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "sentence"), BAD, ids=[f"{b[0]}: {b[2][:50]}" for b in BAD])
def test_what_does_not_go_together_is_refused_at_set_up(name: str, changes: dict[str, Any], sentence: str) -> None:
    given = {"logLik": log_lik, "dataset": DATASET, "params": PARAMS, "stepsize": 1e-3, "minibatchSize": 20}
    with pytest.raises(ValueError, match=re.escape(sentence)):
        getattr(sgmcmc, name + "Setup")(**given | changes)


def test_a_table_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Little:
        available = 1e4

    monkeypatch.setattr(psutil, "virtual_memory", Little)
    with pytest.raises(MemoryError, match=r"gradient of sgld must fit into memory; got saga\(\), whose tables of 200"):
        sgmcmc.sgldSetup(log_lik, DATASET, PARAMS, 1e-3, minibatchSize=20, gradient=saga(), nChains=3)


def test_a_mean_over_the_observations_is_warned_of() -> None:
    given = {"dataset": DATASET, "params": PARAMS, "stepsize": 1e-3, "minibatchSize": 20}
    with pytest.warns(UserWarning, match="logLik of sgld looks like a mean over the observations"):
        sgmcmc.sgldSetup(batch_mean, **given)


def column(params: dict, dataset: dict) -> tf.Tensor:
    """With y as a column, whose difference to the row of means is a matrix."""
    return -0.5 * tf.reduce_sum((dataset["y"][:, None] - tf.linalg.matvec(dataset["X"], params["slope"])) ** 2)


def of_all(params: dict, dataset: dict) -> tf.Tensor:
    """With the user's own arrays in place of the minibatch."""
    return log_lik(params, {name: tf.constant(x, tf.float32) for name, x in DATASET.items()})


@pytest.mark.parametrize("function", [with_prior, column, of_all])
@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_no_sum_is_warned_of(function: Any, on_disk: bool, tmp_path: Path) -> None:
    dataset = DATASET
    if on_disk:
        np.save(tmp_path / "X.npy", X)
        dataset = DATASET | {"X": np.load(tmp_path / "X.npy", mmap_mode="r")}
    params = PARAMS if function is not column else {"slope": PARAMS["slope"]}
    with pytest.warns(
        UserWarning, match="logLik of sgld should be a sum over the observations; got one whose gradient"
    ):
        sgmcmc.sgldSetup(function, dataset, params, 1e-3, minibatchSize=20)


@pytest.mark.parametrize("n_data", [1, 2, 3, 9])
def test_few_observations_have_halves(n_data: int, recwarn: pytest.WarningsRecorder) -> None:
    """None is empty, where a function may fail."""

    def logs(params: dict, dataset: dict) -> tf.Tensor:
        tf.debugging.assert_greater(dataset["y"].shape[0], 0)
        return log_lik(params, dataset)

    some = {name: entry[:n_data] for name, entry in DATASET.items()}
    sgmcmc.sgldSetup(logs, some, PARAMS, 1e-3, minibatchSize=1)
    assert not recwarn.list
    sgmcmc.sgldSetup(logs, some, PARAMS, 1e-3, minibatchSize=1, subsampling=preferential(weights=np.ones(n_data)))


def test_a_sum_whose_terms_cancel_is_one(recwarn: pytest.WarningsRecorder) -> None:
    """At 0 the gradients of these observations add up to nothing but rounding."""
    x = np.tile([0.3, -0.3, 0.1, -0.1], 50)

    def odd(params: dict, dataset: dict) -> tf.Tensor:
        return tf.reduce_sum(dataset["x"] * (params["m"] + params["m"] ** 3))

    sgmcmc.sgldSetup(odd, {"x": x}, {"m": 0.0}, 1e-3, minibatchSize=20)
    assert not recwarn.list


def test_tune_tries_no_estimator_that_depends_on_where_a_chain_has_been() -> None:
    for changes in ({"gradient": saga()}, {"gradient": svrg()}, {"minibatchSize": adaptive()}):
        with pytest.raises(ValueError, match=r"of tune must not be (saga|svrg|adaptive), since its noise depends on"):
            sgmcmc.tune(sgmcmc.sgld, log_lik, DATASET, PARAMS, [1e-3], **changes, verbose=False)


def test_the_noise_of_saga_is_there_even_where_all_observations_curve_alike() -> None:
    """Of a normal mean: N^2/n (2 sigma^2) with sigma^2 = 1/N, though control variates have none at all."""
    x = RNG.normal(size=N)

    def mean(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum((dataset["x"] - params["m"]) ** 2)

    given = {"logLik": mean, "dataset": {"x": x}, "params": {"m": 0.0}, "minibatchSize": 1, "preconditioner": None}
    found = [found_stepsize(**given, gradient=gradient) for gradient in (controlVariates(), saga())]
    assert found[1] < 0.9 * found[0]


def test_draws_of_collect_are_not_taken_for_the_parameters() -> None:
    out = sgmcmc.sgld(
        log_lik, DATASET, PARAMS, 1e-3, minibatchSize=20, nIters=60, verbose=False, seed=1, gradients=True,
        collect=lambda params: {name: tf.exp(x) for name, x in params.items()},
    )  # fmt: skip
    for judge in (sgmcmc.diagnostics.ksd, sgmcmc.diagnostics.zvControlVariates, lambda out: out.ksd()):
        with pytest.raises(ValueError, match="those of collect"):
            judge(out)
