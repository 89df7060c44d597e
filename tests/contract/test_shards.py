"""Data in several places: where minibatches come from, what chains then have as distribution, and what is refused.

It uses the inside of the package: it compares predicted standard deviations with their formula.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import adaptive, preferential, saga, sghmccv, sgld, sgldcv, shards, svrg
from sgmcmc.core import random
from sgmcmc.core.random import Purpose, Stream
from sgmcmc.laplace.shard_hops import Shard, sd_ratios
from sgmcmc.minibatch.within_shards import within_shards
from tests.contract.test_some_chains import DATASET, PARAMS, RUN, compare, logLik

ENDS = (0, 150, 230, 400)
PARTS = [{name: x[begin:end] for name, x in DATASET.items()} for begin, end in itertools.pairwise(ENDS)]
COUNTERS = tf.range(0, 3000, dtype=tf.int32)


def drawn(sizes, size, hop, replace=False):
    stream = Stream(random.keys(1, Purpose.MINIBATCH, range(4)))
    indices, _ = within_shards(sizes, size, hop, replace).draw(stream, tf.cast(COUNTERS, tf.uint32), {})
    return indices.numpy()


@pytest.mark.parametrize("replace", [False, True])
def test_a_stay_is_on_one_shard_and_shards_come_by_their_sizes(replace):
    """Band: 5 standard errors of a binomial share of 2400 stays, false-alarm rate 4e-6 for all three."""
    sizes, hop = np.array([30, 100, 70]), 5
    indices = drawn(sizes, 10, hop, replace)
    which = np.searchsorted(np.cumsum(sizes), indices, side="right")
    stays = which.reshape(-1, hop, 4, 10)
    assert (stays == stays[:, :1, :, :1]).all()
    share, n = sizes / sizes.sum(), stays[:, 0, :, 0].size
    found = np.array([(stays[:, 0, :, 0] == k).mean() for k in range(3)])
    assert (np.abs(found - share) < 5 * np.sqrt(share * (1 - share) / n)).all()
    distinct = [len(set(batch)) == 10 for batch in indices.reshape(-1, 10)]
    assert all(distinct) != replace
    assert (np.bincount(indices.ravel(), minlength=200) > 0).all()
    assert not (stays[:-1, 0, :, 0] == stays[1:, 0, :, 0]).all(axis=1).all()


@pytest.mark.parametrize("subsampling", ["uniform", "withReplacement"])
def test_one_shard_gives_the_draws_of_the_same_data(subsampling):
    given = RUN | {"subsampling": subsampling, "stepsize": 1e-5, "nChains": 2}
    one, plain = (sgldcv(logLik, data, PARAMS, optStepsize=1e-4, **given) for data in (shards([DATASET]), DATASET))
    compare(one, plain)


def on_disk(part, folder):
    for name, x in part.items():
        np.save(folder / f"{name}-{len(x)}.npy", x.astype(np.float32))
    return {name: np.load(folder / f"{name}-{len(x)}.npy", mmap_mode="r") for name, x in part.items()}


class Rows:
    def __init__(self, part):
        self.part = part

    def __len__(self):
        return len(self.part["x"])

    def take(self, indices):
        return {name: x[indices] for name, x in self.part.items()}


def test_shards_may_be_anything_that_a_dataset_may_be(tmp_path):
    """The same observations in memory, on disk, in an object of the user, or from a function, give the same bits."""
    kinds = {
        "memory": PARTS,
        "disk": [on_disk(part, tmp_path) for part in PARTS],
        "mixed": [on_disk(PARTS[0], tmp_path), Rows(PARTS[1]), lambda: PARTS[2]],
    }
    draws = {kind: sgldcv(logLik, shards(data), PARAMS, **RUN | {"nIters": 200}) for kind, data in kinds.items()}
    compare(draws["memory"], draws["disk"])
    compare(draws["memory"], draws["mixed"])
    assert draws["memory"].settings["shards"] == {"sizes": [150, 80, 170], "hop": 5}


def test_a_stay_has_as_many_iterations_with_leaps():
    sampler = sgmcmc.sghmccvSetup(logLik, shards(PARTS, hop=2), PARAMS, L=3, minibatchSize=4, seed=1)._sampler
    stream = Stream(random.keys(1, Purpose.MINIBATCH, range(1)))
    indices, _ = sampler.minibatch.draw(stream, tf.cast(COUNTERS, tf.uint32), {})
    which = np.searchsorted(ENDS[1:], indices.numpy(), side="right").reshape(500, 6, 4)
    assert (which == which[:, :1, :1]).all() and len(np.unique(which)) == 3


def test_steps_and_one_call_and_resuming_agree(tmp_path):
    given = RUN | {"stepsize": 1e-5, "optStepsize": 1e-4, "minibatchSize": 40}
    data = shards(PARTS, hop=7)
    out = sgldcv(logLik, data, PARAMS, **given, storage=str(tmp_path / "a.zarr"))
    resumed = sgldcv(logLik, data, PARAMS, **given | {"nIters": 60}, storage=str(tmp_path / "a.zarr"), resume=True)
    np.testing.assert_array_equal(resumed["theta"][:30], out["theta"])
    sampler = sgmcmc.sgldcvSetup(
        logLik, data, PARAMS, optStepsize=1e-4, stepsize=1e-5, minibatchSize=40, seed=1, verbose=False
    )
    sess = sgmcmc.initSess(sampler, verbose=False)
    for k in range(30):
        sgmcmc.sgmcmcStep(sampler, sess)
        np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["theta"], out["theta"][k])
    with pytest.raises(ValueError, match="shards"):
        sgldcv(logLik, shards(PARTS, hop=5), PARAMS, **given, storage=str(tmp_path / "a.zarr"), resume=True)


# A Gaussian with unlike shards: x_i ~ N(theta, 1 / w_i), whose minibatches can be enumerated.
WEIGHTS = [np.array([0.2, 0.6, 0.4]), np.array([3.0, 1.5, 2.0, 4.0]), np.array([0.1, 6.0, 1.0])]
N, SIZE, EPS = 10, 2, 0.03


def gaussian(params, dataset):
    return -0.5 * tf.reduce_sum(dataset["w"] * (dataset["x"] - params["theta"]) ** 2)


def gaussian_shards():
    rng = np.random.default_rng(0)
    return [{"w": w, "x": rng.normal(size=len(w))} for w in WEIGHTS]


def exact_variance(eps, hop):
    """Of SGLD with control variates, over all shards and all minibatches."""
    shares = np.array([len(w) / N for w in WEIGHTS])
    squares = np.array(
        [
            np.mean([(1 - eps / 2 * N / SIZE * sum(pair)) ** 2 for pair in itertools.combinations(w, SIZE)])
            for w in WEIGHTS
        ]
    )
    after = [squares**j for j in range(hop + 1)]  # of the square of the distance at the beginning of a stay
    added = [eps * sum(after[:j], np.zeros(3)) for j in range(hop + 1)]
    start = shares @ added[hop] / (1 - shares @ after[hop])
    return np.mean([shares @ (after[j] * start + added[j]) for j in range(1, hop + 1)])


@pytest.mark.parametrize("hop", [1, 6])
def test_the_variance_is_that_of_all_minibatches_of_all_shards(hop):
    """Band: 4.5 standard errors by 400 chains, each at most 1.2% of the variance; false-alarm rate 7e-6.

    Noise wrong by a factor sqrt(2), weights N_k/n, or stays of other lengths are outside of it.
    """
    given = {"minibatchSize": SIZE, "nIters": 6000, "burnIn": 60, "thin": 5, "nChains": 400, "dtype": "float64"}
    data = gaussian_shards()
    out = sgldcv(
        gaussian, shards(data, hop), {"theta": 0.0}, stepsize=EPS, optStepsize="auto", seed=1, verbose=False, **given
    )
    mode = sum((part["w"] * part["x"]).sum() for part in data) / np.concatenate(WEIGHTS).sum()
    of_chains = ((out["theta"] - mode) ** 2).mean(axis=1)
    exact, error = exact_variance(EPS, hop), of_chains.std() / np.sqrt(400)
    assert abs(of_chains.mean() - exact) < 4.5 * error < 4.5 * 0.012 * exact
    assert exact_variance(EPS, 6) > 1.2 * exact_variance(EPS, 1)


def moments_of_products(parts, step, hop):
    """The mean second moments in a stay, from Kronecker products of (x, 1), of a chain that moves by the matrix."""
    d = len(step)
    precision = sum(part.share * part.precision for part in parts)
    posterior = np.linalg.inv(precision)
    decay = np.eye(d) - step @ precision
    noise = np.zeros([d + 1, d + 1])
    noise[:d, :d] = posterior - decay @ posterior @ decay.T
    moves = []
    for part in parts:
        move = np.eye(d + 1)
        move[:d, :d] -= step @ part.precision
        move[:d, d] = step @ part.gradient
        moves.append(move)
    square, added = np.zeros([(d + 1) ** 2] * 2), np.zeros([d + 1, d + 1])
    for part, move in zip(parts, moves, strict=True):
        powers = [np.linalg.matrix_power(move, j) for j in range(hop + 1)]
        square += part.share * np.kron(powers[hop], powers[hop])
        added += part.share * sum(power @ noise @ power.T for power in powers[:hop])
    # The last entry, the square of 1, is known.
    left, known = np.eye(len(square)) - square, added.ravel() + square[:, -1]
    start = np.append(np.linalg.solve(left[:-1, :-1], known[:-1]), 1.0).reshape(d + 1, d + 1)
    total = np.zeros_like(start)
    for part, move in zip(parts, moves, strict=True):
        here = start
        for _ in range(hop):
            here = move @ here @ move.T + noise
            total += part.share * here / hop
    return total[:d, :d], posterior


@pytest.mark.parametrize("hop", [1, 5, 60])
@pytest.mark.parametrize("gradients", [0.0, 1.0])
def test_the_prediction_solves_the_equation_of_the_moments(hop, gradients):
    rng = np.random.default_rng(hop)
    shares = rng.dirichlet(np.full(4, 5.0))
    b = gradients * rng.normal(size=(4, 3))
    b -= shares @ b
    roots = [0.7 * rng.normal(size=(3, 3)) for _ in range(4)]
    parts = [Shard(f, np.eye(3) + root @ root.T, g) for f, root, g in zip(shares, roots, b, strict=True)]
    root = np.tril(rng.normal(size=(3, 3))) * 0.1 + 0.2 * np.eye(3)
    found, posterior = moments_of_products(parts, root @ root.T, hop)
    expected = np.sqrt(np.diag(found) / np.diag(posterior))
    np.testing.assert_allclose(sd_ratios(parts, root, hop), expected, rtol=1e-6)
    assert expected.max() > 1.001


def test_the_prediction_holds_for_directions_that_hardly_move():
    parts = [Shard(0.5, np.diag([1.0, 2e-9]), np.zeros(2)), Shard(0.5, np.diag([3.0, 0.0]), np.zeros(2))]
    ratios = sd_ratios(parts, 0.1 * np.eye(2), 5)
    assert ratios[0] > 1.001 and abs(ratios[1] - 1) < 1e-6
    assert np.isinf(sd_ratios(parts, 1.2 * np.eye(2), 5)[0])


def logistic(params, dataset):
    eta = tf.linalg.matvec(dataset["z"], params["beta"])
    return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))


def logistic_shards(by_column):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20_000, 4))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-z @ [0.5, -0.5, 0.2, 0.0]))).astype(float)
    order = np.argsort(z[:, 0]) if by_column else rng.permutation(20_000)
    return [{"z": z[at], "y": y[at]} for at in np.array_split(order, 4)]


SORTED = {
    "one stepsize": (sgldcv, 5, True, {}, 0.05),
    "leaps": (sghmccv, 3, True, {"nIters": 3000, "nChains": 8}, 0.15),
    "preconditioned": (sgldcv, 20, True, {"preconditioner": "auto"}, 0.05),
    "without control variates": (sgld, 40, False, {"nIters": 20_000}, 0.05),
}


@pytest.mark.parametrize("name", SORTED)
def test_the_prediction_is_what_chains_on_shards_do(name):
    """Ratios of sds to those of chains on all data, within 5% of the prediction; 15% for leaps, which turn.

    The largest is above 1.15, and known by the chains within 1%.
    """
    sampler, hop, by_column, changed, band = SORTED[name]
    given = {"minibatchSize": 500, "nIters": 6000, "burnIn": 500, "thin": 3, "nChains": 16, "seed": 1, "verbose": False}
    params, data = {"beta": np.zeros(4)}, logistic_shards(by_column)
    with pytest.warns(UserWarning, match="shards of sg.* differ so much .* too large, in 'beta'") as caught:
        out = sampler(logistic, shards(data, hop), params, **given | changed)
    whole = {key: np.concatenate([part[key] for part in data]) for key in data[0]}
    plain = sampler(logistic, whole, params, **given | changed)
    ratios = out["beta"].std(axis=(0, 1)) / plain["beta"].std(axis=(0, 1))
    expected = np.array(out.settings["expected"]["sdRatio"]["beta"]) / plain.settings["expected"]["sdRatio"]["beta"]
    np.testing.assert_allclose(ratios, expected, rtol=band)
    said = next(str(w.message) for w in caught if "shards" in str(w.message))
    assert expected.max() > 1.15 and f"up to {expected.max() - 1:.0%} too large" in said
    assert ("use control variates" in said) == (sampler is sgld)


def test_the_prediction_knows_every_preconditioner():
    """The four columns are independent, so that the two forms are nearly the same."""
    data, params = shards(logistic_shards(by_column=True), 20), {"beta": np.zeros(3), "last": np.zeros([])}

    def by_parts(params, dataset):
        return logistic({"beta": tf.concat([params["beta"], params["last"][None]], axis=0)}, dataset)

    with pytest.warns(UserWarning, match="the shards of sgldcv differ so much"):
        dense, diagonal = (
            sgldcv(by_parts, data, params, preconditioner=form, minibatchSize=500, nIters=10, seed=1, verbose=False)
            for form in ("dense", "diagonal")
        )
    for name in params:
        dense_ratio, ratio = (np.array(out.settings["expected"]["sdRatio"][name]) for out in (dense, diagonal))
        np.testing.assert_allclose(ratio, dense_ratio, rtol=0.03)
    assert np.max(dense.settings["expected"]["sdRatio"]["beta"]) > 1.15


@pytest.mark.filterwarnings("error:the shards")
def test_random_shards_are_not_warned_of():
    data = shards(logistic_shards(by_column=False), hop=100)
    out = sgldcv(logistic, data, {"beta": np.zeros(4)}, minibatchSize=500, nIters=10, seed=1, verbose=False)
    ratios = np.array(out.settings["expected"]["sdRatio"]["beta"])
    assert (np.abs(ratios - 1.04) < 0.01).all()


def test_what_cannot_be_predicted_is_said():
    given = {"stepsize": 1e-5, "minibatchSize": 40, "seed": 1}
    with pytest.warns(UserWarning, match="the effect of the shards of sgld on the standard deviations of its draws"):
        sgmcmc.sgldSetup(logLik, shards(PARTS), PARAMS, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgmcmc.sgldSetup(logLik, shards(PARTS, hop=1), PARAMS, **given)
        sgmcmc.sgldcvSetup(logLik, shards(PARTS), PARAMS, **given)


@pytest.mark.parametrize("estimator", [saga, svrg])
def test_other_estimators_use_shards_too(estimator):
    """The mean of draws from a normal posterior with random shards, within 5 of its standard errors."""
    x = np.random.default_rng(0).normal(3.0, 1.0, size=1000)
    out = sgld(
        lambda params, dataset: -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2),
        shards([{"x": part} for part in np.split(x, 4)], hop=1),
        {"theta": 3.0},
        gradient=estimator(),
        stepsize=2e-4,
        minibatchSize=50,
        nIters=3000,
        nChains=8,
        seed=1,
        verbose=False,
    )
    draws = out["theta"][:, 100:]
    error = draws.mean(axis=1).std() / np.sqrt(8)
    assert abs(draws.mean() - x.mean()) < 5 * error < 5 * 0.2 / np.sqrt(1000)
    assert 0.9 < draws.std() * np.sqrt(1000) < 1.2


def frame(levels):
    return pd.DataFrame({"x": [0.0, 1.0], "g": pd.Categorical(levels)})


REFUSED = {
    "none": (shards([]), {}, r"datasets of shards, of sgldcv, must be a list of datasets; got \[\]"),
    "a dict": (shards({"x": [1.0]}), {}, "must be a list of datasets"),
    "hop": (shards(PARTS, hop=0), {}, "hop of shards of sgldcv must be .*; got 0"),
    "names": (shards([PARTS[0], {"x": PARTS[1]["x"]}]), {}, "must have the same entries; got .* in number 1"),
    "shapes": (shards([PARTS[0], PARTS[1] | {"z": np.ones((80, 2))}]), {}, "must have the same entries"),
    "a shard": (shards([PARTS[0], {"x": [np.nan]}]), {}, r"dataset\['x'\] of sgldcv in shard 1 must be finite"),
    "shards again": (shards([shards(PARTS)]), {}, "must not be shards themselves; got some in shard 0"),
    "levels": (shards([frame(["a", "b"]), frame(["a", "c"])]), {}, "must have the same categories"),
    "size": (shards(PARTS), {"minibatchSize": 81}, "at most the 80 observations of the smallest shard"),
    "adaptive": (shards(PARTS), {"minibatchSize": adaptive()}, "must be a number for a dataset of shards"),
    "weights": (shards(PARTS), {"subsampling": preferential()}, "'uniform' or 'withReplacement' for a dataset of sh"),
    "epochs": (shards(PARTS), {"subsampling": "reshuffled"}, "'uniform' or 'withReplacement' for a dataset of shards"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_shards_is_refused(name):
    data, given, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        sgldcv(logLik, data, PARAMS, **RUN | given)
