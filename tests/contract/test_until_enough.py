"""nIters="auto": a run ends when its draws are enough, and has the draws of the same number by hand.

It uses the inside of the package: it tests the lengths that the rule proposes for given diagnostics.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import Draws, scir, sgld, sgldcv, sgldSetup
from sgmcmc.draws.convergence import FEWEST, worst
from sgmcmc.run import stopping_rule
from sgmcmc.run.stopping_rule import Lengths, StoppingRule

N, D = 2000, 3


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2, axis=1)


DATA = {"x": np.random.default_rng(0).normal([1.0, 2.0, 3.0], size=(N, D))}
PARAMS = {"theta": np.zeros(D)}
AUTO: dict[str, Any] = {"nIters": "auto", "minibatchSize": 100, "seed": 1, "verbose": False, "ess": 200}


def by_hand(out: Draws) -> dict[str, Any]:
    """The arguments that give the draws of an automatic run."""
    of_length = {name: out.settings[name] for name in ("nIters", "thin", "nChains")}
    return {name: value for name, value in AUTO.items() if name != "ess"} | of_length


@pytest.mark.parametrize(
    ("of", "more"),
    [
        (sgldcv, {}),
        (sgldcv, {"minibatchSize": 5}),
        (sgld, {"stepsize": 2e-4, "thin": 3, "burnIn": 100, "nChains": 2}),
        (sgld, {"collect": lambda p: {"first": p["theta"][0], "constant": 0.0}}),
    ],
)
def test_draws_are_those_of_the_same_number_by_hand(of: Any, more: dict) -> None:
    out = of(log_lik, DATA, PARAMS, **AUTO | more)
    same = of(log_lik, DATA, PARAMS, **by_hand(out) | more)
    for name in out:
        np.testing.assert_array_equal(out[name], same[name])
    table = out.summary()
    table = table[table["sd"] > 0]
    assert out.nChains == more.get("nChains", 4)
    assert table[["ess_bulk", "ess_tail"]].min(axis=None) >= 200
    assert table["r_hat"].max() < 1.01
    assert {"ess", "nIters"} <= out.settings.keys()
    assert {"diagnostics", "sampling"} <= out.timings.keys()


def test_thin_is_a_quarter_of_what_is_expected_between_independent_draws() -> None:
    out = sgldcv(log_lik, DATA, PARAMS, **AUTO | {"minibatchSize": 5, "tolerance": 0.002})
    assert out.settings["thin"] == int(out.settings["expected"]["iterations"] / 4) > 3
    assert not sgldcv(log_lik, DATA, PARAMS, **AUTO | {"nIters": 9, "ess": None}).settings["thin"] > 1


def test_simplex_runs_until_it_is_enough() -> None:
    data = {"z": np.random.default_rng(1).multinomial(1, [0.2, 0.3, 0.5], size=500)}
    params = {"omega": np.full(3, 1 / 3)}

    def counts(params: dict, dataset: dict) -> dict:
        return {"omega": tf.reduce_sum(dataset["z"], axis=0)}

    arguments: dict[str, Any] = {"stepsize": 0.5, "alpha": 1.0, "minibatchSize": 50, "seed": 1, "verbose": False}
    out = scir(counts, data, params, nIters="auto", ess=400, **arguments)
    by_hand = {name: out.settings[name] for name in ("nIters", "nChains")}
    np.testing.assert_array_equal(out["omega"], scir(counts, data, params, **arguments, **by_hand)["omega"])


def test_mcse_is_the_error_of_means() -> None:
    out = sgldcv(log_lik, DATA, PARAMS, **AUTO | {"ess": None, "mcse": 0.1})
    table = out.summary()
    assert (table["mcse_mean"] / table["sd"]).max() <= 0.1
    assert out.settings["mcse"] == pytest.approx(0.1)
    smaller = sgldcv(log_lik, DATA, PARAMS, **AUTO | {"ess": None, "mcse": 0.03}).summary()
    assert (smaller["mcse_mean"] / smaller["sd"]).max() <= 0.03


def two_modes(params: dict, dataset: dict) -> tf.Tensor:
    return tf.reduce_logsumexp(-0.5 * (dataset["x"][:, :1] - params["theta"][None] * [1.0, -1.0]) ** 2, axis=1)


def test_chains_that_never_meet_end_with_a_warning() -> None:
    starts = {"theta": np.array([[5.0], [5.0], [-5.0], [-5.0]])}
    data = {"x": np.random.default_rng(0).normal(size=(100, 1)) + 5.0}
    with pytest.warns(UserWarning, match=r"ended at maxIters=12345 .* R-hat .* its chains are in different places"):
        out = sgld(two_modes, data, {"theta": [5.0]}, 1e-3, starts=starts, maxIters=12_345, **AUTO)
    assert out.settings["nIters"] == 12_345
    assert out["theta"].shape == (4, 12_345, 1)


def test_a_funnel_ends_with_a_warning() -> None:
    """Its neck is narrower than any stepsize, and few of its draws are there."""

    def funnel(params: dict) -> tf.Tensor:
        x, v = params["x"], params["v"]
        return -(v**2) / 18 - 0.5 * tf.reduce_sum(x**2) * tf.exp(-v) - 4.5 * v

    def weak(params: dict, dataset: dict) -> tf.Tensor:
        return -0.001 * tf.reduce_sum((dataset["x"] - params["x"]) ** 2, axis=1)

    data = {"x": np.random.default_rng(0).normal(size=(200, 9))}
    begin = {"x": np.full(9, 0.5), "v": 0.0}
    with pytest.warns(UserWarning, match=r"sgld ended at maxIters=20000 before it was long enough"):
        out = sgld(weak, data, begin, 0.002, logPrior=funnel, starts=0.2, maxIters=20_000, **AUTO)
    assert not out.check(verbose=False).isGood


def test_a_transient_is_not_a_part_of_the_posterior() -> None:
    begin = {"theta": np.full(D, 60.0)}
    with pytest.warns(UserWarning, match="still depends on where the chains began: give burnIn"):
        sgld(log_lik, DATA, begin, 1e-5, maxIters=9_000, **AUTO | {"ess": 100})
    burnt = sgld(log_lik, DATA, begin, 1e-4, burnIn=1_000, **AUTO)
    fresh = sgld(log_lik, DATA, begin, 1e-4, **AUTO)
    assert fresh.settings["nIters"] > burnt.settings["nIters"]  # until the transient has no weight


def test_time_that_is_over_ends_the_run_with_a_warning() -> None:
    arguments = AUTO | {"ess": 10**6, "maxSeconds": 4}
    sgldcv(log_lik, DATA, PARAMS, **AUTO)  # compiles the programs, on any machine
    began = time.monotonic()
    with pytest.warns(UserWarning, match=r"ended at maxSeconds=4 .* effective draws of 1000000"):
        out = sgldcv(log_lik, DATA, PARAMS, **arguments)
    assert time.monotonic() - began < 60
    assert out.settings["nIters"] == out["theta"].shape[1] * out.settings["thin"]
    same = sgldcv(log_lik, DATA, PARAMS, **by_hand(out))
    np.testing.assert_array_equal(out["theta"], same["theta"])


def test_time_that_is_over_before_the_first_draw_is_no_error() -> None:
    with pytest.warns(UserWarning, match=r"ended at maxSeconds=0.001 .* has 0 effective draws of 200; "):
        out = sgldcv(log_lik, DATA, PARAMS, **AUTO | {"maxSeconds": 1e-3, "burnIn": 10_000})
    assert {name: x.shape[:2] for name, x in out.items()} == dict.fromkeys(PARAMS, (4, 0))


@pytest.fixture
def interrupted_soon(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Ctrl-C after some iterations, as long as the event is set."""
    asked, reached = threading.Event(), stopping_rule.ProgressInDraws.reached
    asked.set()

    def reaching(self: stopping_rule.ProgressInDraws, done: int, log_density: Any = None) -> None:
        reached(self, done, log_density)
        if asked.is_set() and done > 100:
            raise KeyboardInterrupt

    monkeypatch.setattr(stopping_rule.ProgressInDraws, "reached", reaching)
    return asked


def test_an_interrupted_run_resumes_to_the_same_end(tmp_path: Path, interrupted_soon: threading.Event) -> None:
    arguments = AUTO | {"storage": tmp_path / "a.zarr", "ess": 2000}
    with pytest.warns(UserWarning, match="interrupted"):
        cut = sgldcv(log_lik, DATA, PARAMS, **arguments)
    interrupted_soon.clear()
    whole = sgldcv(log_lik, DATA, PARAMS, **arguments | {"storage": None})
    resumed = sgldcv(log_lik, DATA, PARAMS, resume=True, **arguments)
    assert 0 < cut["theta"].shape[1] < resumed["theta"].shape[1]
    assert resumed.settings["nIters"] == whole.settings["nIters"]
    np.testing.assert_array_equal(resumed["theta"], whole["theta"])
    again = sgldcv(log_lik, DATA, PARAMS, resume=True, **arguments)  # nothing is left to do
    np.testing.assert_array_equal(again["theta"], whole["theta"])
    longer = sgldcv(
        log_lik, DATA, PARAMS, resume=True, **arguments | {"ess": None} | by_hand(whole) | {"nIters": 10_000}
    )
    np.testing.assert_array_equal(longer["theta"][:, : whole["theta"].shape[1]], whole["theta"])
    shorter = sgldcv(log_lik, DATA, PARAMS, resume=True, **arguments)  # and the store has more than is needed
    np.testing.assert_array_equal(shorter["theta"], longer["theta"])


@pytest.mark.parametrize("stored", [False, True])
def test_jobs_give_the_same_run(tmp_path: Path, stored: bool) -> None:
    arguments = AUTO | {"ess": 2000}
    here = sgldcv(log_lik, DATA, PARAMS, **arguments)
    with ThreadPoolExecutor(1) as executor:
        more = {"executor": executor, "chainsPerJob": 2, "storage": tmp_path / "a.zarr" if stored else None}
        out = sgldcv(log_lik, DATA, PARAMS, **arguments, **more)
    assert out.settings["nIters"] == here.settings["nIters"]
    np.testing.assert_allclose(out["theta"], here["theta"], rtol=1e-4)


def test_progress_counts_effective_draws(capsys: pytest.CaptureFixture) -> None:
    sgldcv(log_lik, DATA, PARAMS, **AUTO | {"verbose": True})
    assert "200/200 effective draws" in capsys.readouterr().err


def test_a_setup_function_can_be_run_until_it_is_enough() -> None:
    sampler = sgldSetup(log_lik, DATA, PARAMS, 1e-4, minibatchSize=100, seed=1, nChains=3)
    options = {**sgmcmc.arguments.signatures.RUN_DEFAULTS, "ess": 200}
    first, again = (sampler.run("auto", False, **options) for _ in range(2))
    np.testing.assert_array_equal(first["theta"], again["theta"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nIters": "automatic"}, "nIters of sgld must be an integer of at least 1, or 'auto'; got 'automatic'"),
        ({"nIters": 10, "ess": 10.0}, "ess of sgld must come with nIters='auto'; got nIters=10"),
        ({"nIters": 10, "maxSeconds": 10.0}, "maxSeconds of sgld must come with nIters='auto'; got nIters=10"),
        ({"ess": 0}, "ess of sgld must be a number of effective draws, at least 10; got 0"),
        ({"ess": 100, "mcse": 0.1}, "ess of sgld must be None if mcse is given; got 100"),
        ({"mcse": 0}, r"mcse of sgld must be a number of posterior standard deviations, in \(0, 0.3\]; got 0"),
        ({"maxIters": 0}, "maxIters of sgld must be an integer of at least 1; got 0"),
        ({"maxIters": 2**33}, "maxIters of sgld must make fewer than"),
        ({"maxIters": 50, "burnIn": 50}, r"maxIters of sgld must be an integer of at least 51 \(burnIn \+ thin\)"),
        ({"maxSeconds": -1}, "maxSeconds of sgld must be a positive number; got -1"),
        ({"nChains": 1}, "nChains of sgld must be at least 2 with nIters='auto', which compares chains; got 1"),
        ({"reduce": sgmcmc.runningMean()}, "reduce of sgld must come with collect if nIters='auto'"),
        ({"thin": "all"}, "thin of sgld must be an integer of at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sgld(log_lik, DATA, PARAMS, 1e-4, **{"nIters": "auto", "verbose": False} | arguments)


def autoregressive(rho: np.ndarray, n_draws: int, n_chains: int = 4) -> np.ndarray:
    """Chains with these autocorrelations, [C, T, D]."""
    rng = np.random.default_rng(2)
    x = np.empty((n_chains, n_draws, len(rho)))
    x[:, 0] = rng.normal(size=(n_chains, len(rho)))
    for t in range(1, n_draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=(n_chains, len(rho)))
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_worst_of_many_elements_is_that_of_the_table(dtype: Any) -> None:
    x = autoregressive(np.linspace(0.0, 0.8, 200), 2000).astype(dtype) + dtype(1000)
    draws = Draws({"posterior": {"theta": x}}, nChains=4, iterations=range(1, 2001), settings={"parameters": ["theta"]})
    table = draws.summary()
    found = worst(draws.groups["posterior"], 8000 / FEWEST, False)
    assert found.ess == pytest.approx(table[["ess_bulk", "ess_tail"]].min(axis=None), rel=1e-4)
    assert found.rhat == pytest.approx(table["r_hat"].max(), rel=1e-4)
    assert found.ess_of.startswith("theta[1")


def test_slow_elements_among_many_are_seen_first() -> None:
    x = autoregressive(np.full(300, 0.2), 400)
    x[:, :, 217] = autoregressive(np.array([0.98]), 400)[..., 0]
    found = worst({"theta": x.reshape(4, 400, 30, 10)}, 1600 / FEWEST, False)
    assert found.ess_of == found.rhat_of == "theta[21, 7]"


def test_chance_keeps_no_run_of_many_elements_going() -> None:
    """Of few of these independent draws, the largest R-hat of a thousand would be above 1.01."""
    x = np.random.default_rng(0).normal(size=(4, 2000, 1000))
    assert worst({"theta": x}, 100, True).suffices(100)


def test_what_is_nan_is_never_enough() -> None:
    x = autoregressive(np.zeros(3), 400)
    x[1, 5, 1] = np.nan
    found = worst({"theta": x}, 100.0, False)
    assert (found.ess, found.ess_of) == (0.0, "theta[1]")
    assert StoppingRule(100.0).factor(found) == np.inf


def test_lengths_are_multiples_that_are_fixed_before() -> None:
    lengths = Lengths(burn_in=7, unit=30, first=20, most=10_000)
    assert lengths.begin() == 607
    assert [lengths.after(607, factor) for factor in (1.001, 1.4, 100.0)] == [
        7 + 23 * 30,
        7 + 31 * 30,
        7 + 40 * 30,
    ]
    assert lengths.after(9_997, 1.1) == 10_000
