"""More elements than matrices can have: the curvature by products, the stepsize, and the chain that users get.

It uses the inside of the package: it compares curvature and preconditioner with dense matrices.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import preferential, saga, sghmccv, sgld, sgldcv, sgldcvSetup, sgnhtcv
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.core.transforms import Coordinates, low_rank
from sgmcmc.core.trees import numbered
from sgmcmc.laplace.high_dimensional import low_rank_curvature

PRIOR = 4.0  # the prior's precision


class Regression:
    """A linear one on the levels of some fields, whose effects are confounded but for the prior."""

    def __init__(self, size: int, fields: int, n_data: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        per_field = size // fields
        level = np.minimum((rng.pareto(1.0, size=(n_data, fields)) * per_field / 4).astype(int), per_field - 1)
        self.size, index = size, level + per_field * np.arange(fields)
        y = rng.normal(size=size)[index].sum(axis=1) / 2 + rng.normal(size=n_data)
        self.data = {"index": index.astype(np.int32), "y": y}
        self.x = np.zeros((n_data, size))
        np.put_along_axis(self.x, index, 1.0, axis=1)
        self.precision = self.x.T @ self.x + PRIOR * np.eye(size)
        self.covariance = np.linalg.inv(self.precision)
        self.mean = self.covariance @ self.x.T @ y
        self.given = (log_lik, self.data, {"beta": np.zeros(size)})

    @property
    def sds(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * (dataset["y"] - tf.reduce_sum(tf.gather(params["beta"], dataset["index"]), axis=1)) ** 2


COMMON: dict[str, Any] = {
    "logPrior": lambda p: -0.5 * PRIOR * tf.reduce_sum(p["beta"] ** 2),
    "integers": ["index"],
    "minibatchSize": 200,
    "seed": 1,
    "verbose": False,
}
SMALL = Regression(12, 3, 300)


@pytest.fixture(scope="module")
def large() -> Regression:
    return Regression(2100, 3, 20_000)


def test_the_coordinates_are_those_of_their_matrix() -> None:
    rng = np.random.default_rng(0)
    elements = numbered({"a": (2, 3), "b": (4,)})
    scale, stretch = rng.uniform(1, 2, 10), np.array([0.5, -0.3])
    vectors = np.linalg.qr(rng.normal(size=(10, 2)))[0]
    matrix = scale[:, None] * (np.eye(10) + vectors * stretch @ vectors.T)
    at = Coordinates(low_rank(scale, vectors, stretch, elements, tf.float64), elements)
    flat = rng.normal(size=(5, 10))
    tree = {"a": tf.constant(flat[:, :6].reshape(5, 2, 3)), "b": tf.constant(flat[:, 6:])}

    def joined(found: dict) -> np.ndarray:
        return np.concatenate([found["a"].numpy().reshape(5, 6), found["b"].numpy()], axis=1)

    np.testing.assert_allclose(joined(at.of_gradient(tree)), flat @ matrix)
    np.testing.assert_allclose(joined(at.moved(tree, tree)), flat + flat @ matrix.T)


@pytest.mark.parametrize("fields", [3, 30])
def test_the_curvature_is_that_of_the_matrix(fields: int) -> None:
    """All eigenvalues of R that are far from 1, the bounds of the others, and the sds, which are within 15%.

    One small eigenvalue for each field but the first: nearly equal ones, of which Lanczos iterations may miss some.
    """
    problem = Regression(2100, fields, 20_000)
    sampler = sgldcvSetup(*problem.given, 1e-6, preconditioner=None, **COMMON)
    diagonal = np.diag(problem.precision)
    rough = diagonal * np.random.default_rng(3).uniform(0.2, 5.0, problem.size)
    found = low_rank_curvature(sampler.posterior, problem.mean, rough, 1, False)
    np.testing.assert_allclose(found.scale**-2, diagonal, rtol=0.3)
    of_r = np.linalg.eigvalsh(found.scale[:, None] * problem.precision * found.scale)
    low, high = found.values[found.values < 1], found.values[found.values > 1]
    assert fields - 1 <= len(low)
    np.testing.assert_allclose(np.sort(low), of_r[: len(low)], rtol=0.02)
    np.testing.assert_allclose(np.sort(high), of_r[len(of_r) - len(high) :], rtol=0.02)
    np.testing.assert_allclose([found.low, found.high], of_r[[len(low), -1 - len(high)]], rtol=0.02)
    np.testing.assert_allclose(found.sds, problem.sds, rtol=0.15)


def exact_ratios(problem: Regression, sampler: Sgmcmc, n: int) -> np.ndarray:
    """The sds of the stationary distribution of this chain over the posterior's, of minibatches with replacement.

    With control variates a gradient is -(prior + N/n sum_i h_i) d, h_i = x_i x_i^T, with d = beta - mode. The
    covariance C solves C = E[A C A^T] + eps M, with A = 1 - eps/2 M (prior + N/n sum_i h_i).
    """
    constants = sampler.prepared(False).constants
    eps, root = float(constants["stepsize"].numpy().ravel()[0]), constants["preconditioner"]
    vectors, stretch = (root["lowRank"][key].numpy() for key in ("vectors", "stretch"))
    scale, d = root["diagonal"]["beta"].numpy(), problem.size
    matrix = scale[:, None] * (np.eye(d) + vectors * stretch @ vectors.T)
    moved, x = eps / 2 * matrix @ matrix.T, problem.x
    h, mean = np.einsum("ni,nj->nij", x, x), np.eye(d) - moved @ problem.precision
    squares = np.einsum("nij,nkl->ikjl", h, h, optimize=True).reshape(d**2, d**2)
    of_noise = (len(x) * squares - np.kron(x.T @ x, x.T @ x)) / n
    operator = np.kron(mean, mean) + np.kron(moved, moved) @ of_noise
    covariance = np.linalg.solve(np.eye(d**2) - operator, (2 * moved).ravel()).reshape(d, d)
    return np.sqrt(np.diag(covariance)) / problem.sds


@pytest.mark.parametrize("n", [10, 100])
def test_sds_of_the_stationary_distribution_are_as_expected(n: int) -> None:
    """Every element is within the tolerance; the largest error is at least half of what was expected."""
    common = COMMON | {"minibatchSize": n, "dtype": "float64", "subsampling": "withReplacement"}
    sampler = sgldcvSetup(*SMALL.given, preconditioner="lowRank", **common)
    exact, tuning = exact_ratios(SMALL, sampler, n), sampler.prepared(False).tuning
    assert np.abs(exact - 1).max() < 0.05
    assert np.abs(exact - 1).max() > 0.01
    np.testing.assert_allclose(tuning["sdRatio"]["beta"], exact, atol=0.02)
    np.testing.assert_allclose(tuning["sd"]["beta"] / tuning["sdRatio"]["beta"], SMALL.sds, rtol=0.1)


def test_draws_of_many_elements_are_those_of_the_posterior(large: Regression) -> None:
    """Errors of the 2100 means and sds as large as their Monte Carlo errors: each fails beyond 6, 1 in 10^5 runs."""
    out = sgldcv(*large.given, nIters=4000, nChains=4, thin=10, **COMMON | {"minibatchSize": 2000})
    assert out.settings["preconditioner"] == "lowRank"
    expected = out.settings["expected"]
    assert expected["error"] <= 0.05
    np.testing.assert_allclose(expected["mode"]["beta"], large.mean, atol=0.05 * large.sds.max())
    np.testing.assert_allclose(np.divide(expected["sd"]["beta"], expected["sdRatio"]["beta"]) / large.sds, 1, atol=0.1)
    draws = out["beta"].reshape(-1, large.size)
    independent = 16_000 / expected["iterations"]
    errors = (draws.mean(axis=0) - large.mean) / large.sds * independent**0.5
    assert np.abs(errors).max() < 6
    assert (errors**2).mean() < 1.2
    ratios = draws.std(axis=0) / large.sds
    assert abs(np.median(ratios) - 1) < 0.05
    assert np.abs(ratios - 1).max() < 0.05 + 6 / (2 * independent) ** 0.5
    found = out.check(verbose=False)
    assert np.isnan(found.paretoK)
    assert found.table["sd_sandwich"].isna().all()


def test_plain_gradients_have_a_smaller_stepsize(large: Regression) -> None:
    common = COMMON | {"minibatchSize": 2000, "nIters": 200}
    plain = sgld(*large.given, **common).settings["expected"]
    centred = sgldcv(*large.given, **common).settings["expected"]
    assert plain["stepsize"] < centred["stepsize"]
    assert plain["error"] <= 0.05


@pytest.mark.parametrize(("of", "more", "error"), [(sghmccv, {"L": 20}, 0.03), (sgnhtcv, {}, 0.07)])
def test_dynamics_with_momentum(of: Any, more: dict, error: float, large: Regression) -> None:
    """Of a thermostat too, on which all elements together act. `error` is the Monte Carlo error of an sd."""
    common = COMMON | {"minibatchSize": 2000, "nIters": 3000, "nChains": 4, "thin": 5, "burnIn": 500}
    out = of(*large.given, **common, **more)
    expected = out.settings["expected"]
    assert expected["error"] <= 0.05
    ratios = out["beta"].reshape(-1, large.size).std(axis=0) / large.sds
    np.testing.assert_allclose(np.median(ratios), np.median(expected["sdRatio"]["beta"]), atol=0.02)
    assert np.percentile(np.abs(ratios - 1), 99) < 0.05 + 3 * error


def test_the_size_that_costs_least_knows_how_many_elements_move() -> None:
    """An observation fetches 3 of 300 elements, so an iteration costs 20 + 3 * 99 gradients more than its own."""
    problem, found = Regression(300, 3, 20_000), {}
    for asked in ("auto", 50, 100, 200, 400, 800, 1600):
        out = sgldcv(*problem.given, **COMMON | {"minibatchSize": asked, "nIters": 1})
        n = out.settings["minibatchSize"]
        found[n] = out.settings["expected"]["iterations"] * (n + 20 + 3 * 99)
    assert min(found, key=lambda n: found[n]) == next(iter(found)), found


def test_a_curvature_that_is_its_diagonal_has_no_directions() -> None:
    """One field: every observation is of one coefficient, and the posterior is independent normal."""
    problem = Regression(30, 1, 3000)
    out = sgldcv(*problem.given, preconditioner="lowRank", nIters=4000, nChains=10, **COMMON)
    expected = out.settings["expected"]
    np.testing.assert_allclose(np.divide(expected["sd"]["beta"], expected["sdRatio"]["beta"]), problem.sds, rtol=0.01)
    np.testing.assert_allclose(out["beta"].reshape(-1, 30).std(axis=0) / problem.sds, 1.0, atol=0.1)


def test_a_run_goes_on_to_the_same_draws(tmp_path: Path) -> None:
    common = COMMON | {"preconditioner": "lowRank", "minibatchSize": 30, "nChains": 2}
    whole = sgldcv(*SMALL.given, nIters=500, **common)
    sgldcv(*SMALL.given, nIters=200, storage=tmp_path / "a.zarr", **common)
    resumed = sgldcv(*SMALL.given, nIters=500, storage=tmp_path / "a.zarr", resume=True, **common)
    np.testing.assert_array_equal(whole["beta"], resumed["beta"])


def test_a_stepsize_of_the_users_own_is_relative_to_it() -> None:
    out = sgldcv(*SMALL.given, 0.1, preconditioner="lowRank", nIters=4000, nChains=20, **COMMON)
    ratios = out["beta"].reshape(-1, SMALL.size).std(axis=0) / SMALL.sds
    np.testing.assert_allclose(ratios, 1.0, atol=0.1)


def test_a_posterior_without_a_peak_is_refused() -> None:
    """The sum of all elements is all that the data say."""
    data, params = {"y": np.random.default_rng(0).normal(size=500)}, {"w": np.zeros(2100)}

    def of_sum(params: dict, dataset: dict) -> tf.Tensor:
        return -0.5 * (dataset["y"] - tf.reduce_sum(params["w"])) ** 2

    with pytest.raises(
        ValueError, match="must be a number, with preconditioner=None, if params have this many elements"
    ):
        sgldcv(of_sum, data, params, nIters=10, seed=1, verbose=False)


@pytest.mark.parametrize(
    ("of", "options", "message"),
    [
        (sgldcv, {"preconditioner": "diagonal"}, "preconditioner of sgldcv must be 'lowRank' with the stepsize 'auto'"),
        (sgldcv, {"preconditioner": "dense"}, "preconditioner of sgldcv must be 'lowRank' or 'diagonal' for more than"),
        (sgld, {"gradient": saga()}, "gradient of sgld must be None or control variates with preconditioner='lowRank'"),
        (sgldcv, {"subsampling": preferential()}, "subsampling of sgldcv must be uniform or your own weights"),
        (sgldcv, {"target": "sandwich"}, "preconditioner of sgldcv must be 'dense' for target='sandwich'"),
    ],
)
def test_what_it_cannot_be_combined_with(of: Any, options: dict, message: str, large: Regression) -> None:
    with pytest.raises(ValueError, match=message):
        of(*large.given, nIters=10, **COMMON | options)
