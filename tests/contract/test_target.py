"""target="sandwich": the covariance that users get, and the column sd_sandwich of a check.

It uses the inside of the package: it needs the model of a sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import preferential, saga, sgld, sgldcv, sgldcvSetup, sgldSetup, shards
from sgmcmc.arguments.sampler import Sgmcmc

N, D = 400, 3
SETUP: dict[str, Any] = {"seed": 1, "target": "sandwich", "dtype": "float64"}
COMMON = SETUP | {"verbose": False}


def heteroscedastic(size: int = N, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(size), rng.normal(size=(size, D - 1))])
    return {"x": x, "y": x @ np.arange(D) + rng.normal(size=size) * (0.3 + 1.5 * np.abs(x[:, 1]))}


DATA = heteroscedastic()


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * (dataset["y"] - tf.linalg.matvec(dataset["x"], params["beta"])) ** 2


def hc0(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The least squares estimate, and the covariance of MacKinnon and White (1985) that is called HC0."""
    x, y = data["x"], data["y"]
    bread = np.linalg.inv(x.T @ x)
    beta = bread @ x.T @ y
    scores = x * (y - x @ beta)[:, None]
    return beta, bread @ scores.T @ scores @ bread


def exact_covariance(sampler: Sgmcmc, n: int, centred: bool) -> np.ndarray:
    """Of the chain that these constants make, from minibatches drawn with replacement.

    With d = beta - mode, a gradient is N/n sum_i (s_i - h_i d), h_i = x_i x_i^T, and with control variates without s_i.
    So the covariance C solves C = E[A C A^T] + eps^2/4 M Var(s) M + eps B B^T, with A = 1 - eps/2 M N/n sum_i h_i.
    """
    constants = sampler.prepared(False).constants
    eps = float(constants["stepsize"].numpy().ravel()[0])
    root, noise = (constants["preconditioner"][key].numpy() for key in ("dense", "noise"))
    moved = eps / 2 * root @ root.T
    x, (beta, _) = DATA["x"], hc0(DATA)
    h, one = np.einsum("ni,nj->nij", x, x), np.eye(D)
    mean = one - moved @ h.sum(axis=0)
    of_rows = N**2 / n * (np.einsum("nij,nkl->ikjl", h, h).reshape(D**2, D**2) / N)
    of_rows -= np.kron(h.sum(axis=0), h.sum(axis=0)) / n
    operator = np.kron(mean, mean) + np.kron(moved, moved) @ of_rows
    s = x * (DATA["y"] - x @ beta)[:, None] * (not centred)
    added = moved @ (N / n * s.T @ s) @ moved + eps * root @ noise @ noise.T @ root.T
    return np.linalg.solve(np.eye(D**2) - operator, added.ravel()).reshape(D, D)


def relative(covariance: np.ndarray) -> np.ndarray:
    """The eigenvalues of a covariance relative to HC0."""
    return np.linalg.eigvals(np.linalg.solve(hc0(DATA)[1], covariance)).real


@pytest.mark.parametrize("of", [sgldSetup, sgldcvSetup])
@pytest.mark.parametrize("n", [20, 200])
def test_the_stationary_covariance_is_hc0(of: Callable, n: int) -> None:
    """Within 3%, since the noise around the mode is estimated from 16 draws."""
    verbose = {"verbose": False} if of is sgldcvSetup else {}
    given = SETUP | verbose | {"minibatchSize": n, "subsampling": "withReplacement"}
    sampler = of(log_lik, DATA, {"beta": np.zeros(D)}, **given)
    found = relative(exact_covariance(sampler, n, of is sgldcvSetup))
    np.testing.assert_allclose(found, 1.0, atol=0.03)


@pytest.mark.parametrize("of", [sgld, sgldcv])
def test_the_draws_have_it(of: Callable) -> None:
    """All variances within 4.9 standard errors, so three of them fail by chance in fewer than 1 of 300,000 runs."""
    out = of(log_lik, DATA, {"beta": np.zeros(D)}, minibatchSize=40, nIters="auto", ess=4000, **COMMON)
    beta, covariance = hc0(DATA)
    draws = out["beta"].reshape(-1, D)
    ess = out.summary()["ess_bulk"].min()
    np.testing.assert_allclose(draws.var(axis=0) / np.diag(covariance), 1.0, atol=0.03 + 4.9 * (2 / ess) ** 0.5)
    np.testing.assert_allclose((draws.mean(axis=0) - beta) / np.diag(covariance) ** 0.5, 0, atol=4.9 / ess**0.5)
    found = out.check(verbose=False)
    assert found.isGood, found.verdict
    assert not found.note
    np.testing.assert_allclose(found.table["expected_sd_ratio"], 1.0)
    np.testing.assert_allclose(found.table["found_sd_ratio"], 1.0, atol=0.1)
    np.testing.assert_allclose(out.settings["expected"]["sd"]["beta"], np.diag(covariance) ** 0.5, rtol=1e-6)
    assert not out.summary().columns.str.startswith("variance_ratio").any()


def test_a_check_shows_a_model_that_does_not_fit() -> None:
    common = COMMON | {"target": "posterior"}
    out = sgldcv(log_lik, DATA, {"beta": np.zeros(D)}, minibatchSize=40, nIters="auto", **common)
    found = out.check(verbose=False)
    np.testing.assert_allclose(found.table["sd_sandwich"], np.diag(hc0(DATA)[1]) ** 0.5, rtol=1e-6)
    assert found.isGood
    assert "times the posterior's sd for 'beta[1]'" in found.note
    assert found.note in repr(found)


def test_a_model_that_fits_has_no_note() -> None:
    rng = np.random.default_rng(1)
    data = {"x": DATA["x"], "y": DATA["x"] @ np.arange(D) + rng.normal(size=N)}
    common = COMMON | {"target": "posterior"}
    out = sgldcv(log_lik, data, {"beta": np.zeros(D)}, minibatchSize=40, nIters="auto", **common)
    assert out.check(verbose=False).note == ""


def test_a_prior_that_says_more_than_the_data_gives_no_note() -> None:
    common = COMMON | {"target": "posterior"}
    out = sgldcv(log_lik, DATA, {"beta": np.zeros(D)}, minibatchSize=40, nIters="auto", **common,
                 logPrior=lambda p: -1000.0 * tf.reduce_sum(p["beta"] ** 2))  # fmt: skip
    assert out.check(verbose=False).note == ""


def test_resumed_chains_are_the_same(tmp_path: Path) -> None:
    given = (log_lik, DATA, {"beta": np.zeros(D)})
    common = COMMON | {"minibatchSize": 40, "nChains": 2}
    whole = sgld(*given, nIters=1500, **common)
    sgld(*given, nIters=700, storage=tmp_path / "a.zarr", **common)
    resumed = sgld(*given, nIters=1500, storage=tmp_path / "a.zarr", resume=True, **common)
    np.testing.assert_array_equal(whole["beta"], resumed["beta"])
    with pytest.raises(ValueError, match="target of sgld must be what it was when"):
        sgld(*given, nIters=1500, storage=tmp_path / "a.zarr", resume=True, **common | {"target": "posterior"})


def test_weights_are_taken_into_account() -> None:
    """Preferential minibatches of plain gradients: a smaller noise, so a larger stepsize, and the same covariance."""
    given, common = (log_lik, DATA, {"beta": np.zeros(D)}), COMMON | {"minibatchSize": 10}
    weighted = sgld(*given, nIters="auto", ess=3000, subsampling=preferential(), **common)
    ratios = weighted["beta"].reshape(-1, D).var(axis=0) / np.diag(hc0(DATA)[1])
    ess = weighted.summary()["ess_bulk"].min()
    np.testing.assert_allclose(ratios, 1.0, atol=0.04 + 4.9 * (2 / ess) ** 0.5)


def test_it_finds_a_size_too() -> None:
    out = sgldcv(log_lik, DATA, {"beta": np.zeros(D)}, minibatchSize="auto", nIters=100, **COMMON)
    assert 1 <= out.settings["minibatchSize"] <= N


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "mode"}, "target of sgld must be 'posterior' or 'sandwich'; got 'mode'"),
        ({"target": None}, "target of sgld must be 'posterior' or 'sandwich'; got None"),
        ({"stepsize": 1e-3}, "stepsize of sgld must be 'auto' for target='sandwich'; got 0.001"),
        ({"preconditioner": "diagonal"}, "preconditioner of sgld must be 'dense' for target='sandwich'"),
        ({"preconditioner": np.eye(D)}, "preconditioner of sgld must be 'dense' for target='sandwich'"),
        ({"temperature": 2.0}, "temperature of sgld must be 1 for target='sandwich'; got 2"),
        ({"gradient": saga()}, "gradient of sgld must be None for target='sandwich'"),
        ({"dataset": shards([DATA, DATA])}, "dataset of sgld must have no shards for target='sandwich'"),
    ],
)
def test_what_it_cannot_be_combined_with(options: dict, message: str) -> None:
    given: dict[str, Any] = {"logLik": log_lik, "dataset": DATA, "params": {"beta": np.zeros(D)}, "minibatchSize": 40}
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        sgldSetup(**given | SETUP | options)


def test_gradients_are_not_stored_for_what_is_about_the_posterior() -> None:
    with pytest.raises(ValueError, match="gradients of sgld must be False unless the target is the posterior"):
        sgld(log_lik, DATA, {"beta": np.zeros(D)}, minibatchSize=40, nIters=10, gradients=True, **COMMON)


def test_a_direction_of_which_the_data_say_nothing_is_refused() -> None:
    params = {"beta": np.zeros(D), "free": 0.5}
    with pytest.raises(ValueError, match=r"are 0 in a direction, mostly along \['free'\]"):
        sgldcv(lambda p, d: log_lik(p, d) + 0 * p["free"], DATA, params, minibatchSize=40, nIters=10, **COMMON,
               logPrior=lambda p: -0.5 * p["free"] ** 2)  # fmt: skip


def test_a_prior_that_says_most_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"the prior of sgldcv contributes 84% of the precision along \['beta'\]"):
        sgldcv(log_lik, DATA, {"beta": np.zeros(D)}, minibatchSize=40, nIters=200, **COMMON,
               logPrior=lambda p: -1000.0 * tf.reduce_sum(p["beta"] ** 2))  # fmt: skip
