"""checkTemperature: the temperatures it measures, the stepsize it finds, and what it refuses.

It uses the inside of the package: it replaces the numbers of draws, to fail sooner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import baoab, checkTemperature, controlVariates, saga, samadams, sghmc, sgld, sgnht
from sgmcmc.dynamics.baoab import baoab as baoab_dynamics
from sgmcmc.tuning import temperatures as module

N, SIZE, P = 1000, 100, 400
NOISE = N * N / SIZE * (1 - SIZE / N) * N / (N - 1)  # the variance of the gradient's noise in each element
ALPHA = 0.1
QUIET: dict[str, Any] = {"verbose": False, "seed": 1, "minibatchSize": SIZE}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def normal(start: float = 0.0) -> dict[str, Any]:
    """The means of P columns with variance 1: a posterior with the precision N, at its mode."""
    x = np.random.default_rng(0).normal(size=(N, P))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return {"logLik": log_lik, "dataset": {"x": x}, "params": {"theta": np.full(P, start)}}


def exact(eps: float) -> tuple[float, float]:
    """The temperatures of baoab in closed form; see the head of its file."""
    d = eps + eps**2 * NOISE / ((1 - eps * N / 4) * (1 - (1 - ALPHA) ** 2))
    variance = baoab_dynamics(ALPHA).stationary(eps, np.array([float(N)]), np.array([NOISE])).variance
    return d / eps, float(variance[0]) * N


def test_temperatures_are_those_of_the_exact_law():
    """Within 5 standard errors; all standard errors are below 3%. False alarms: one in 10^5, of six numbers.

    The excess at the largest stepsize is 0.9, so a step wrong by sqrt(2) would be seen.
    """
    tried = [2e-6, 1e-5, 2e-5]
    table = checkTemperature(baoab, **normal(), stepsize=tried, nIters=6000, **QUIET)
    assert table["stepsize"].tolist() == tried
    for row in table.itertuples():
        kinetic, configurational = exact(row.stepsize)
        assert max(row.kinetic_error, row.configurational_error) < 0.03
        assert abs(row.kinetic - kinetic) < 5 * row.kinetic_error
        assert abs(row.configurational - configurational) < 5 * row.configurational_error


def test_it_finds_the_largest_stepsize_within_the_tolerance():
    """To a factor of 10^0.1, the distance of its last candidates, and the noise."""
    table = checkTemperature(baoab, **normal(), tolerance=0.2, nIters=3000, **QUIET)
    found = table.attrs["stepsize"]
    best = max(eps for eps in np.geomspace(1e-7, 1e-3, 2000) if max(exact(eps)) < 1.2)
    assert best / 1.5 < found < best * 1.2
    of_found = table[table["stepsize"] == found]
    assert of_found["right"].all()
    assert not table[table["stepsize"] > found]["right"].all()


@pytest.mark.parametrize("start", [1e-3, 1e4])
def test_it_looks_further_than_its_first_stepsizes(start, monkeypatch):
    from sgmcmc.tuning import temperatures

    monkeypatch.setattr(temperatures, "around_rule", lambda made: [1e-5 * start * x for x in (0.1, 1.0)])
    found = checkTemperature(baoab, **normal(), tolerance=0.2, nIters=1000, **QUIET).attrs["stepsize"]
    best = max(eps for eps in np.geomspace(1e-7, 1e-3, 2000) if max(exact(eps)) < 1.2)
    assert best / 2 < found < best * 1.5


@pytest.mark.parametrize(
    ("right", "last"),
    [
        ([True, True, False], 1),
        ([False, False], None),
        ([True, True], 1),
        ([True, False, True, True, True, False, False], 4),
        ([True, False, False, True, False], 0),
        ([False, True], None),
        ([True, False, True], 0),
    ],
)
def test_single_exceptions_are_chance_and_in_doubt_the_smaller_stepsize_is_taken(right, last):
    assert module._last_right(right) == last


def test_a_chain_that_diverges_is_not_right():
    table = checkTemperature(baoab, **normal(), stepsize=[1e-2, 1e-6], nIters=400, **QUIET)
    assert table["stepsize"].tolist() == [1e-6, 1e-2]
    assert table["right"].tolist() == [True, False]
    assert np.isinf(table["kinetic"].iloc[1]) and np.isinf(table["configurational_error"].iloc[1])
    assert table.attrs["stepsize"] == 1e-6


def test_without_a_right_stepsize_it_says_so():
    with pytest.warns(UserWarning, match="no stepsize that checkTemperature tried"):
        table = checkTemperature(baoab, **normal(), stepsize=[1e-3], nIters=400, **QUIET)
    assert table.attrs["stepsize"] is None


def test_all_parameters_must_be_right():
    """One of two has a hundred times the precision, and so too large a stepsize first."""

    def two(params: dict, dataset: dict) -> tf.Tensor:
        return log_lik({"theta": params["wide"]}, dataset) + 100 * log_lik({"theta": params["narrow"]}, dataset)

    given = normal() | {"logLik": two}
    given["params"] = {"narrow": np.zeros(P), "wide": np.zeros(P)}
    table = checkTemperature(baoab, **given, stepsize=[1e-10, 1.5e-6], tolerance=0.1, nIters=1000, **QUIET)
    assert table["right"].tolist() == [True, True, False, True]
    assert table.attrs["stepsize"] == 1e-10
    each = [{"narrow": 1e-10, "wide": 1e-6}, {"narrow": 1.5e-10, "wide": 1.5e-6}]
    table = checkTemperature(baoab, **given, stepsize=each, tolerance=0.1, nIters=1000, **QUIET)
    assert table.attrs["stepsize"] == each[1]


def test_kinetic_temperatures_are_relative_to_those_of_exact_gradients():
    """That of sghmc is 1.2 for alpha = 0.5, with all observations and a small stepsize."""
    given = QUIET | {"minibatchSize": N}
    table = checkTemperature(sghmc, **normal(), stepsize=[1e-6], alpha=0.5, nIters=300, **given)
    assert abs(table["kinetic"].iloc[0] - 1) < max(0.01, 5 * table["kinetic_error"].iloc[0])


def test_the_same_seed_gives_the_same_table():
    given = {**normal(), "stepsize": [1e-6, 1e-5], "nIters": 200, "gradient": controlVariates(1e-5, 100, verbose=False)}
    first, again = (checkTemperature(sgnht, **given, **QUIET) for _ in range(2))
    assert first.equals(again)
    assert first.attrs["seed"] == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"sampler": sgld}, "sampler of checkTemperature must have a momentum"),
     ({"sampler": samadams, "stepsize": [1e-6]}, "sampler of checkTemperature must have draws of equal weight"),
     ({"stepsize": ["auto"]}, "stepsize of checkTemperature must be a list of numbers"),
     ({"stepsize": []}, "stepsize of checkTemperature must have at least one value"),
     ({"tolerance": 1.0}, "tolerance of checkTemperature must be a number between 0 and 1"),
     ({"nIters": 50}, "nIters of checkTemperature must be"),
     ({"nChains": 4}, "nChains of checkTemperature must be left out"),
     ({"gradient": saga()}, "gradient of checkTemperature must not be saga")],
)  # fmt: skip
def test_refused(changed, message):
    given = {"sampler": baoab, **normal(), **QUIET, **changed}
    with pytest.raises(ValueError, match=message):
        checkTemperature(**given)
