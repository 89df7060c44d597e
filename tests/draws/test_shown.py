"""What is printed: in 80 columns, with the digits that the Monte Carlo error leaves; and tables in notebooks."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.draws.draws import Draws

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 2))
DATASET = {"X": X, "y": X @ [1.0, -0.5] + RNG.normal(size=1000)}


def log_lik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.linalg.matvec(dataset["X"], params["beta"])) ** 2)


@pytest.fixture(scope="module")
def out() -> Draws:
    options = {"minibatchSize": 100, "nIters": 1000, "nChains": 2, "verbose": False, "seed": 1}
    return sgmcmc.sgldcv(log_lik, DATASET, {"beta": np.zeros(2)}, **options)


@pytest.fixture(autouse=True)
def terminal(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_summary_is_printed_in_80_columns(out):
    table = out.summary()
    text = str(table)
    assert max(map(len, text.splitlines())) <= 80
    assert re.split(r"\s{2,}", text.splitlines()[0].strip()) == [
        "mean", "sd", "5%", "95%", "ess", "ess", "r_hat", "expected",
    ]  # fmt: skip
    first = re.split(r"\s{2,}", text.splitlines()[2])
    places = int(-np.floor(np.log10(table["mcse_mean"].iloc[0])))
    assert first[:2] == ["beta[0]", f"{table['mean'].iloc[0]:.{places}f}"]
    assert first[5] == f"{table['ess_bulk'].iloc[0]:.0f}"
    assert text == repr(table)
    assert "6 more columns" in text
    assert f"<td>{first[1]}</td>" in table._repr_html_()


def test_parts_of_a_summary_are_data_frames_as_any(out):
    table = out.summary()
    assert type(table[["mean", "sd"]]) is type(table.round(2)) is pd.DataFrame
    assert set(out.summary(diagnostics=False).columns) == {
        "mean",
        "sd",
        "5%",
        "50%",
        "95%",
        "expected_sd_ratio",
        *RATIO,
    }


RATIO = ["variance_ratio", "variance_ratio_0.5%", "variance_ratio_99.5%"]


def test_draws_and_a_check_are_printed_with_their_tables(out):
    assert str(out).splitlines()[0] == "2 chains of 1000 draws of sgldcv, seed 1"
    assert "beta[1]" in str(out) and repr(out) == "<draws of sgldcv, seed 1: beta (2, 1000, 2)>"
    found = out.check(verbose=False)
    assert str(found).split()[:1] == found.verdict.split()[:1]
    assert max(map(len, str(found).splitlines())) <= 80
    for shown in (out, found, sgmcmc.sgldSetup(log_lik, DATASET, {"beta": np.zeros(2)}, 1e-4)):
        assert "<table" in shown._repr_html_()


def draws_of(values: np.ndarray) -> Draws:
    """Of theta, [C, T, D]."""
    settings = {"sampler": "sgld", "seed": 3, "thin": 1, "burnIn": 0}
    return Draws(
        {"posterior": {"theta": values}},
        nChains=len(values),
        iterations=range(1, values.shape[1] + 1),
        settings=settings | {"stepsize": {"theta": 1.0}, "parameters": ["theta"]},
    )


def test_draws_of_many_elements_show_the_first():
    values = RNG.normal(size=(2, 50, 30))
    draws = draws_of(values)
    assert "theta[9]" in str(draws) and "theta[10]" not in str(draws)
    assert "20 more elements: see summary()." in str(draws)
    assert str(draws[:0]).endswith("No draws are stored.")
    with pd.option_context("display.max_rows", 6):
        lines = str(draws.summary()).splitlines()
    shown = [line.split()[0].removeprefix("theta") for line in lines[2:-1]]
    assert shown == ["[0]", "[1]", "[2]", "...", "[27]", "[28]", "[29]"]


def test_a_row_that_is_constant_or_huge_is_shown_too():
    values = np.stack([np.zeros(100), np.full(100, 1e12), np.full(100, np.nan)], axis=1)[None]
    draws = draws_of(values)
    rows = [line.split()[1] for line in str(draws.summary()).splitlines()[2:5]]
    assert rows == ["0", "1e+12", "-"]
