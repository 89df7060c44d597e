"""out.check(): the numbers of the table, the verdict, and the distance from normal.

It uses the inside of the package: it needs the threshold of the verdict.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import Draws, sgld, sgldcv
from sgmcmc.draws.check import FAR

NEAR = 0.5  # Pareto k

N, D = 2000, 3
DATA = {"x": np.random.default_rng(0).normal([1.0, 2.0, 3.0], size=(N, D))}
COMMON: dict[str, Any] = {"seed": 1, "verbose": False, "minibatchSize": 100}


def normal(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2, axis=1)


@pytest.fixture(scope="module")
def good() -> Draws:
    return sgldcv(normal, DATA, {"theta": np.zeros(D)}, nIters="auto", ess=500, **COMMON)


def test_good_draws_of_a_normal_posterior(good: Draws) -> None:
    found, summary = good.check(), good.summary()
    assert found.isGood
    assert not found.problems
    assert found.verdict.startswith("Good: the chains agree, every element has at least ")
    assert found.paretoK < NEAR
    assert 0 < found.tolerance <= 1
    np.testing.assert_allclose(found.table["mcse"], summary["mcse_mean"] / summary["sd"])
    np.testing.assert_allclose(found.table["found_sd_ratio"], summary["sd"] * N**0.5, rtol=1e-3)
    np.testing.assert_allclose(found.table["sd_sandwich"], DATA["x"].std(axis=0) / N**0.5, rtol=1e-4)
    assert found.note == ""
    assert list(found.table.index) == [f"theta[{k}]" for k in range(D)]


def test_few_draws_are_not_enough(good: Draws) -> None:
    found = good[:20].check(verbose=False)
    assert not found.isGood
    assert "effective draws of 500" in found.verdict
    assert not np.isnan(found.paretoK)


def test_means_are_judged_by_their_error_if_that_was_wanted() -> None:
    out = sgldcv(normal, DATA, {"theta": np.zeros(D)}, nIters="auto", mcse=0.05, **COMMON)
    assert out.check(verbose=False).isGood
    assert "the Monte Carlo error is" in out[:20].check(verbose=False).verdict


def test_one_chain_shows_nothing() -> None:
    found = sgld(normal, DATA, {"theta": np.zeros(D)}, 1e-4, nIters=2000, **COMMON).check()
    assert "there is one chain" in found.verdict
    assert np.isnan(found.paretoK)
    assert np.isnan(found.tolerance)
    assert found.table[["expected_sd_ratio", "found_sd_ratio"]].isna().all(axis=None)


def test_chains_in_different_places_are_named() -> None:
    starts = {"theta": np.array([np.zeros(D), np.full(D, 9.0)])}
    out = sgld(normal, DATA, {"theta": np.zeros(D)}, 1e-9, nIters=50, nChains=2, starts=starts, **COMMON)
    assert "R-hat is" in out.check().verdict
    assert "'theta[0]'" in out.check().verdict


def rare(params: dict, dataset: dict) -> tf.Tensor:
    return dataset["k"] * params["t"] - tf.math.softplus(params["t"])


def test_a_posterior_that_is_far_from_normal() -> None:
    """One event in 100, with a flat prior: the logarithm of its odds has a long tail."""
    data = {"k": np.eye(100)[0]}
    with pytest.warns(UserWarning, match="not close to the normal"):
        out = sgldcv(rare, data, {"t": -3.0}, nIters=20_000, nChains=4, logPrior=lambda p: -0.005 * p["t"] ** 2,
                     **COMMON | {"minibatchSize": 20})  # fmt: skip
    found = out.check(verbose=False)
    assert found.paretoK > FAR
    assert "far from normal (Pareto k" in found.verdict
    assert "times that of the normal distribution at the mode for 't'" in found.verdict


def test_k_is_that_of_all_observations_also_on_disk(tmp_path: Path, good: Draws) -> None:
    np.save(tmp_path / "x.npy", DATA["x"].astype(np.float32))
    on_disk = {"x": np.load(tmp_path / "x.npy", mmap_mode="r")}
    out = sgldcv(normal, on_disk, {"theta": np.zeros(D)}, nIters=1000, nChains=2, **COMMON)
    assert out.check(verbose=False).paretoK == pytest.approx(good.check(verbose=False).paretoK, abs=0.02)


def test_positive_parameters_are_compared_where_the_chain_moves_them() -> None:
    data = {"x": np.random.default_rng(1).gamma(3.0, size=500)}

    def gamma(params: dict, dataset: dict) -> tf.Tensor:
        a = params["shape"]
        return (a - 1) * tf.math.log(dataset["x"]) - dataset["x"] - tf.math.lgamma(a)

    out = sgldcv(gamma, data, {"shape": 1.0}, transforms={"shape": "positive"}, nIters="auto", ess=500,
                 **COMMON)  # fmt: skip
    found = out.check(verbose=False)
    assert found.isGood
    assert found.paretoK < NEAR
    assert np.isnan(found.table["found_sd_ratio"]).all()


def test_kept_draws_know_their_data_no_more(tmp_path: Path, good: Draws) -> None:
    good.save(tmp_path / "a.npz")
    for again in (Draws.load(tmp_path / "a.npz"), pickle.loads(pickle.dumps(good))):
        found = again.check()
        assert found.isGood
        assert np.isnan(found.paretoK)
        known = good.check(verbose=False).table.assign(sd_sandwich=np.nan)
        np.testing.assert_allclose(found.table, known)


def test_collected_numbers_have_no_expectation() -> None:
    out = sgldcv(normal, DATA, {"theta": np.zeros(D)}, nIters="auto", ess=200,
                 collect=lambda p: {"sum": tf.reduce_sum(p["theta"]), "theta": p["theta"]}, **COMMON)  # fmt: skip
    table = out.check(verbose=False).table
    assert np.isnan(table["found_sd_ratio"]["sum"])
    assert table["found_sd_ratio"].drop("sum").between(0.8, 1.2).all()


def test_plot_shows_three_panels(good: Draws) -> None:
    axes = good.check(verbose=False).plot()
    assert [ax.get_title(loc="left") for ax in axes] == ["R-hat", "effective draws", "sd over that of the posterior"]
    assert all(len(ax.lines[0].get_xdata()) == D for ax in axes)
    plt.close(axes[0].figure)
    _, mine = plt.subplots(1, 3)
    assert (good.check(verbose=False).plot(mine) == mine).all()
    plt.close()


def test_draws_that_are_not_stored_cannot_be_checked() -> None:
    from sgmcmc import runningMean

    out = sgld(normal, DATA, {"theta": np.zeros(D)}, 1e-4, nIters=100, reduce=runningMean(), **COMMON)
    with pytest.raises(ValueError, match="needs draws, but none are stored"):
        out.check()
    with pytest.raises(ValueError, match="verbose of check must be True or False; got 3"):
        out.check(verbose=3)
