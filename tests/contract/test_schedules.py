"""Stepsizes that change, draws weighted by them, and the temperature."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import badodab, baoab, ccadl, checkStepsize, cyclical, initSess, polynomial, sghmc, sgld, sgldcvSetup, sgnht
from sgmcmc.diagnostics import fullGradients

DATASET = {"x": np.random.default_rng(0).normal(1.0, 1.0, size=200)}
CYCLE = cyclical(1e-3, cycleLength=10, explorationFraction=0.4)


def logLik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def logPrior(params):
    return -0.5 * params["theta"] ** 2 - 0.5 * params["other"] ** 2


def run(sampler=sgld, **changed):
    given = {"minibatchSize": 20, "nIters": 40, "seed": 2, "verbose": False}
    return sampler(logLik, DATASET, {"theta": 0.0, "other": 1.0}, logPrior=logPrior, **given | changed)


def test_cyclical_is_a_cosine_again_and_again():
    k = np.arange(25)
    eps = np.array([float(CYCLE(tf.constant(i, tf.float64))) for i in k])
    np.testing.assert_allclose(eps, 1e-3 / 2 * (np.cos(np.pi * (k % 10) / 10) + 1), rtol=1e-12)
    explores = [bool(CYCLE.exploring(tf.constant(i, tf.float64))) for i in k]
    np.testing.assert_array_equal(explores, k % 10 < 4)


@pytest.mark.parametrize("sampler", [sgld, sghmc])
def test_no_noise_is_added_while_a_schedule_explores(sampler):
    """With all data a chain without noise climbs to the mode, and both chains alike from the same place."""
    exploring = cyclical(1e-3, cycleLength=20, explorationFraction=0.5)
    out = run(sampler, stepsize={"theta": exploring, "other": 1e-3}, minibatchSize=200, nChains=2, nIters=20)
    np.testing.assert_array_equal(out.sampleStats["exploring"][0, :, 1], np.arange(20) < 10)  # by name: other, theta
    assert np.isnan(out.sampleStats["exploring"][..., 0]).all()
    np.testing.assert_allclose(out["theta"][0, :10], out["theta"][1, :10], rtol=1e-5)
    assert (np.abs(out["theta"][0, 10:] - out["theta"][1, 10:]) > 0).all()
    assert (np.abs(out["other"][0] - out["other"][1]) > 0).all()


@pytest.mark.parametrize("stepsize", [CYCLE, polynomial(1e-3, 5, 0.5)])
def test_weighted_summary(stepsize):
    out = run(stepsize={"theta": stepsize, "other": 1e-3}, nChains=2)
    weights = np.array([float(stepsize(tf.constant(k, tf.float64))) for k in range(40)])
    if stepsize is CYCLE:
        weights *= np.arange(40) % 10 >= 4
    w, x = np.tile(weights, 2) / weights.sum() / 2, out["theta"].astype(float).ravel()
    of_other = np.tile(weights > 0, 2) / (weights > 0).sum() / 2  # its stepsize is constant, but theta explores
    row = out.summary(weighted=True).loc["theta"]
    np.testing.assert_allclose(row["mean"], w @ x, rtol=1e-5)
    np.testing.assert_allclose(row["sd"], np.sqrt(w @ (x - w @ x) ** 2), rtol=1e-4)
    order = np.argsort(x)
    np.testing.assert_allclose(row["95%"], x[order][np.searchsorted(np.cumsum(w[order]), 0.95)], rtol=1e-5)
    other = out.summary(weighted=True).loc["other"]
    np.testing.assert_allclose(other["mean"], of_other @ out["other"].astype(float).ravel(), rtol=1e-4)
    assert "r_hat" not in row


def test_weights_of_what_collect_made():
    same = run(stepsize=CYCLE, collect=lambda params: {"sum": params["theta"] + params["other"]})
    assert np.isfinite(same.summary(weighted=True).loc["sum", "mean"])
    collect = lambda params: {"sum": params["theta"] + params["other"]}  # noqa: E731
    differ = run(stepsize={"theta": CYCLE, "other": 1e-3}, collect=collect)
    with pytest.raises(ValueError, match="weighted of summary must be False for 'sum'"):
        differ.summary(weighted=True)
    with pytest.raises(ValueError, match="weighted of summary must be False where all draws of 'theta' explore"):
        run(stepsize=CYCLE, nIters=3).summary(weighted=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0.0, 10), "h of cyclical must be finite and positive; got 0.0"),
        ((1e-3, 1), "cycleLength of cyclical must be an integer of at least 2; got 1"),
        ((1e-3, 10.5), "cycleLength of cyclical must be an integer of at least 2; got 10.5"),
        ((1e-3, 10, 1.0), "explorationFraction of cyclical must be from 0 to below 1; got 1.0"),
        ((1e-3, 10, 0.95), "explorationFraction of cyclical must leave an iteration of each cycle of 10 for sampling"),
    ],
)
def test_bad_cycles_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        cyclical(*given)


@pytest.mark.parametrize("sampler", [sgnht, ccadl, badodab])
def test_thermostats_do_not_explore(sampler):
    """They would heat what is to be cold; without an exploration a cycle is welcome."""
    with pytest.raises(ValueError, match=f"stepsize of {sampler.__name__} must have explorationFraction=0"):
        run(sampler, stepsize={"theta": CYCLE, "other": 1e-3})


def test_the_distribution_stays_right_where_the_stepsize_changes_fast():
    """BAOAB with exact gradients and little friction: a momentum in the units of theta would heat it by a third."""
    for sampler, settings in ((baoab, {"alpha": 0.02}), (badodab, {"a": 0.02})):
        eps = cyclical(5e-4, cycleLength=500)
        out = run(
            sampler, stepsize={"theta": eps, "other": 0.1}, minibatchSize=200, nIters=20_000, nChains=10, **settings
        )
        late = out[2000:].summary(weighted=True).loc["theta", "sd"]
        assert abs(late * np.sqrt(201) - 1) < 0.06


def test_the_stepsize_in_force_is_recorded_and_the_exploration_belongs_to_the_run(tmp_path):
    path = tmp_path / "run.zarr"
    out = run(stepsize=CYCLE, storage=path)
    expected = [float(CYCLE(tf.constant(k, tf.float32))) for k in range(40)]
    np.testing.assert_allclose(out.sampleStats["step_size"][:, 0], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="stepsize of sgld must be what it was"):
        run(stepsize=cyclical(1e-3, 10, 0.5), storage=path, resume=True, nIters=80)


def test_stepsizes_are_not_checked_while_they_explore():
    with pytest.raises(ValueError, match="stepsize of checkStepsize must have explorationFraction=0"):
        checkStepsize(sgld, logLik, DATASET, {"theta": 0.0}, {"theta": CYCLE}, verbose=False)


# --- temperature ------------------------------------------------------------------------------------------------------


def test_a_temperature_divides_logLik_and_logPrior():
    def divided(function):
        return lambda *given: function(*given) / 4.0

    hot = run(stepsize=1e-3, temperature=4)
    by_hand = sgld(
        divided(logLik), DATASET, {"theta": 0.0, "other": 1.0}, 1e-3, divided(logPrior), 20, nIters=40, seed=2,
        verbose=False,
    )  # fmt: skip
    for name in hot:
        np.testing.assert_allclose(hot[name], by_hand[name], rtol=1e-5)
    np.testing.assert_allclose(hot.logPosterior, by_hand.logPosterior, rtol=1e-5)


def test_full_gradients_are_those_of_the_tempered_posterior():
    out = run(stepsize=1e-3, temperature=4, minibatchSize=200, gradients=True, dtype="float64")
    full = fullGradients(out, logLik, DATASET, logPrior, verbose=False)
    for name in out:
        np.testing.assert_allclose(full[name], out.gradients[name], rtol=1e-9)
    hotter = fullGradients(out, logLik, DATASET, logPrior, temperature=8, verbose=False)
    np.testing.assert_allclose(2 * hotter["theta"], full["theta"], rtol=1e-9)


def test_the_tempered_posterior_has_t_times_the_variance():
    """BAOAB with exact gradients, whose steps make no error: Var = T/201 of theta, T of other; to 10%."""
    out = run(baoab, stepsize={"theta": 0.05, "other": 0.5}, temperature=16, nChains=20, minibatchSize=200, nIters=4000)
    late = {name: x[:, 500:].astype(float).var() for name, x in out.items()}
    assert abs(late["theta"] * 201 / 16 - 1) < 0.1 and abs(late["other"] / 16 - 1) < 0.1


def test_a_temperature_is_found_by_the_automatic_stepsize():
    found = []
    for temperature in (1.0, 9.0):
        start = {"theta": 0.0, "other": 1.0}
        sampler = sgldcvSetup(
            logLik, DATASET, start, logPrior=logPrior, minibatchSize=20, seed=2, temperature=temperature
        )
        initSess(sampler, verbose=False)
        found.append(np.asarray(sampler.expected["sd"]["theta"]))
    np.testing.assert_allclose(found[1], 3 * found[0], rtol=1e-3)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.inf, "hot"])
def test_bad_temperatures_are_refused(temperature):
    with pytest.raises(ValueError, match="temperature of sgld must be a positive number"):
        run(stepsize=1e-3, temperature=temperature)
