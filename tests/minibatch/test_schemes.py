"""Minibatches: which observations, how often, with what weights.

Frequencies are compared by Pearson's chi-square at 1e-8, see test_random.py for the rate of the folder. The fifteen
comparisons of `reshuffled` count as one there: each is made at a fifteenth of that.
"""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.minibatch import Minibatch
from sgmcmc.minibatch.adaptive import adaptive, constants
from sgmcmc.minibatch.reshuffled import reshuffled
from sgmcmc.minibatch.symmetric import symmetric
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from sgmcmc.minibatch.weighted import alias_table, weighted
from sgmcmc.model import Mode

ALPHA = 1e-8
OF_RESHUFFLED = ALPHA / 15
P = np.array([0.02, 0.05, 0.08, 0.1, 0.15, 0.25, 0.35])


def stream_of(n_chains: int) -> Stream:
    return Stream(keys(3, Purpose.MINIBATCH, n_chains))


def draws_of(minibatch: Minibatch, n_chains: int = 2000, steps: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights, [steps, C, n]."""
    stream = stream_of(n_chains)
    draw = tf.function(lambda t: minibatch.draw(stream, t, minibatch.prepare(None)), jit_compile=True)
    indices, weights = draw(tf.constant(np.arange(steps, dtype=np.uint32)))
    assert indices.shape == (steps, n_chains, minibatch.size) and indices.dtype == tf.int32
    if minibatch.scale is None:
        return indices.numpy(), weights.numpy()
    assert weights is None  # one weight for all, and no array of them
    return indices.numpy(), np.full(indices.shape, minibatch.scale)


def independent_pairs_p(indices: np.ndarray, p: np.ndarray) -> float:
    """p-value of: (first, second) of a minibatch are independent with probabilities p."""
    counts = np.zeros((len(p), len(p)))
    np.add.at(counts, (indices[..., 0].ravel(), indices[..., 1].ravel()), 1)
    expected = np.outer(p, p) * counts.sum()
    assert expected.min() > 10
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), counts.size - 1)


def test_with_replacement_draws_independent_uniforms_of_weight_N_over_n():
    indices, weights = draws_of(with_replacement(7, 2))
    assert indices.shape == (20, 2000, 2) and (weights == 3.5).all()
    assert independent_pairs_p(indices, np.full(7, 1 / 7)) > ALPHA


def test_without_replacement_never_repeats_and_weighs_N_over_n():
    indices, weights = draws_of(without_replacement(7, 2))
    assert (indices[..., 0] != indices[..., 1]).all() and (weights == 3.5).all()
    assert independent_pairs_p(indices, np.full(7, 1 / 7)) < ALPHA  # they are not independent, and that is seen


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_weighted_draws_with_the_given_probabilities_and_weighs_by_their_inverse(dtype):
    indices, weights = draws_of(weighted(len(P), 2, dtype, P))
    assert weights.dtype == dtype.as_numpy_dtype
    np.testing.assert_allclose(weights, 1 / (2 * P[indices]), rtol=1e-6)
    assert independent_pairs_p(indices, P) > ALPHA
    assert independent_pairs_p(indices, np.roll(P, 1)) < ALPHA
    slightly = P * np.array([1, 1, 1, 1, 1, 1.05, 1])
    assert independent_pairs_p(draws_of(weighted(len(P), 2, dtype, P), 10_000)[0], slightly / slightly.sum()) < ALPHA


@pytest.mark.parametrize("n_data", [1, 2, 3, 7, 100, 1024, 10_001])
@pytest.mark.parametrize("kind", ["even", "near even", "uniform", "one heavy", "heavy tails"])
def test_the_alias_table_has_the_given_probabilities(n_data, kind):
    """Bin i has observation i with probability kept_i, and its alias else; all bins are equally likely."""
    rng = np.random.default_rng(n_data)
    p = {
        "even": np.ones(n_data),
        "near even": 1 + 1e-15 * rng.normal(size=n_data),
        "uniform": rng.uniform(0.01, 1.0, n_data),
        "one heavy": np.concatenate([[1e6], np.ones(n_data - 1)]),
        "heavy tails": rng.pareto(1.0, n_data) + 1e-3,
    }[kind]
    p /= p.sum()
    kept, alias = alias_table(p)
    assert kept.min() >= 0 and kept.max() <= 1
    drawn = kept / n_data
    np.add.at(drawn, alias, (1 - kept) / n_data)
    np.testing.assert_allclose(drawn, p, rtol=1e-8)
    # The weights are those of the probabilities as 32 bits hold them, and so they add up to N on average, exactly.
    inverse = weighted(n_data, 3, tf.float64, p).prepare(None)["inverse"].numpy()
    np.testing.assert_allclose(1 / inverse, p, rtol=1e-4)
    np.testing.assert_allclose((1 / inverse).sum(), 1.0, rtol=1e-13)


def test_an_observation_too_light_for_the_table_is_drawn_and_weighed_alike():
    """With a probability below 2^-32 / N it is drawn more often than it should be, and weighs less."""
    p = np.array([1e-30, 0.25, 0.75])
    inverse = weighted(3, 2, tf.float64, p).prepare(None)["inverse"].numpy()
    assert inverse[0] == pytest.approx(3 * 2.0**32)
    np.testing.assert_allclose((1 / inverse).sum(), 1.0, rtol=1e-13)


def test_minibatch_is_a_function_of_its_number_alone():
    for minibatch in (
        without_replacement(100, 10),
        with_replacement(100, 10),
        weighted(100, 10, tf.float32, np.full(100, 0.01)),
        reshuffled(100, 10),
        symmetric(100, 10),
    ):

        def at(*numbers, minibatch=minibatch):
            return minibatch.draw(stream_of(4), tf.constant(numbers, tf.uint32), minibatch.prepare(None))[0].numpy()

        several = at(2**32 - 1, 5, 6)
        np.testing.assert_array_equal(several, np.concatenate([at(2**32 - 1), at(5), at(6)]))
        assert (several[2] != several[1]).any()
        assert len({row.tobytes() for row in several[1]}) == 4  # chains have their own minibatches


def test_parts_of_a_minibatch_have_observations_of_their_own():
    for minibatch in (
        without_replacement(50, 5),
        with_replacement(50, 5),
        weighted(50, 5, tf.float64, np.full(50, 0.02)),
    ):
        number, prepared = tf.constant([3], tf.uint32), minibatch.prepare(None)
        first, second = (minibatch.draw(stream_of(4), number, prepared, part)[0].numpy() for part in (0, 1))
        assert (first != second).mean() > 0.8


def test_an_adaptive_minibatch_has_at_most_the_parts_that_make_all_observations():
    minibatch = adaptive(with_replacement(100, 10), 100)
    given = constants(Mode({"x": tf.constant(0.0)}, {}), 1.0, tf.float32)
    assert int(minibatch.parts({"x": tf.constant(5.0)}, given)) == 3  # 25 observations in parts of 10
    assert int(minibatch.parts({"x": tf.constant(1e3)}, given)) == 10
    assert int(minibatch.parts({"x": tf.constant(0.0)}, given)) == 1


# --- reshuffled -------------------------------------------------------------------------------------------------------


def epochs_of(minibatch: Minibatch, n_data: int, n_chains: int, n_epochs: int) -> np.ndarray:
    """[n_epochs, R, C, n]."""
    per_epoch = n_data // minibatch.size
    indices, weights = draws_of(minibatch, n_chains, n_epochs * per_epoch)
    assert indices.min() >= 0 and indices.max() < n_data and (weights == n_data / minibatch.size).all()
    return indices.reshape(n_epochs, per_epoch, n_chains, minibatch.size)


def repeats_within_epochs(epochs: np.ndarray) -> int:
    """How often an epoch of a chain visits an observation that it has visited before."""
    visits = np.sort(np.moveaxis(epochs, 2, 1).reshape(epochs.shape[0] * epochs.shape[2], -1), axis=1)
    return int((np.diff(visits, axis=1) == 0).sum())


@pytest.mark.parametrize(
    ("n_data", "size"), [(1, 1), (5, 5), (7, 4), (12, 3), (13, 3), (14, 3), (90, 9), (97, 9), (500, 1), (5000, 700)]
)
def test_epochs_of_reshuffled_are_disjoint_minibatches_of_distinct_observations(n_data, size):
    epochs = epochs_of(reshuffled(n_data, size), n_data, n_chains=5, n_epochs=4)
    assert epochs.shape == (4, n_data // size, 5, size)
    assert repeats_within_epochs(epochs) == 0
    visited = epochs.shape[1] * size
    for epoch in np.moveaxis(epochs, 2, 1).reshape(20, visited):
        seen = np.bincount(epoch, minlength=n_data)
        assert seen.max() == 1 and (seen == 0).sum() == n_data % size  # those left over are left out


def test_independent_minibatches_do_repeat_within_an_epoch():
    """The control of the test above."""
    assert repeats_within_epochs(epochs_of(without_replacement(90, 9), 90, n_chains=5, n_epochs=4)) > 100


def test_every_epoch_and_chain_of_reshuffled_has_a_permutation_of_its_own():
    epochs = epochs_of(reshuffled(97, 9), 97, n_chains=20, n_epochs=30)
    orders = np.moveaxis(epochs, 2, 1).reshape(600, -1)
    assert len({order.tobytes() for order in orders}) == 600
    left_out = {frozenset(range(97)) - frozenset(order.tolist()) for order in orders}
    assert len(left_out) > 500  # of C(97, 7) sets, so that no observation is left out for ever


def test_whole_data_as_minibatch_of_reshuffled_are_all_observations_each_time():
    epochs = epochs_of(reshuffled(12, 12), 12, n_chains=3, n_epochs=10)
    np.testing.assert_array_equal(np.sort(epochs, axis=3), np.broadcast_to(np.arange(12), (10, 1, 3, 12)))
    assert len({row.tobytes() for row in epochs.reshape(30, 12)}) == 30  # a new permutation for each


@pytest.mark.parametrize(("n_data", "size"), [(7, 4), (14, 3), (97, 9)])
def test_symmetric_minibatches_go_through_a_permutation_forwards_and_backwards(n_data, size):
    per_epoch = n_data // size
    indices, weights = draws_of(symmetric(n_data, size), 5, 6 * per_epoch)
    assert (weights == n_data / size).all()
    cycles = indices.reshape(3, 2, per_epoch, 5, size)
    np.testing.assert_array_equal(cycles[:, 1], cycles[:, 0, ::-1])
    assert repeats_within_epochs(cycles[:, 0]) == 0
    assert len({cycle.tobytes() for cycle in np.moveaxis(cycles[:, 0], 2, 1).reshape(15, -1)}) == 15


def sets_p(minibatches: np.ndarray, n_data: int) -> float:
    """p-value of: all sets of n of the observations are equally likely; minibatches [..., n]."""
    n = minibatches.shape[-1]
    sets = [sum(1 << i for i in chosen) for chosen in combinations(range(n_data), n)]
    return equally_likely_p((1 << minibatches).sum(axis=-1), np.array(sets))


def equally_likely_p(codes: np.ndarray, possible: np.ndarray) -> float:
    """p-value of: all possible codes are equally likely."""
    possible = np.sort(possible)
    places = np.searchsorted(possible, codes.ravel())
    assert (possible[places] == codes.ravel()).all()
    counts, expected = np.bincount(places, minlength=len(possible)), codes.size / len(possible)
    assert expected >= 20
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(possible) - 1)


@pytest.mark.parametrize(("n_data", "size"), [(7, 2), (8, 2), (9, 4), (12, 4)])
def test_each_minibatch_of_an_epoch_is_by_itself_a_uniform_sample(n_data, size):
    """Wherever it stands in the epoch, and whether or not some are left out.

    From 2e5 minibatches at each place: an observation 6% too likely would be seen at N=12, n=4, one 4% too likely at
    N=7, n=2, each with probability 0.999.
    """
    epochs = epochs_of(reshuffled(n_data, size), n_data, n_chains=20_000, n_epochs=10)
    for place in range(epochs.shape[1]):
        assert sets_p(epochs[:, place], n_data) > OF_RESHUFFLED
    # Control: parts of the data in their own order, rotated by an offset; each observation is as likely as any other.
    offsets = np.random.default_rng(0).integers(0, n_data, (200_000, 1))
    assert sets_p((np.arange(size) + offsets) % n_data, n_data) < OF_RESHUFFLED


def test_all_ways_of_cutting_the_data_into_minibatches_are_equally_likely():
    """Six observations in three minibatches of two: 90 ways, so what one epoch has in it is right jointly too."""
    epochs = epochs_of(reshuffled(6, 2), 6, n_chains=20_000, n_epochs=10)

    def code(first, second):
        return 64 * first + second  # the third is what is left

    first, second, _ = np.moveaxis((1 << epochs).sum(axis=3), 1, 0)
    pairs = [(1 << i) | (1 << j) for i, j in combinations(range(6), 2)]
    ways = np.array([code(a, b) for a, b in permutations(pairs, 2) if a & b == 0])
    assert len(ways) == 90
    assert equally_likely_p(code(first, second), ways) > OF_RESHUFFLED
    sorted_pairs = np.sort((1 << epochs).sum(axis=3), axis=1)  # control: the minibatches of an epoch sorted
    assert equally_likely_p(code(sorted_pairs[:, 0], sorted_pairs[:, 1]), ways) < OF_RESHUFFLED


def test_epochs_of_reshuffled_are_independent():
    """Of seven observations one is left out in each epoch: in this one and the next, in this chain and the next."""
    epochs = epochs_of(reshuffled(7, 2), 7, n_chains=5000, n_epochs=20)
    left_out = 21 - epochs.sum(axis=(1, 3))  # [epochs, C]
    everything = np.arange(49)
    assert equally_likely_p(7 * left_out[:-1] + left_out[1:], everything) > OF_RESHUFFLED
    assert equally_likely_p(7 * left_out[:, :-1] + left_out[:, 1:], everything) > OF_RESHUFFLED
    same = 7 * left_out[:-1] + np.where(np.random.default_rng(0).random((19, 5000)) < 0.05, left_out[:-1], left_out[1:])
    assert equally_likely_p(same, everything) < OF_RESHUFFLED  # control: one permutation in 20 is used again
