"""dpMixture against its exact posterior over all partitions of four observations; recovery, room, bits, bad input.

**The exact posterior.** Four observations have 15 partitions. A partition with clusters of sizes m_1, ..., m_k has the
prior probability alpha^k Gamma(alpha) / Gamma(alpha + 4) prod (m_j - 1)!, where alpha is integrated out by quadrature
if it is inferred, and the likelihood is a product of Dirichlet-multinomial ones. Minibatches have two observations.

**The acceptance.** C = 64 independent chains give 64 averages of a statistic. Their mean less the exact expectation,
over its empirical standard error, is Student's with 63 degrees of freedom if the averages are normal, and |z| < 5.5 is
asked: a false alarm in a million comparisons, so 4e-5 for the 36 of this file; the skewness of the averages makes it
five times that at most. Seeds are fixed. An expectation that is wrong by more than 11 standard errors, which are below
0.02 for all probabilities, is rejected but for one in a million. A negative control, sizes of clusters that are off by
one, is rejected.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

import sgmcmc
from sgmcmc import NoRoomError, dpMixture
from sgmcmc.models import Mixture
from sgmcmc.models.dp import kernel
from sgmcmc.models.dp.mixture import checked_rows, look_like_codes

X = np.array([[3, 0, 1], [2, 1, 0], [0, 2, 2], [0, 0, 3]])
NEW = np.array([[1, 1, 0]])
A, FIXED, PRIOR = 0.5, 0.8, (6.0, 8.0)
C, T, BURN_IN, THIN = 64, 100, 150, 8
BOUND = 5.5

PARTITIONS = [z for z in itertools.product(range(4), repeat=4) if all(z[i] <= max((-1, *z[:i])) + 1 for i in range(4))]
ALPHA = np.linspace(1e-4, 12, 20_000)  # for the quadrature


def log_marginal(counts: np.ndarray) -> float:
    """Of the arrangements of all rows with these counts together, theta ~ Dir(A, ..., A) integrated out."""
    d, n = len(counts), counts.sum()
    return gammaln(d * A) - gammaln(d * A + n) + np.sum(gammaln(A + counts) - gammaln(A))


def log_multinomial(row: np.ndarray) -> float:
    return gammaln(row.sum() + 1) - gammaln(row + 1).sum()


def z_scores(expected: dict[str, float], per_chain: dict[str, np.ndarray]) -> dict[str, float]:
    """Of averages of chains, [C] each, against what they should be on average."""
    z = {}
    for name, x in per_chain.items():
        error = x.std(ddof=1) / np.sqrt(len(x))
        assert error < 0.02, (name, error)  # or the test would be blind
        z[name] = float(x.mean() - expected[name]) / error
        print(f"\n  {name:<14} {expected[name]:.4f} {z[name]:+.1f}", end="")
    return z


def accepts(z: dict[str, float]) -> bool:
    return max(map(abs, z.values())) < BOUND


class Exact:
    """The posterior of partitions, and of alpha on the grid, for a fixed alpha or its prior."""

    def __init__(self, alpha: float | None) -> None:
        grid = ALPHA if alpha is None else np.array([alpha])
        prior = grid ** (PRIOR[0] - 1) * np.exp(-PRIOR[1] * grid) if alpha is None else np.ones(1)
        joint = np.zeros((len(PARTITIONS), len(grid)))
        for p, z in enumerate(PARTITIONS):
            clusters = [np.flatnonzero(np.array(z) == j) for j in range(max(z) + 1)]
            likelihood = sum(log_marginal(X[c].sum(axis=0)) + gammaln(len(c)) for c in clusters)
            crp = len(clusters) * np.log(grid) + gammaln(grid) - gammaln(grid + 4)
            joint[p] = prior * np.exp(crp + likelihood)
        self.joint = joint / joint.sum()  # the grid has equal steps
        self.grid = grid
        self.partitions = self.joint.sum(axis=1)
        self.alpha = self.joint.sum(axis=0)

    def predictive(self, row: np.ndarray) -> float:
        """The posterior predictive probability of a row."""
        total = 0.0
        for z, mass in zip(PARTITIONS, self.joint, strict=True):
            old = [X[np.array(z) == j] for j in range(max(z) + 1)]
            marginals = [log_marginal(x.sum(axis=0) + row) - log_marginal(x.sum(axis=0)) for x in old]
            of_old = sum(len(x) * np.exp(m) for x, m in zip(old, marginals, strict=True))
            total += mass @ ((of_old + self.grid * np.exp(log_marginal(row))) / (self.grid + 4))
        return float(total * np.exp(log_multinomial(row)))


def partition_of(assignments: np.ndarray) -> np.ndarray:
    """The number of the partition of each draw, from (..., 4)."""
    flat = assignments.reshape(-1, 4)
    same = flat[:, :, None] == flat[:, None, :]
    codes = {np.equal.outer(z, z).tobytes(): p for p, z in enumerate(map(np.array, PARTITIONS))}
    return np.array([codes[s.tobytes()] for s in same]).reshape(assignments.shape[:-1])


def z_of_partitions(exact: Exact, partitions: np.ndarray) -> dict[str, float]:
    """Of how often each chain has each partition that is not too rare."""
    often = np.flatnonzero(exact.partitions > 0.005)
    assert len(often) >= 10
    expected = {str(PARTITIONS[p]): exact.partitions[p] for p in often}
    return z_scores(expected, {str(PARTITIONS[p]): (partitions == p).mean(axis=1) for p in often})


def sampled(alpha: float | None, draws: int = T) -> Mixture:
    return dpMixture(
        X,
        minibatchSize=2,
        nIters=BURN_IN + draws * THIN,
        verbose=False,
        seed=1,
        a=A,
        alpha=alpha,
        alphaPrior=PRIOR if alpha is None else None,
        maxComponents=48,
        starts=2,
        nChains=C,
        thin=THIN,
        burnIn=BURN_IN,
        assignments=True,
    )


@pytest.fixture(scope="module", params=[FIXED, None], ids=["alpha fixed", "alpha inferred"])
def exact_and_found(request):
    return Exact(request.param), sampled(request.param)


def test_the_distribution_over_all_partitions_is_the_posterior(exact_and_found):
    exact, found = exact_and_found
    partitions = partition_of(found.assignments)
    occupied = np.array([max(z) + 1 for z in PARTITIONS])
    np.testing.assert_array_equal(found.components, occupied[partitions])
    assert accepts(z_of_partitions(exact, partitions))


def test_control_sizes_that_are_off_by_one_are_rejected(monkeypatch):
    right = kernel.counts_of_sticks
    monkeypatch.setattr(kernel, "counts_of_sticks", lambda sizes: right(tf.maximum(sizes - 1, 0)))
    partitions = partition_of(sampled(FIXED, draws=50).assignments)
    assert not accepts(z_of_partitions(Exact(FIXED), partitions))


def test_alpha_and_predictions_are_those_of_the_posterior(exact_and_found):
    exact, found = exact_and_found
    expected = {"predictive": exact.predictive(NEW[0])}
    of_chains = {"predictive": np.exp(found.logPredictive(NEW, perDraw=True)).mean(axis=1)}
    if len(exact.grid) > 1:
        for q in (0.1, 0.5, 0.9):
            at = exact.grid[np.searchsorted(np.cumsum(exact.alpha), q)]
            expected[f"alpha, {q}"] = exact.alpha[exact.grid <= at].sum()
            of_chains[f"alpha, {q}"] = (found.alpha <= at).mean(axis=1)
        expected["mean of alpha"] = float(exact.grid @ exact.alpha)
        of_chains["mean of alpha"] = found.alpha.mean(axis=1)
    else:
        assert np.unique(found.alpha).size == 1
    assert accepts(z_scores(expected, of_chains))
    together = [
        sum(m for m, z in zip(exact.partitions, PARTITIONS, strict=True) if z[i] == z[j]) for i, j in ((0, 1), (0, 3))
    ]
    assert np.abs(found.coClustering(X, [[0, 1], [0, 3]]) - together).max() < 0.03
    pooled = found.logPredictive(NEW)
    np.testing.assert_allclose(pooled, np.log(np.exp(found.logPredictive(NEW, perDraw=True)).mean()), rtol=1e-6)


RNG = np.random.default_rng(0)
TRUTH = RNG.permuted(
    [[0.7, 0.2, 0.1, 0.0, 0.0, 0.0], [0.0, 0.1, 0.0, 0.7, 0.2, 0.0], [0.0, 0.0, 0.2, 0.0, 0.1, 0.7]], axis=0
)
Z = np.arange(300) % 3
CLUSTERED = RNG.multinomial(20, np.eye(3)[Z] @ TRUTH)


@pytest.mark.parametrize("method", ["gibbs", "scir", "sgrld"])
def test_clusters_are_found(method):
    out = dpMixture(
        sparse.csr_array(CLUSTERED),
        50,
        800,
        False,
        1,
        method=method,
        maxComponents=40,
        starts=6,
        burnIn=500,
        assignments=True,
    )
    assert adjusted_rand_score(Z, out.assignments[-1]) > 0.9
    together, apart = out.coClustering(CLUSTERED, [[0, 3], [0, 1]])
    assert together > 0.9 and apart < 0.1
    assert out.theta.shape == (30, 40, 6) and out.weights.shape == (30, 40)
    np.testing.assert_allclose(out.theta.sum(axis=2), 1, rtol=1e-5)
    assert (out.weights.sum(axis=1) <= 1 + 1e-5).all() and (out.weights.sum(axis=1) > 0.99).all()


SMALL = {"counts": X, "minibatchSize": 2, "verbose": False, "seed": 3, "alpha": 0.1, "maxComponents": 8, "thin": 1}


@pytest.fixture(scope="module")
def one_chain():
    return dpMixture(**SMALL, nIters=40)


def equal(one: Mixture, other: Mixture) -> None:
    for name in ("alpha", "components", "theta", "weights"):
        np.testing.assert_array_equal(np.asarray(one.draws[name]), np.asarray(other.draws[name]), err_msg=name)


def test_a_store_that_is_resumed_has_the_same_bits(one_chain, tmp_path):
    path = tmp_path / "run.zarr"
    dpMixture(**SMALL, nIters=15, storage=path)
    resumed = dpMixture(**SMALL, nIters=40, storage=path, resume=True)
    equal(resumed, one_chain)
    read = Mixture(sgmcmc.Draws.load(path))
    equal(read, one_chain)
    assert read.logPredictive(NEW) == one_chain.logPredictive(NEW)
    with pytest.raises(ValueError, match=r"^a of dpMixture must be what it was when"):
        dpMixture(**SMALL, nIters=50, storage=path, resume=True, a=0.7)


def test_a_chain_is_the_same_beside_others(one_chain):
    two = dpMixture(**SMALL, nIters=40, nChains=2)
    assert two.components.shape == (2, 40)
    np.testing.assert_array_equal(two.components[0], one_chain.components)
    np.testing.assert_allclose(two.theta[0], one_chain.theta, rtol=1e-4, atol=1e-6)
    assert np.any(two.theta[1] != two.theta[0])


def test_where_there_is_no_room_the_error_says_so_and_loses_nothing():
    few = SMALL | {"alpha": 2.0, "maxComponents": 5}
    with pytest.raises(
        NoRoomError, match=r"^maxComponents of dpMixture must be more than 5, such as 10; got an observation"
    ) as info:
        dpMixture(**few, nIters=1000)
    error = info.value
    assert isinstance(error.draws, Mixture) and error.room == 5 and error.iteration > 1
    kept = error.iteration - 1
    assert error.draws.components.shape == (kept,) and np.isfinite(error.draws.theta).all()


BAD = {
    "negative": ({"counts": -X}, r"^counts of dpMixture must have counts, .*; got -3.0 at index \(0, 0\)\.$"),
    "half": ({"counts": X / 2}, r"^counts of dpMixture must have counts, .*; got 1.5 at index \(0, 0\)\.$"),
    "nan": ({"counts": np.where(X == 3, np.nan, X)}, r"^counts of dpMixture must have counts, .*; got nan at"),
    "sparse": ({"counts": sparse.csr_array(-X)}, r"^counts of dpMixture must have counts, .*; got -3.0 at index"),
    "empty row": ({"counts": X * [[1], [1], [0], [1]]}, r"must have rows with at least one .*; got none in row 2\.$"),
    "vector": (
        {"counts": X[0]},
        r"^counts of dpMixture must be a matrix of counts .*; got an array of shape \(3,\)\.$",
    ),
    "one category": ({"counts": X[:, :1] + 1}, r"at least two categories"),
    "n": ({"minibatchSize": 5}, r"^minibatchSize of dpMixture must be an integer in \[1, N\] .* N = 4 .*; got 5\.$"),
    "a": ({"a": 0}, r"^a of dpMixture must be a positive number; got 0\.$"),
    "alpha": ({"alpha": -1.0}, r"^alpha of dpMixture must be a positive number; got -1.0\.$"),
    "prior": (
        {"alpha": None, "alphaPrior": (1.0, 0.0)},
        r"^alphaPrior\[1\] of dpMixture must be a positive number; got 0.0\.$",
    ),
    "unused prior": (
        {"alpha": 0.5, "alphaPrior": (1.0, 1.0)},
        r"^alphaPrior of dpMixture must be None if alpha is given, .*; got \(1.0, 1.0\) with alpha=0.5\.$",
    ),
    "pair": (
        {"alpha": None, "alphaPrior": 1.0},
        r"^alphaPrior of dpMixture must be a pair \(shape, rate\); got 1.0\.$",
    ),
    "room": ({"maxComponents": 1}, r"^maxComponents of dpMixture must be an integer of at least 2; got 1\.$"),
    "method": ({"method": "em"}, r"^method of dpMixture must be one of 'gibbs', 'scir', 'sgrld'; got 'em'\.$"),
    "stepsize": ({"stepsize": 0.1}, r"^stepsize of dpMixture must be None for method='gibbs'; got 0.1\.$"),
    "stepsizes": ({"method": "scir", "stepsize": {"theta": 0.1}}, r"^stepsize of dpMixture must have the keys"),
    "starts": ({"starts": [0, 0, 8, 0]}, r"^starts of dpMixture must be assignments from 0 to .* = 6; got 0 to 8\.$"),
    "length": ({"starts": [0, 0]}, r"^starts of dpMixture must be a number of components, or integers \(4,\) or"),
    "nIters": ({"nIters": 0}, r"^nIters of dpMixture must be an integer of at least 1; got 0\.$"),
    "assignments": ({"assignments": 1}, r"^assignments of dpMixture must be True or False; got 1\.$"),
}


@pytest.mark.parametrize("dtype", [np.uint8, bool])
def test_visits_one_by_one_are_summed_in_no_small_type(dtype):
    places = (np.zeros(301, int), np.append(np.zeros(300, int), 1))
    listed = sparse.coo_array((np.ones(301, dtype), places), shape=(1, 2))
    assert checked_rows("counts", "dpMixture", listed).counts.tolist() == [[300, 1]]


@pytest.mark.parametrize("case", BAD)
def test_a_bad_argument_is_named(case):
    changed, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        dpMixture(**SMALL | {"nIters": 10} | changed)


CODES = np.random.default_rng(3).integers(1, 7, (200, 4))


def test_columns_of_codes_are_noticed_and_counts_are_not():
    """Codes 1 to 6 in four columns; the same one-hot; rolls of a die; sums that are all equal; few rows."""
    with pytest.warns(UserWarning, match=r"^counts of dpMixture look like category codes"):
        dpMixture(CODES, minibatchSize=20, nIters=1, thin=1, verbose=False, seed=1)
    one_hot = (CODES[:, :, None] == np.arange(1, 7)).reshape(200, 24)
    rolls = np.random.default_rng(4).multinomial(10, np.full(6, 1 / 6), 200)
    shares = np.stack([CODES[:, 0], 7 - CODES[:, 0]], axis=1)
    for counts in (one_hot, rolls, shares, X):
        assert not look_like_codes(checked_rows("counts", "dpMixture", counts))


def test_a_row_is_with_itself(one_chain):
    assert one_chain.coClustering(X, [[0, 0], [1, 1]]).tolist() == [1.0, 1.0]


def test_a_bad_argument_of_the_result_is_named(one_chain):
    with pytest.raises(ValueError, match=r"^heldOut of logPredictive must have 3 columns, .*; got 2\.$"):
        one_chain.logPredictive(X[:, :2])
    with pytest.raises(ValueError, match=r"^rows of coClustering must have counts"):
        one_chain.coClustering(-X, [[0, 1]])
    with pytest.raises(ValueError, match=r"^pairs of coClustering must be numbers of rows, from 0 to 3; got 0 to 4\.$"):
        one_chain.coClustering(X, [[0, 4]])
    with pytest.raises(ValueError, match=r"^draws of Mixture must be those of dpMixture"):
        Mixture({"theta": X})
