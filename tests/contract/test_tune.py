"""tune: what it chooses, by what rule, with which budget, and what it refuses.

It uses the inside of the package: it tests the schedule of rungs and the candidates without runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import t

from sgmcmc import Draws, polynomial, sghmc, sghmccv, sgld, sgldcv, sgldSetup, tune
from sgmcmc.draws.stein import discrepancy
from sgmcmc.run.checkpoint import Beginning
from sgmcmc.tuning.candidates import around_rule, setup_of
from sgmcmc.tuning.discrepancy import widths
from sgmcmc.tuning.halving import Given, Group, Piece, Rung, after_rung, sizes_of_rungs
from sgmcmc.tuning.tune import _combinations
from sgmcmc.tuning.tuned import Scored, Tuned

N, VARIANCE = 1000, 1e-3
QUIET: dict[str, Any] = {"verbose": False, "seed": 1}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def normal(start: float = 3.0) -> dict[str, Any]:
    """The mean of normal observations, whose posterior has the variance 1 / N."""
    x = np.random.default_rng(0).normal(3.0, 1.0, size=N)
    return {"logLik": log_lik, "dataset": {"x": x}, "params": {"theta": start}}


# --- what it chooses --------------------------------------------------------------------------------------------------


def exact_gradients(model: dict, draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of the log posterior at draws [T, ...], from all data."""
    integers = model.get("integers", [])
    data = {name: tf.constant(x, tf.int32 if name in integers else tf.float32) for name, x in model["dataset"].items()}

    def gradient(params: dict) -> dict:
        with tf.GradientTape() as tape:
            tape.watch(params)
            value = model["logLik"](params, data) + model["logPrior"](params)
        return tape.gradient(value, params)

    found = tf.function(lambda draws: tf.vectorized_map(gradient, draws), autograph=False)(draws)
    return {name: g.numpy() for name, g in found.items()}


def discrepancies(model: dict, out: Draws, scale: float) -> np.ndarray:
    """Of each chain."""
    n_chains, length = out.nChains or 1, len(out.iterations)
    scores = exact_gradients(model, {name: x.reshape(-1, *x.shape[2:]) for name, x in out.items()})

    def flat(arrays: dict) -> np.ndarray:
        return np.concatenate([arrays[name].reshape(n_chains, length, -1) for name in sorted(out)], axis=2)

    return np.array([discrepancy(x / scale, s * scale) for x, s in zip(flat(out), flat(scores), strict=True)])


def better_than_the_guide(model: dict, tuned: float, guide: float, scale: float, run: dict) -> float:
    """By how many standard errors the discrepancy falls on average, from pairs of chains with the same randomness."""
    run = {"burnIn": run["nIters"] // 2, "thin": run["nIters"] // 200, "verbose": False, "seed": 5, **run}
    found = [discrepancies(model, sgld(stepsize=eps, **model, **run), scale) for eps in (guide, tuned)]
    fall = found[0] - found[1]
    return fall.mean() / (fall.std(ddof=1) / len(fall) ** 0.5)


def mixture() -> dict[str, Any]:
    """Two groups of points in the plane whose centres are less than a standard deviation apart."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 2)) + 0.45 * rng.integers(2, size=(200, 1))

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        squares = [tf.reduce_sum((dataset["x"] - params[name]) ** 2, axis=-1) for name in ("theta1", "theta2")]
        return tf.reduce_sum(tf.reduce_logsumexp(-0.5 * tf.stack(squares), axis=0))

    def log_prior(params: dict) -> tf.Tensor:
        return -0.5 / 10 * sum(tf.reduce_sum(theta**2) for theta in params.values())

    start = {"theta1": np.zeros(2), "theta2": np.full(2, 0.45)}
    return {"logLik": log_lik, "dataset": {"x": x}, "params": start, "logPrior": log_prior, "minibatchSize": 20}


def network() -> dict[str, Any]:
    """A hidden layer of four units for the 8 x 8 digits."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    rng, units = np.random.default_rng(0), 4
    start = {"A": 0.1 * rng.normal(size=(64, units)), "B": 0.1 * rng.normal(size=(units, 10)), "b": np.zeros(10)}

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        logits = tf.tanh(dataset["x"] @ params["A"]) @ params["B"] + params["b"]
        return -tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(dataset["y"], logits))

    def log_prior(params: dict) -> tf.Tensor:
        return -0.5 * sum(tf.reduce_sum(theta**2) for theta in params.values())

    dataset = {"x": x / 16, "y": y}
    return {
        "logLik": log_lik, "dataset": dataset, "params": start, "logPrior": log_prior, "minibatchSize": 100,
        "integers": ["y"],
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:the variance of:UserWarning")
@pytest.mark.parametrize(
    ("make", "passes", "scale", "run"),
    [(mixture, 3000, 0.3, {"nIters": 2000, "nChains": 32}),
     (network, 200, 1.0, {"nIters": 500, "nChains": 4})],
)  # fmt: skip
def test_it_beats_the_stepsize_of_the_guide(make, passes, scale, run):
    """In runs with another seed; if it were no better, a t test would find so with a probability of 1%."""
    model = make()
    n_data = len(model["dataset"]["x"])
    guide = model["minibatchSize"] / n_data**2
    tuned = tune(sgld, nGradients=passes * n_data, eta=9, **model, **QUIET)
    assert tuned.settings["stepsize"] > 1.5 * guide
    errors = better_than_the_guide(model, tuned.settings["stepsize"], guide, scale, run)
    assert errors > t.isf(0.01, run["nChains"] - 1)


def test_the_same_seed_chooses_the_same():
    given = {"stepsize": [1e-4, 1e-6], "minibatchSize": 100, "nGradients": 60_000}
    first, second = (tune(sgld, **given, **normal(), **QUIET) for _ in range(2))
    assert first.settings == second.settings == {"stepsize": 1e-4, "minibatchSize": 100}
    assert first.table.equals(second.table) and first.seed == second.seed == 1


def test_candidates_that_diverge_lose():
    """SGLD on a normal posterior diverges at stepsizes above four times its variance."""
    given = {"stepsize": [10.0, 1e-4, 1.0, 1e-6], "minibatchSize": 100, "nGradients": 200_000, "eta": 2}
    first = tune(sgld, **given, **normal(), **QUIET)
    assert first.settings == {"stepsize": 1e-4, "minibatchSize": 100}
    assert list(first.table) == ["candidate", "stepsize", "minibatchSize", "rung", "gradients", "ksd", "kept"]
    assert list(first.table.candidate) == [0, 1, 2, 3, 1, 3]
    assert list(first.table.rung) == [1, 1, 1, 1, 2, 2]
    assert list(np.isfinite(first.table.ksd)) == [False, True, False, True, True, True]
    assert list(first.table.kept) == [False, True, False, True, True, False]
    # Those that go on have eta times as many gradients, but for what is left over; all have not more than asked for.
    few, many = first.table.gradients[0], first.table.gradients[4]
    assert many == pytest.approx(2 * few, rel=0.05) and 180_000 < first.table.gradients.sum() <= 200_000


def test_minibatches_are_tried_with_all_stepsizes():
    tuned = tune(sgld, stepsize=[1e-4, 1e-6], minibatchSize=[50, 0.1], nGradients=100_000, eta=4, **normal(), **QUIET)
    tried = list(zip(tuned.table.stepsize, tuned.table.minibatchSize, strict=True))
    assert tried == [(1e-4, 50), (1e-6, 50), (1e-4, 0.1), (1e-6, 0.1)]
    assert tuned.table.gradients.max() < 1.1 * tuned.table.gradients.min()  # the same for all
    assert tuned.settings["stepsize"] == 1e-4
    assert repr(tuned).startswith("<tuned sgld: stepsize=0.0001, minibatchSize=")


def test_a_picture_of_what_was_tried():
    candidates = [{"stepsize": eps, "minibatchSize": n} for n in (10, 20) for eps in (1e-3, {"a": 1e-4, "b": 1e-2})]
    judged = [Scored(k, 1, 10, ksd, ksd < 0.4) for k, ksd in enumerate((0.5, 0.1, np.inf, 0.3))]
    judged += [Scored(1, 2, 30, 0.2, True), Scored(3, 2, 30, 0.4, False)]
    axes = Tuned("sgld", candidates, judged, 1).plot()
    assert [ax.get_title("left") for ax in axes] == ["minibatchSize=10", "minibatchSize=20"]
    first, second = ({line.get_label(): line for line in ax.get_lines()} for ax in axes)
    assert set(first) == {"rung 1", "rung 2", "chosen"} and set(second) == {"rung 1", "rung 2", "diverged"}
    assert first["chosen"].get_xydata() == pytest.approx(np.array([[1e-3, 0.2]]))  # of a dict the geometric mean
    assert second["diverged"].get_xdata() == pytest.approx([1e-3])


def test_all_that_diverge_are_an_error_that_says_so():
    with pytest.raises(
        ValueError, match=r"^stepsize of tune must have a value at which the chain does not diverge; got"
    ):
        tune(sgld, stepsize=[1.0, 10.0], minibatchSize=100, nGradients=50_000, **normal(), **QUIET)


def test_control_variates_and_stepsizes_of_each_parameter():
    tuned = tune(
        sgldcv, stepsize=[{"theta": 1e-7}, {"theta": 3e-4}], optStepsize=1e-4, nItersOpt=500, minibatchSize=50,
        nGradients=100_000, **normal(0.0), **QUIET,
    )  # fmt: skip
    assert tuned.settings == {"stepsize": {"theta": 3e-4}, "minibatchSize": 50}


def test_the_preconditioner_that_the_stepsize_is_relative_to_is_among_the_settings():
    given = {"stepsize": [1e-4, 0.3], "minibatchSize": 50, "nGradients": 100_000, "preconditioner": [[1e-3]]}
    tuned = tune(sgldcv, optStepsize=1e-4, nItersOpt=500, **given, **normal(0.0), **QUIET)
    assert tuned.settings == {"stepsize": 0.3, "minibatchSize": 50, "preconditioner": [[1e-3]]}


# --- how it goes ------------------------------------------------------------------------------------------------------


def test_rungs():
    assert sizes_of_rungs(9, 3) == [9, 3]
    assert sizes_of_rungs(13, 3) == [13, 4]
    assert sizes_of_rungs(8, 2) == [8, 4, 2]
    assert sizes_of_rungs(1, 3) == [1]


def test_candidates_have_stepsizes_of_their_own_and_go_on_from_where_they_stand():
    """From a million sds away, the gradient is all that moves a chain: by the factor 1 - eps / 2v in an iteration."""
    model, stepsizes = normal(1000.0), [1e-5, 4e-5]
    sampler = sgldSetup(stepsize=1e-5, minibatchSize=N, **model, seed=1)._sampler
    group = Group(sampler, [{"theta": eps} for eps in stepsizes])
    beginning = Beginning({}, {"estimator": {}, "gathered": {}}, None)
    mean, state, done = model["dataset"]["x"].mean(), None, 0
    for n_iterations in (40, 120):
        given = Given([group], [beginning], Rung(n_iterations * N, 20, N), seed=1)
        state, chains = after_rung(given, Piece(0, 0, [0, 1], state))
        done += n_iterations
        for eps, (x, s) in zip(stepsizes, chains, strict=True):
            expected = mean + (1000 - mean) * (1 - eps / 2 / VARIANCE) ** done
            assert x[-1, 0] == pytest.approx(expected, rel=1e-3)
            assert s[:, 0] == pytest.approx(N * (mean - x[:, 0]), rel=1e-3)


def test_the_width_of_the_posterior_is_found_from_chains_that_are_too_hot_or_too_cold():
    """Sds 1 and 10, from chains with twice and a tenth of the sd, and gradients with noise; to a tenth."""
    rng, sd = np.random.default_rng(0), np.array([1.0, 10.0])
    chains = []
    for wrong in (2.0, 0.1, 1.0):
        x = rng.normal(size=(5000, 2)) * sd * wrong
        chains.append((x, -x / sd**2 + 0.1 * rng.normal(size=x.shape) / sd))
    assert widths(chains) == pytest.approx(sd, rel=0.1)
    flat = (np.zeros((10, 1)), np.zeros((10, 1)))
    assert widths([flat]) == 1  # nothing is known


def test_the_last_rung_decides_unless_all_diverge_in_it():
    candidates = [{"stepsize": eps} for eps in (1.0, 2.0, 3.0)]
    first = [Scored(0, 1, 10, 0.5, True), Scored(1, 1, 10, 0.1, True), Scored(2, 1, 10, 0.7, False)]
    second = [Scored(0, 2, 10, 0.3, True), Scored(1, 2, 10, 0.4, False)]
    assert Tuned("sgld", candidates, first + second, 1).settings == {"stepsize": 1.0}
    lost = [row._replace(ksd=np.inf, kept=False) for row in second]
    assert Tuned("sgld", candidates, first + lost, 1).settings == {"stepsize": 3.0}


# --- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": "sgld"}, r"^sampler of tune must be one of the functions .*sgld, .*; got 'sgld'\.$"),
        ({"sampler": [sgld]}, r"^sampler of tune must be one of the functions .*sgld, "),
        ({"stepsize": []}, r"^stepsize of tune must have at least one value to try; got \[\]\.$"),
        ({"stepsize": [1e-4, -1.0]}, r"^stepsize of tune must be a positive number .*; got -1\.0\.$"),
        ({"stepsize": [{"b": 1e-4}]}, r"^stepsize of \w+ must have the keys of params, \['theta'\]; got keys \['b'\]"),
        ({"stepsize": [polynomial(1e-4, 1, 0.5)]}, r"^stepsize of tune must be a list of numbers, .*; got poly"),
        ({"stepsize": [{"theta": polynomial(1e-4, 1, 0.5)}]}, r"^stepsize of tune must be a list of numbers, .*; got "),
        ({"stepsize": "auto"}, r"^stepsize of tune must be a list of numbers, or of dicts .*; got 'auto'\.$"),
        ({"minibatchSize": [0]}, r"^minibatchSize of sgld must be an integer in \[1, N\] .*; got 0\.$"),
        ({"minibatchSize": []}, r"^minibatchSize of tune must have at least one value to try; got \[\]\.$"),
        ({"nGradients": 100}, r"^nGradients of tune must be an integer of at least \d+, so that .*; got 100\.$"),
        ({"eta": 1}, r"^eta of tune must be an integer of at least 2; got 1\.$"),
        ({"verbose": 1}, r"^verbose of tune must be True or False; got 1\.$"),
        ({"seed": -1}, r"^seed of sgld must be None or an integer"),
        ({"nChains": 4}, r"^nChains of tune must be left out, since each candidate is a chain; got 4\.$"),
        ({"nIters": 100}, r"^nIters of tune must be left out, since nGradients sets how long .*; got 100\.$"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    given = {"sampler": sgld, "stepsize": [1e-4, 1e-5], "minibatchSize": 100, **QUIET, **normal()} | arguments
    with pytest.raises(ValueError, match=message):
        tune(**given)


def test_an_argument_of_another_sampler_is_named():
    with pytest.raises(TypeError, match=r"^tune\(\) got an unexpected keyword argument 'L', which sgld does not have$"):
        tune(sgld, L=5, **normal())


def test_settings_of_the_dynamics_are_tried_in_all_combinations():
    given = {"minibatchSize": 100, "L": [2, 4], "alpha": np.array([0.1, 0.5]), "logPrior": None}
    found = _combinations(given)
    assert [(one["L"], one["alpha"]) for one in found] == [(2, 0.1), (4, 0.1), (2, 0.5), (4, 0.5)]
    tuned = tune(sghmc, stepsize=[1e-5], L=[2, 4], minibatchSize=100, nGradients=80_000, **normal(), **QUIET)
    assert list(tuned.table.L) == [2, 4] and list(tuned.settings) == ["stepsize", "minibatchSize", "L"]


@pytest.mark.parametrize(
    ("sampler", "own", "rule"),
    [
        (sgld, {}, 1e-4),
        (sghmc, {"L": 5}, 2e-6),
        (sgldcv, {"optStepsize": 1e-4}, 1e-4),
        (sghmccv, {"optStepsize": 1e-4}, 1e-5),
    ],
)
def test_stepsizes_by_default_are_around_the_rule_of_the_guide(sampler, own, rule):
    made = setup_of("tune", sampler)(stepsize=1e-6, minibatchSize=100, **normal(), **own)._sampler
    tried = around_rule(made)
    assert len(tried) == 9 and tried[4] == pytest.approx(rule)
    assert tried[0] == pytest.approx(rule / 100) and tried[-1] == pytest.approx(rule * 100)
