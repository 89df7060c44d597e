"""The result of a run: a dict of arrays that knows how they came about, as a table, as ArviZ's tree, as a file."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import tensorflow as tf
import xarray as xr

import sgmcmc
from sgmcmc.draws.temperature import BATCHES

Tree = dict[str, Any]


def log_lik(params: Tree, dataset: Tree) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def log_prior(params: Tree) -> tf.Tensor:
    return -50.0 * (params["phi"] - 2.0) ** 2


X = np.random.default_rng(0).normal(1.0, 1.0, size=(100, 2))
MODEL = {
    "logLik": log_lik, "dataset": {"x": X}, "params": {"theta": [0.5, 0.5], "phi": 2.0}, "logPrior": log_prior,
    "verbose": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def few() -> sgmcmc.Draws:
    return sgmcmc.sgld(
        **MODEL, stepsize=1e-3, minibatchSize=10, nIters=61, seed=3, thin=2, burnIn=10, gradients=True,
        collect=lambda params: {**params, "sum": tf.reduce_sum(params["theta"])},
        reduce={"mean": sgmcmc.runningMean(), "covariance": sgmcmc.runningCovariance()},
    )  # fmt: skip


@pytest.fixture(scope="module")
def chains() -> sgmcmc.Draws:
    """Four chains that mix well; that they are well tuned is seen, and nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return sgmcmc.sghmc(
            **MODEL, stepsize=4e-4, minibatchSize=1.0 * len(X), alpha=0.02, nIters=1600, burnIn=100, seed=1, nChains=4,
            starts=0.1,
        )  # fmt: skip


def assert_same(draws: sgmcmc.Draws, others: sgmcmc.Draws) -> None:
    assert type(draws) is sgmcmc.Draws
    assert list(draws) == list(others) and draws.sampleStats.keys() == others.sampleStats.keys()
    assert draws.reduced.keys() == others.reduced.keys() and (draws.gradients is None) == (others.gradients is None)
    groups = [(draws, others), (draws.sampleStats, others.sampleStats), (draws.gradients or {}, others.gradients or {})]
    for some, same in groups + [(draws.reduced[label], others.reduced[label]) for label in draws.reduced]:
        assert some.keys() == same.keys()
        for name, array in some.items():
            np.testing.assert_array_equal(array, same[name])
            assert array.dtype == same[name].dtype
    np.testing.assert_array_equal(draws.iterations, others.iterations)
    for attribute in ("settings", "seed", "nChains", "timings", "divergence"):
        assert getattr(draws, attribute) == getattr(others, attribute)


# --- a dict -------------------------------------------------------------------------------------------------------


def test_it_is_a_dict_of_arrays(few: sgmcmc.Draws) -> None:
    assert isinstance(few, dict) and len(few) == 3 and set(few) == {"theta", "phi", "sum"}
    assert {**few}.keys() == few.keys() and type({**few}) is dict
    assert few.get("tehta") is None and "tehta" not in few
    with pytest.raises(KeyError, match=r"draws have no 'tehta'; there are \["):
        few["tehta"]
    for name, array in few.items():
        assert array is few[name] and isinstance(array, np.ndarray) and len(array) == 25
    assert few.logPosterior is few.sampleStats["lp"] or (few.logPosterior == few.sampleStats["lp"]).all()
    assert repr(few) == "<draws of sgld, seed 3: theta (25, 2), phi (25,), sum (25,); reduced mean, covariance>"


COPIES: dict[str, Callable[[sgmcmc.Draws], sgmcmc.Draws]] = {
    "method": lambda out: out.copy(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda out: pickle.loads(pickle.dumps(out)),
}


@pytest.mark.parametrize("way", COPIES)
def test_copies_know_all(few: sgmcmc.Draws, chains: sgmcmc.Draws, way: str) -> None:
    for out in (few, chains):
        copied = COPIES[way](out)
        assert copied is not out
        assert_same(copied, out)
        assert_same(copied[2:9], out[2:9])


def test_settings_are_what_was_asked_for(few: sgmcmc.Draws, chains: sgmcmc.Draws) -> None:
    asked = {"sampler": "sgld", "minibatchSize": 10, "nIters": 61, "seed": 3, "thin": 2, "burnIn": 10, "N": 100}
    assert asked.items() <= few.settings.items() and few.seed == 3 and few.nChains is None
    assert few.settings["stepsize"] == {"theta": 1e-3, "phi": 1e-3} and few.settings["gradients"] is True
    assert set(few.settings["reduce"]) == {"mean", "covariance"} and set(few.settings["collect"]) == set(few)
    assert (
        chains.nChains == 4 and chains.settings["alpha"] == {"theta": 0.02, "phi": 0.02} and chains.settings["L"] == 5
    )
    assert set(few.timings) == {"sampling", "total"} and few.divergence is None
    assert 0 < few.timings["sampling"] <= few.timings["total"]
    np.testing.assert_array_equal(few.iterations, np.arange(12, 61, 2))
    np.testing.assert_array_equal(chains.iterations, np.arange(101, 1601))


@pytest.mark.parametrize("key", [slice(3, None), slice(-4, None), slice(None, None, 5), slice(5, 20, 3), slice(9, 9)])
def test_slices_take_all_that_belongs_to_the_draws(few: sgmcmc.Draws, chains: sgmcmc.Draws, key: slice) -> None:
    for out, at in ((few, key), (chains, (slice(None), key))):
        part = out[key]
        assert type(part) is sgmcmc.Draws and part.settings == out.settings and part.reduced == out.reduced
        np.testing.assert_array_equal(part.iterations, out.iterations[key])
        for some, every in (
            (part, out),
            (part.sampleStats, out.sampleStats),
            (part.gradients or {}, out.gradients or {}),
        ):
            assert some.keys() == every.keys()
            for name, array in some.items():
                np.testing.assert_array_equal(array, every[name][at])
    assert few.gradients.keys() == {"theta", "phi"}


def test_burn_in_counts_iterations(few: sgmcmc.Draws) -> None:
    first = {0: 12, 11: 12, 12: 14, 13: 14, np.int64(59): 60}
    for k, iteration in first.items():
        part = few.burnIn(k)
        assert part.iterations[0] == iteration and len(part["theta"]) == len(part.logPosterior) == len(part.iterations)
        np.testing.assert_array_equal(part["theta"], few["theta"][-len(part.iterations) :])
    for k in (60, 10**6):
        assert few.burnIn(k)["theta"].shape == (0, 2)
    assert_same(few.burnIn(20).burnIn(30), few.burnIn(30))
    for bad in (-1, 1.5, True, "10"):
        with pytest.raises(ValueError, match=r"k of burnIn must be a number of iterations, .* got "):
            few.burnIn(bad)


# --- a file -------------------------------------------------------------------------------------------------------


def test_a_file_holds_all(few: sgmcmc.Draws, chains: sgmcmc.Draws, tmp_path: Path) -> None:
    diverged = few[:5]
    diverged.divergence = {"iteration": 21, "chain": 0, "parameter": "theta"}
    for out in (few, chains, diverged, few[:0]):
        for path in (tmp_path / "draws.npz", str(tmp_path / "draws.npz")):
            out.save(path)
            assert_same(sgmcmc.Draws.load(path), out)
    assert [path.name for path in tmp_path.iterdir()] == ["draws.npz"]
    with np.load(tmp_path / "draws.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive)


def test_bad_files_are_named(few: sgmcmc.Draws, tmp_path: Path) -> None:
    path = tmp_path / "draws.npz"
    with pytest.raises(
        ValueError, match=r"path of load must be what save or storage= made; got .*, which does not exist"
    ):
        sgmcmc.Draws.load(path)
    for bad in (5, tmp_path / "draws.npy"):
        for function, name in ((few.save, "save"), (sgmcmc.Draws.load, "load")):
            with pytest.raises(ValueError, match=rf"path of {name} must be a file name that ends in '.npz'.*; got "):
                function(bad)
    with pytest.raises(ValueError, match="path of save must be in a folder that exists; got "):
        few.save(tmp_path / "none" / "draws.npz")
    few.save(path)
    whole = path.read_bytes()
    np.savez(path, header=np.array("none"), iterations=np.arange(3))
    other = path.read_bytes()
    np.savez(path, theta=np.arange(3))
    arrays = path.read_bytes()
    np.save(tmp_path / "array.npy", np.arange(3))
    array = (tmp_path / "array.npy").read_bytes()
    for content in (b"", b"garbage", whole[:-100], whole[: len(whole) // 2], other, arrays, array):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"path of load must be what save or storage= made; got '.*draws\.npz'"):
            sgmcmc.Draws.load(path)


# --- the statistics of the sampler --------------------------------------------------------------------------------


def log_posterior(theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    return -0.5 * ((X - theta[:, None]) ** 2).sum(axis=(1, 2)) - 50.0 * (phi - 2.0) ** 2


FULL = MODEL | {"minibatchSize": 100, "dtype": "float64", "seed": 5, "nIters": 40}


def test_the_log_posterior_of_sgld_is_that_before_each_draw() -> None:
    out = sgmcmc.sgld(**FULL, stepsize=1e-3)
    theta, phi = np.vstack([[0.5, 0.5], out["theta"]]), np.append(2.0, out["phi"])
    assert set(out.sampleStats) == {"lp", "variance_ratio"} and out.logPosterior.dtype == np.float64
    np.testing.assert_allclose(out.logPosterior, log_posterior(theta, phi)[:-1], rtol=1e-10)
    squares = np.stack([(100 * (phi - 2)) ** 2, ((X.sum(axis=0) - 100 * theta) ** 2).mean(axis=1)], axis=1)[:-1]
    np.testing.assert_allclose(out.sampleStats["variance_ratio"], 1 + 1e-3 / 4 * squares, rtol=1e-8)


def test_the_statistics_of_sghmc_are_those_at_each_draw() -> None:
    """Of a schedule too; the momentum of each iteration is that of the chain run step by step."""
    eps = {"theta": sgmcmc.polynomial(1e-3, 10.0, 0.5), "phi": 1e-4}
    out = sgmcmc.sghmc(**FULL, stepsize=eps, alpha=0.1, L=3)
    np.testing.assert_allclose(out.logPosterior, log_posterior(out["theta"], out["phi"]), rtol=1e-10)
    k = np.arange(40.0)
    steps = np.stack([np.full(40, 1e-4), 1e-3 * (1 + k / 10.0) ** -0.5], axis=1)  # phi, theta
    assert set(out.sampleStats) == {"lp", "kinetic_temperature", "step_size"}
    np.testing.assert_allclose(out.sampleStats["step_size"], steps, rtol=1e-12)

    arguments = {name: value for name, value in FULL.items() if name not in ("nIters", "verbose")}
    sampler = sgmcmc.sghmcSetup(**arguments, stepsize=eps, alpha=0.1, L=3)
    sess = sgmcmc.initSess(sampler)
    for t in range(40):
        sgmcmc.sgmcmcStep(sampler, sess)
        memory = sess._loop.unflatten(sess.current()[0])[0].memory
        squares = [np.mean(memory[name]["momentum"].numpy() ** 2) for name in ("phi", "theta")]
        np.testing.assert_allclose(out.sampleStats["kinetic_temperature"][t], squares / steps[t], rtol=1e-10)


def test_the_statistics_of_sgnht_follow_from_its_draws() -> None:
    """The momentum is the difference of draws; it warms the thermostat. The density is that before each draw."""
    out = sgmcmc.sgnht(**FULL, stepsize={"theta": 1e-4, "phi": 1e-5}, a=0.05)
    theta, phi = np.vstack([[0.5, 0.5], out["theta"]]), np.append(2.0, out["phi"])
    np.testing.assert_allclose(out.logPosterior, log_posterior(theta, phi)[:-1], rtol=1e-10)
    squares = np.stack([np.diff(phi) ** 2, (np.diff(theta, axis=0) ** 2).mean(axis=1)], axis=1)
    steps = np.array([1e-5, 1e-4])
    assert set(out.sampleStats) == {"lp", "kinetic_temperature", "thermostat", "variance_ratio"}
    np.testing.assert_allclose(out.sampleStats["kinetic_temperature"], squares / steps, rtol=1e-6)
    thermostat = 0.05 + np.cumsum(squares - steps, axis=0)
    np.testing.assert_allclose(out.sampleStats["thermostat"], thermostat, rtol=1e-8)
    np.testing.assert_allclose(out.sampleStats["variance_ratio"], 1 - thermostat / 2, rtol=1e-8)


# --- a table ------------------------------------------------------------------------------------------------------

COLUMNS = ["mean", "sd", "5%", "50%", "95%", "mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat"]
TEMPERATURE = ["kinetic_temperature", "temperature_0.5%", "temperature_99.5%"]
RATIO = ["variance_ratio", "variance_ratio_0.5%", "variance_ratio_99.5%"]


def test_summary(chains: sgmcmc.Draws) -> None:
    table = chains.summary()
    assert list(table.columns) == [*COLUMNS, *TEMPERATURE, "temperature_right", *RATIO]
    assert sorted(table.index) == ["phi", "theta[0]", "theta[1]"]
    elements = {"phi": chains["phi"], "theta[0]": chains["theta"][..., 0], "theta[1]": chains["theta"][..., 1]}
    for name, values in elements.items():
        row, values = table.loc[name], values.astype(np.float64)
        numbers = [values.mean(), values.std(ddof=1), *np.quantile(values, [0.05, 0.5, 0.95])]
        np.testing.assert_allclose(row[COLUMNS[:5]].to_numpy(float), numbers, rtol=1e-3)
        np.testing.assert_allclose(row["mcse_mean"], row["sd"] / np.sqrt(row["ess_bulk"]), rtol=0.1)
        assert 0.99 < row["r_hat"] < 1.02 and 400 < row["ess_bulk"] < 20_000
        position = ["phi", "theta"].index(name.split("[")[0])
        temperature = chains.sampleStats["kinetic_temperature"][..., position].astype(np.float64)  # [4, 1500]
        batches = temperature.reshape(4 * BATCHES, -1).mean(axis=1)
        margin = scipy.stats.t.ppf(0.995, 4 * BATCHES - 1) * batches.std(ddof=1) / np.sqrt(len(batches))
        band = [temperature.mean(), temperature.mean() - margin, temperature.mean() + margin]
        np.testing.assert_allclose(row[TEMPERATURE].to_numpy(float), band, rtol=1e-4)
        assert 0.9 < band[0] < 1.1
        np.testing.assert_allclose(row["temperature_right"], (1 - 0.01 * 0.98**10) / 0.99)
        assert 1.15 < row["variance_ratio"] < 1.35  # 5 leaps


def test_what_users_put_into_the_dict_goes_with_it(few: sgmcmc.Draws, tmp_path: Path) -> None:
    out = few.copy()
    out["theta"] = np.exp(out["theta"])
    out["ratio"] = out["theta"][:, 0] / out["theta"][:, 1]
    del out["phi"]
    assert list(out[5:]) == list(out.copy()) == ["theta", "sum", "ratio"]
    np.testing.assert_array_equal(out[5:]["ratio"], out["ratio"][5:])
    np.testing.assert_allclose(out.summary().loc["ratio", "mean"], out["ratio"].mean(), rtol=1e-5)
    out.save(tmp_path / "out.npz")
    np.testing.assert_array_equal(sgmcmc.Draws.load(tmp_path / "out.npz")["theta"], np.exp(few["theta"]))


def test_arrays_of_another_length_are_refused(few: sgmcmc.Draws, chains: sgmcmc.Draws) -> None:
    """As what R's users write to drop a burn-in, of one parameter."""
    for out, lead, short in ((few.copy(), "25", "(20, 2)"), (chains.copy(), "4, 1500", "(4, 1495, 2)")):
        message = (
            f"out['theta'] must have shape ({lead}, ...), as many draws as the others; got {short}. To drop draws, "
            "drop them from all arrays: out = out.burnIn(k) drops those of the first k iterations, out = out[k:] the "
            "first k draws."
        )
        before, part = out["theta"], out["theta"][5:] if out.nChains is None else out["theta"][:, 5:]

        def assign(out: sgmcmc.Draws = out, part: np.ndarray = part) -> None:
            out["theta"] = part

        def merge(out: sgmcmc.Draws = out, part: np.ndarray = part) -> None:
            out |= {"theta": part}

        ways = (assign, merge, lambda out=out, part=part: out.update(theta=part))
        for way in ways:
            with pytest.raises(ValueError) as refused:
                way()
            assert str(refused.value) == message and out["theta"] is before
        for bad in (1.0, "a note"):
            with pytest.raises(ValueError, match=r"out\['note'\] must have shape .* got \(\)"):
                out.setdefault("note", bad)
        assert out.setdefault("theta", None) is before
    few.copy()["list"] = [0.0] * 25


@pytest.mark.parametrize("array", [np.array(["a", "b"] * 15)[:30], np.full(30, 1j), np.full(30, None)])
def test_only_real_numbers_are_put_into_the_dict(few: sgmcmc.Draws, array: np.ndarray) -> None:
    array = np.resize(array, len(few.iterations))
    with pytest.raises(ValueError, match=r"out\['new'\] must have real numbers; got "):
        few["new"] = array


def test_draws_of_two_runs_are_not_joined_by_an_operator(few: sgmcmc.Draws, chains: sgmcmc.Draws) -> None:
    with pytest.raises(TypeError, match="would keep those of the second alone"):
        few | chains
    doubled = few | {"twice": 2 * few["theta"]}
    assert isinstance(doubled, sgmcmc.Draws) and "twice" not in few
    np.testing.assert_array_equal(doubled["twice"], 2 * few["theta"])


@pytest.mark.parametrize("key", [[1, 2], np.array([True, False]), (1, 2)])
def test_draws_are_selected_by_slices(few: sgmcmc.Draws, key: Any) -> None:
    with pytest.raises(TypeError, match="draws are selected by a slice, such as"):
        few[key]


@pytest.mark.parametrize("argument", ["weighted", "diagnostics"])
def test_flags_of_summary_are_flags(few: sgmcmc.Draws, argument: str) -> None:
    with pytest.raises(ValueError, match=f"{argument} of summary must be True or False; got 'no'"):
        few.summary(**{argument: "no"})


def test_an_attribute_that_is_a_parameter_is_pointed_to(few: sgmcmc.Draws) -> None:
    with pytest.raises(
        AttributeError, match=r"'Draws' has no attribute 'theta'; the draws of 'theta' are out\['theta'\]"
    ):
        _ = few.theta
    with pytest.raises(AttributeError, match=r"'Draws' has no attribute 'psi'$"):
        _ = few.psi
    assert not hasattr(few, "theta")


@pytest.mark.parametrize("bad", ["draw", "chain", "a/b"])
def test_names_that_arviz_cannot_hold_are_named(few: sgmcmc.Draws, bad: str) -> None:
    out = few.copy()
    out[bad] = out["phi"]
    with pytest.raises(ValueError, match=f"names for toArviz must be usable in xarray; got .*{bad}"):
        out.toArviz()


def test_a_parameter_named_like_a_dimension_is_kept(few: sgmcmc.Draws) -> None:
    out = few.copy()
    out["theta_dim_0"] = out["phi"]
    assert set(out.summary().index) == {"phi", "sum", "theta[0]", "theta[1]", "theta_dim_0"}


def made_up(arrays: Tree, n_chains: int | None, n_draws: int) -> sgmcmc.Draws:
    """Draws of no sampler, from arrays [C, T, ...]."""
    settings = {"sampler": "none", "seed": 1, "stepsize": dict.fromkeys(arrays, 1.0), "dtype": "float64"}
    return sgmcmc.Draws({"posterior": arrays}, nChains=n_chains, iterations=range(1, n_draws + 1), settings=settings)


@pytest.mark.parametrize("n_draws", [4, 5, 6, 7, 8, 9, 20, 101])
@pytest.mark.parametrize("n_chains", [1, 2, 5])
def test_the_diagnostics_are_those_of_arviz(n_chains: int, n_draws: int) -> None:
    """To rounding: of slow and of alternating chains, numbers that repeat, stand still, or differ between chains."""
    rng = np.random.default_rng(n_draws)
    x = rng.normal(size=(n_chains, n_draws, 6))
    for t in range(1, n_draws):
        x[:, t] += np.array([0.0, 0.9, 0.99, -0.9, 0.5, 0.5]) * x[:, t - 1]
    x[..., 4] += np.arange(n_chains)[:, None]
    arrays = {"x": x, "whole": np.round(x), "still": np.ones((n_chains, n_draws)), "flag": x > 0}
    table = made_up(arrays, None if n_chains == 1 else n_chains, n_draws).summary()
    assert list(table.index[:2]) == ["x[0]", "x[1]"] and list(table.columns) == COLUMNS
    posterior = xr.Dataset({name: (("chain", "draw", "k")[: a.ndim], a.astype(float)) for name, a in arrays.items()})
    ways = {"mcse_mean": ("mcse", {"method": "mean"}), "mcse_sd": ("mcse", {"method": "sd"}), "r_hat": ("rhat", {})}
    ways |= {"ess_bulk": ("ess", {"method": "bulk"}), "ess_tail": ("ess", {"method": "tail", "prob": (0.05, 0.95)})}
    for column, (function, arguments) in ways.items():
        with np.errstate(invalid="ignore", divide="ignore"):
            exact = getattr(arviz_stats, function)(posterior, **arguments)
        exact = np.concatenate([np.ravel(exact[name]) for name in arrays])
        np.testing.assert_allclose(table[column], exact, rtol=1e-9, err_msg=column)


def test_summary_of_some_names(chains: sgmcmc.Draws) -> None:
    table = chains.summary()
    for names, rows in (
        ("phi", ["phi"]),
        (["theta[1]", "phi"], ["theta[1]", "phi"]),
        ("theta", ["theta[0]", "theta[1]"]),
    ):
        pd.testing.assert_frame_equal(chains.summary(names), table.loc[rows])
        pd.testing.assert_frame_equal(chains.summary(names=names), table.loc[rows])
    with pytest.raises(
        ValueError, match=r"names of summary must be among 'phi', 'theta', or their elements.*got 'psi'"
    ):
        chains.summary("psi")


def test_summary_in_blocks(chains: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = chains.summary()
    monkeypatch.setattr("sgmcmc.draws.summary.BLOCK", 1)
    pd.testing.assert_frame_equal(chains.summary(), whole)


def test_summary_of_what_is_not_finite(few: sgmcmc.Draws) -> None:
    out = few.copy()
    out["log"] = np.where(np.arange(25) == 3, -np.inf, 0.0)
    row = out.summary("log").loc["log"]
    assert np.isnan(row["ess_bulk"]) and np.isnan(row["mcse_mean"]) and row["50%"] == 0.0


def test_summary_sees_chains_that_disagree(chains: sgmcmc.Draws) -> None:
    apart = chains.copy()
    shifted = chains["theta"] + np.arange(4.0, dtype=np.float32)[:, None, None]
    apart["theta"] = shifted
    assert apart.summary().loc["theta[0]", "r_hat"] > 2


def test_summary_of_a_sampler_without_momentum(few: sgmcmc.Draws) -> None:
    """What `collect` made has the variance ratio of the parameter that is off most."""
    table = few.summary()
    assert list(table.columns) == COLUMNS + RATIO and sorted(table.index) == ["phi", "sum", "theta[0]", "theta[1]"]
    told = few.sampleStats["variance_ratio"][-20:].mean(axis=0)
    np.testing.assert_allclose(table.loc[["phi", "theta[0]", "theta[1]"], "variance_ratio"], told[[0, 1, 1]], rtol=1e-6)
    assert (
        told[1] - 1 > abs(told[0] - 1) and table.loc["sum", "variance_ratio"] == table.loc["theta[0]", "variance_ratio"]
    )
    np.testing.assert_allclose(table.loc["sum", "mean"], few["sum"].mean(), rtol=1e-4)
    with pytest.raises(ValueError, match="summary needs draws; there are none"):
        few[:0].summary()


def test_a_hot_chain_is_warned_of(chains: sgmcmc.Draws) -> None:
    """Of single observations and large steps; by name, and in the user's own line."""
    message = r"the kinetic temperature of 'theta' is .*, not 1.03 as in a well-tuned sghmc; gradient noise"
    hot = {"stepsize": {"theta": 1e-3, "phi": 1e-4}, "minibatchSize": 1, "alpha": 0.1, "seed": 1}
    with pytest.warns(UserWarning, match=message) as warned:
        out = sgmcmc.sghmc(**MODEL, **hot, nIters=1000)
    assert len(warned) == 1 and warned[0].filename == __file__
    assert out.sampleStats["kinetic_temperature"][:, 1].mean() > 2
    assert np.abs(chains.sampleStats["kinetic_temperature"].mean(axis=(0, 1)) - 1).max() < 0.1


# --- predictions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 700, 2**22])
def test_predictions_are_averages_over_all_draws(
    chains: sgmcmc.Draws, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgmcmc.draws.predictions.BLOCK", block)
    out = chains[::50]
    z = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])
    predicted = out.predict(lambda p, d: tf.linalg.matvec(d["z"], p["theta"]) + p["phi"], {"z": z}, (0.025, 0.9))
    values = (out["theta"].reshape(-1, 2) @ z.T + out["phi"].reshape(-1, 1)).astype(np.float64)  # [C T, 3]
    exact = {"mean": values.mean(axis=0), "sd": values.std(axis=0)}
    exact |= {"2.5%": np.quantile(values, 0.025, axis=0), "90%": np.quantile(values, 0.9, axis=0)}
    assert predicted.keys() == exact.keys()
    for name, value in exact.items():
        np.testing.assert_allclose(predicted[name], value, rtol=1e-5)


def test_predictions_of_parameters_alone_and_without_quantiles(few: sgmcmc.Draws) -> None:
    predicted = few.predict(lambda params: params["theta"] > 0.9, quantiles=())
    assert predicted.keys() == {"mean", "sd"}
    np.testing.assert_allclose(predicted["mean"], (few["theta"] > 0.9).mean(axis=0), rtol=1e-6)


def test_predictions_are_judged_as_parameters_are(chains: sgmcmc.Draws, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the identity, in blocks of two columns."""
    monkeypatch.setattr("sgmcmc.draws.predictions.BLOCK", 2 * chains["theta"][..., 0].size)
    predicted = chains.predict(lambda params: params["theta"], quantiles=(), diagnostics=True)
    assert predicted.keys() == {"mean", "sd", "ess_bulk", "r_hat"}
    table = chains.summary("theta")
    for column in ("ess_bulk", "r_hat"):
        np.testing.assert_allclose(predicted[column].ravel(), table[column], rtol=1e-6)


def test_predictions_that_are_certain_have_no_r_hat_and_no_warning(chains: sgmcmc.Draws) -> None:
    def certain(params: Tree) -> tf.Tensor:
        return tf.stack([1.0 + 0.0 * tf.reduce_sum(params["theta"]), tf.reduce_sum(params["theta"])])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = chains.predict(certain, quantiles=(), diagnostics=True)
    np.testing.assert_array_equal(np.isnan(predicted["r_hat"]), [True, False])


def test_data_for_predictions_have_the_types_of_the_samplers_own() -> None:
    group = np.arange(60) % 3
    out = sgmcmc.sgld(
        lambda p, d: -((d["x"] - tf.gather(p["mu"], d["group"])) ** 2), {"x": np.ones(60), "group": group},
        {"mu": np.zeros(3)}, 1e-3, integers=["group"], minibatchSize=30, nIters=5, verbose=False, seed=1,
    )  # fmt: skip
    predicted = out.predict(
        lambda p, d: d["scale"] * tf.gather(p["mu"], d["group"]), {"group": [2, 0], "scale": [1, 2]}
    )
    np.testing.assert_allclose(predicted["mean"], out["mu"][:, [2, 0]].mean(axis=0) * [1, 2], rtol=1e-5)


BAD_PREDICTIONS: list[tuple[tuple, str]] = [
    ((5,), "function of predict must be a function of params in TensorFlow operations; got 5."),
    ((lambda p: p["psi"],), "in TensorFlow operations; it raised KeyError: 'psi'"),
    ((lambda p, d: p["phi"], [1.0]), "dataset of predict must be None or a dict of arrays; got list."),
    ((lambda p, d: p["phi"], {"x": ["a"]}), "dataset['x'] of predict must be an array of real numbers; got strings"),
    ((lambda p, d: p["phi"], {"x": [np.nan]}), "dataset['x'] of predict must be finite in float32; got nan at"),
    ((lambda p, d: p["phi"], {"x": [2**24 + 1]}), "dataset['x'] of predict must hold integers that float32 represents"),
    ((lambda p, d: p["phi"], {"x": np.ma.masked_equal([1, 2], 1)}), "without masked values; got 1 masked."),
    ((lambda p: p["phi"], None, [5]), "quantiles of predict must be numbers in (0, 1), or an empty list; got [5]."),
    ((lambda p: p["phi"], None, 0.5), "quantiles of predict must be numbers in (0, 1), or an empty list; got 0.5."),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD_PREDICTIONS, ids=[b[1][:30] for b in BAD_PREDICTIONS])
def test_bad_arguments_of_predict_are_named(few: sgmcmc.Draws, arguments: tuple, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        few.predict(*arguments)
    assert sentence in str(refused.value)
    with pytest.raises(ValueError, match="predict needs draws; there are none"):
        few[:0].predict(lambda p: p["phi"])


# --- ArviZ --------------------------------------------------------------------------------------------------------


def test_arviz_of_several_chains(chains: sgmcmc.Draws) -> None:
    tree = chains.toArviz()
    assert isinstance(tree, xr.DataTree) and set(tree.children) == {"posterior", "sample_stats"}
    posterior, stats = tree["posterior"], tree["sample_stats"]
    assert posterior["theta"].dims == ("chain", "draw", "theta_dim_0") and posterior["phi"].dims == ("chain", "draw")
    np.testing.assert_array_equal(posterior["theta"], chains["theta"])
    np.testing.assert_array_equal(posterior["chain"], range(4))
    np.testing.assert_array_equal(posterior["draw"], range(101, 1601))  # the iterations
    assert set(stats.data_vars) == {"lp", "kinetic_temperature", "step_size", "minibatch_size"}
    assert stats["kinetic_temperature"].dims == stats["step_size"].dims == ("chain", "draw", "parameter")
    assert list(stats["parameter"].values) == ["phi", "theta"]
    for position, name in enumerate(("phi", "theta")):
        temperature = stats["kinetic_temperature"].sel(parameter=name)
        np.testing.assert_array_equal(temperature, chains.sampleStats["kinetic_temperature"][..., position])
    np.testing.assert_array_equal(stats["lp"], chains.logPosterior)
    assert (stats["step_size"] == 4e-4).all() and (stats["minibatch_size"] == 100).all()
    assert {"inference_library": "sgmcmc", "sampler": "sghmc", "seed": "1"}.items() <= tree.attrs.items()


def test_arviz_of_one_chain(few: sgmcmc.Draws) -> None:
    tree = few.toArviz()
    assert set(tree.children) == {"posterior", "sample_stats", "gradients"}
    assert tree["posterior"]["theta"].shape == tree["gradients"]["theta"].shape == (1, 25, 2)
    np.testing.assert_array_equal(tree["posterior"]["theta"][0], few["theta"])
    np.testing.assert_array_equal(tree["gradients"]["theta"][0], few.gradients["theta"])
    assert set(tree["posterior"].data_vars) == set(few) and (tree["sample_stats"]["minibatch_size"] == 10).all()
    assert few.sampleStats.keys() == {"lp", "variance_ratio"}  # which the conversion did not add to


@pytest.mark.parametrize("missing", ["arviz_base", "arviz_stats"])
@pytest.mark.parametrize("function", ["toArviz", "summary"])
def test_what_is_missing_is_named_with_how_to_get_it(
    few: sgmcmc.Draws, missing: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=f"^{function} needs ArviZ: pip install arviz-base "):
        getattr(few, function)()
