"""checkStepsize: it sees a stepsize that is too large, raises few false alarms, and refuses what it cannot do.

The posteriors are those of D means with N observations each, normal with variance v = 1/N and independent. With the
gradients of all data SGLD has the variance v / (1 - eps / 4v).

It uses the inside of the package: it tests the halving of any schedule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import Dynamics, checkStepsize, controlVariates, polynomial, runningMean, sample, sgld, sgldcv
from sgmcmc.tuning.stepsizes import _halved

N, D = 20, 200
V = 1 / N


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def normal(n_elements: int) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(N, n_elements))
    model = {"logLik": log_lik, "dataset": {"x": x}, "params": {"theta": x.mean(axis=0)}}
    return model | {"minibatchSize": N, "verbose": False, "seed": 1}


SETTINGS = {"dataset": {"x": np.linspace(-1, 1, 50)}, "params": {"theta": 2.0}, "nIters": 200, "verbose": False}


def steps(theta, memory, given):
    return theta + given.eps / 2 * given.gradient + tf.sqrt(given.eps) * given.noise, memory


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_centre_of_control_variates_is_the_same_in_both_runs():
    """Both are control variates around params with the same steps, so the tables are those of the same chains.

    The curvature differs between observations, so the noise depends on the centre.
    """

    def uneven(params, dataset):
        return log_lik(params, dataset) - 0.4 * tf.reduce_sum(tf.cos(3 * dataset["x"])) * params["theta"] ** 2

    run = SETTINGS | {"logLik": uneven, "stepsize": 1e-2, "minibatchSize": 5, "seed": 1}
    by_name = checkStepsize(sgldcv, **run, optStepsize=1e-5, nItersOpt=0)
    by_parts = checkStepsize(
        sample, **run, dynamics=Dynamics(steps), gradient=controlVariates(optStepsize=1e-5, nItersOpt=0)
    )
    for column in ("mean", "mean_half", "sd", "sd_half"):
        assert np.allclose(by_name[column], by_parts[column], rtol=1e-4), column


def test_the_second_run_does_not_begin_at_what_was_collected():
    """The mean is 100 times 0, and without a burn-in of the first draws a chain that began at 100 theta is seen."""
    run = SETTINGS | {"logLik": log_lik, "stepsize": 1e-4, "minibatchSize": 50, "seed": 1, "burnIn": 0}
    tables = [
        checkStepsize(sgld, **run, collect=lambda p, name=name: {name: 100 * p["theta"]}) for name in ("theta", "phi")
    ]
    assert np.array_equal(tables[0].to_numpy(), tables[1].to_numpy(), equal_nan=True)


@pytest.mark.filterwarnings("ignore:the variance of 'theta':UserWarning")
def test_a_stepsize_that_is_far_too_large_is_seen_by_as_much_as_it_is_wrong():
    """At eps = 2v the variance is 2v, and 4v/3 at half of it: the sd falls by the factor sqrt(1.5).

    5 standard errors bound the mean of D independent ratios, so a false alarm has a probability below 1e-6.
    """
    table = checkStepsize(sgld, stepsize=2 * V, nIters=4000, **normal(D))
    assert table.attrs["changed"]
    assert "the sd of theta[" in table.attrs["worst"]
    ratio = table["sd"] / table["sd_half"]
    assert abs(ratio.mean() - 1.5**0.5) < 5 * ratio.std() / D**0.5 + 0.002  # the mean of a ratio, and of a square root
    assert table["sd_change"].max() < 0 and abs(table["mean_change"].mean()) < 5 / D**0.5
    assert list(table.index[:2]) == ["theta[0]", "theta[1]"]


def test_where_the_stepsize_is_right_changes_are_standard_normal():
    """At eps = v/10 the sd changes by 0.6%, a tenth of a standard error here.

    An alarm is false in 1% of such checks; this is one, with a fixed seed. The standard deviation of D standard normal
    numbers is off 1 by more than 0.25 with a probability of about 1e-6; standard errors that are wrong by sqrt(2) would
    make it 1.41 or 0.71, and be seen with a probability of 98%.
    """
    table = checkStepsize(sgld, stepsize=V / 10, nIters=8000, **normal(D))
    assert not table.attrs["changed"], table.attrs["worst"]
    assert abs(table["mean_change"].std() - 1) < 0.25
    assert abs(table["mean_change"].mean()) < 5 / D**0.5


@pytest.mark.filterwarnings("ignore:the variance of 'theta':UserWarning")
def test_it_works_with_schedules_and_chains():
    schedule = polynomial(2 * V, a=1000, b=0.1)
    given = {"nIters": 2000, "nChains": 2, "burnIn": 500, "thin": 2, **normal(1)}
    table = checkStepsize(sgld, stepsize={"theta": schedule}, **given)
    assert table.attrs["changed"] and table.attrs["seed"] == 1


def test_the_same_seed_gives_the_same():
    first, second = (checkStepsize(sgld, stepsize=V / 10, nIters=20, **normal(2)) for _ in range(2))
    assert first.equals(second) and first.attrs == second.attrs


def test_half_of_a_stepsize_takes_as_long_in_twice_the_iterations():
    schedule = polynomial(0.1, a=10, b=0.5)
    half = _halved({"a": 0.1, "b": schedule})
    assert half["a"] == 0.05
    k = np.arange(100.0)
    assert half["b"](2 * k) == pytest.approx(schedule(k) / 2)
    assert half["b"](np.arange(200.0)).sum() == pytest.approx(schedule(k).sum(), rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": np.mean}, r"^sampler of checkStepsize must be one of the functions .*sgld, "),
        ({"nIters": 1}, r"^nIters of checkStepsize must be an integer of at least 2; got 1\.$"),
        ({"burnIn": -1}, r"^burnIn of checkStepsize must be an integer of at least 0; got -1\.$"),
        ({"thin": 0}, r"^thin of checkStepsize must be an integer of at least 1; got 0\.$"),
        ({"stepsize": 0.0}, r"^stepsize of sgld must be a positive number or a schedule"),
        ({"reduce": runningMean()}, r"^reduce of checkStepsize must be left out, since checkStepsize holds"),
        ({"storage": "a.zarr"}, r"^storage of checkStepsize must be left out, .*; got 'a\.zarr'\.$"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        checkStepsize(**({"sampler": sgld, "stepsize": V / 10, **normal(1)} | arguments))


def test_an_argument_of_another_sampler_is_named():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'alpha', which sgld does not have$"):
        checkStepsize(sgld, stepsize=V, alpha=0.1, **normal(1))


@pytest.mark.filterwarnings("ignore:the variance of 'theta':UserWarning")
def test_a_stepsize_that_was_found_is_halved_with_its_preconditioner():
    """At a tolerance of 60%, 0.8 of which are aimed at, sds are 1.48 times the posterior's: 1 - eps/4 = 1.48^-2.

    The bound is six standard errors of an average over five elements and 4000 draws.
    """
    table = checkStepsize(sgldcv, tolerance=0.6, nIters=8000, **normal(5))
    ratios = table[["sd", "sd_half"]].mean().to_numpy() / V**0.5
    assert np.abs(ratios - [1.48, (1 - (1 - 1.48**-2) / 2) ** -0.5]).max() < 0.05
    assert table.attrs["changed"]
