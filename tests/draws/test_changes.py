"""The table of checkStepsize, on pairs of chains that are made up: how often it sees what is and what is not there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from sgmcmc import Draws
from sgmcmc.tuning.stepsizes import changes

TIME = 5  # iterations after which the autocorrelation has fallen to 1 / e


def chain(rng: np.random.Generator, length: int, sd: float = 1.0, mean: float = 0.0) -> Draws:
    """Normal draws, each of which depends on the one before."""
    phi = np.exp(-1 / TIME)
    noise = rng.normal(size=length + 20 * TIME) * (1 - phi**2) ** 0.5
    x = mean + sd * lfilter([1], [1, -phi], noise)[-length:]
    settings = {"sampler": "sgld", "seed": 1, "stepsize": {"theta": 1e-4}}
    return Draws({"posterior": {"theta": x[None]}}, nChains=None, iterations=range(1, length + 1), settings=settings)


def test_one_in_a_hundred_checks_is_a_false_alarm():
    """Of 200, more than 9 would be with a probability of 2e-5 at that rate; of 20% they would be surely."""
    rng = np.random.default_rng(0)
    alarms = sum(changes(chain(rng, 1000), chain(rng, 1000)).attrs["changed"] for _ in range(200))
    assert alarms <= 9


@pytest.mark.parametrize("other", [{"sd": 2**0.5}, {"mean": 0.5}])
def test_an_sd_that_changes_by_root_two_and_a_mean_by_half_an_sd_are_seen(other):
    """Effective sample sizes are about 400 and those of a change 0.08 or less: each is 5 of them away, or more."""
    rng = np.random.default_rng(1)
    assert all(changes(chain(rng, 4000), chain(rng, 4000, **other)).attrs["changed"] for _ in range(20))


def test_the_sentence_names_the_largest_change():
    rng = np.random.default_rng(2)
    table = changes(chain(rng, 4000), chain(rng, 4000, sd=2.0))
    assert table.attrs["worst"].startswith("At half the stepsize, the sd of theta changes most: from 0.9")
    assert table.attrs["worst"].endswith("(by chance more than 2.8 in 1% of such checks).")
    assert list(table) == ["mean", "mean_half", "mean_change", "sd", "sd_half", "sd_change"]
