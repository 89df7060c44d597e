"""Minibatches: which observations, how often, with what weights.

Frequencies are compared by Pearson's chi-square at 1e-8, see test_random.py for the rate of the folder.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from sgmcmc.core.random import Purpose, Stream
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from sgmcmc.minibatch.weighted import weighted

ALPHA = 1e-8
P = np.array([0.02, 0.05, 0.08, 0.1, 0.15, 0.25, 0.35])


def draws_of(minibatch, n_chains=2000, steps=20):
    stream = Stream(3, Purpose.MINIBATCH, n_chains)
    draw = tf.function(lambda t: minibatch.draw(stream, t, minibatch.init())[:2], jit_compile=True)
    indices, weights = zip(*(draw(tf.constant(t, tf.uint32)) for t in range(steps)), strict=True)
    if minibatch.scale is None:
        return np.stack(indices), np.stack(weights)
    assert weights == ((),) * steps  # one weight for all, and no array of them
    return np.stack(indices), np.full((steps, n_chains, minibatch.size), minibatch.scale)


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
    indices, weights = draws_of(weighted(P, 2, dtype))
    assert weights.dtype == dtype.as_numpy_dtype
    np.testing.assert_allclose(weights, 1 / (2 * P[indices]), rtol=1e-6)
    assert independent_pairs_p(indices, P) > ALPHA
    assert independent_pairs_p(indices, np.roll(P, 1)) < ALPHA
    slightly = P * np.array([1, 1, 1, 1, 1, 1.05, 1])
    assert independent_pairs_p(draws_of(weighted(P, 2, dtype), 10_000)[0], slightly / slightly.sum()) < ALPHA


@pytest.mark.parametrize("n_data", [1, 2, 3, 4, 5, 8, 9, 100, 1023, 1024, 1025])
def test_weighted_inverts_the_cumulative_sum_as_searchsorted_does(n_data):
    p = np.random.default_rng(n_data).gamma(0.3, size=n_data) + 1e-9
    p /= p.sum()
    edges = np.cumsum(p) / np.cumsum(p)[-1]
    inside = np.concatenate([edges[:-1], np.nextafter(edges, 0), [0.0, 1e-300, 1 - 2**-53, 1.0], np.linspace(0, 1, 97)])

    class Given(Stream):
        def __init__(self):
            self.n_chains = 1

        def uniform(self, counter, size):
            return tf.constant(inside[None])

    indices = weighted(p, len(inside), tf.float64).draw(Given(), tf.constant(0, tf.uint32), ())[0].numpy()[0]
    expected = np.minimum(np.searchsorted(edges, inside, side="right"), n_data - 1)
    np.testing.assert_array_equal(indices, expected)


def test_minibatch_is_a_function_of_the_step_alone():
    stream, other = Stream(3, Purpose.MINIBATCH, 4), Stream(3, Purpose.MINIBATCH, 4)
    for minibatch in (
        without_replacement(100, 10),
        with_replacement(100, 10),
        weighted(np.full(100, 0.01), 10, tf.float32),
    ):

        def at(stream, t, minibatch=minibatch):
            return minibatch.draw(stream, tf.constant(t, tf.uint32), minibatch.init())[0].numpy()

        later = at(stream, 5)
        np.testing.assert_array_equal(later, at(other, 5))
        assert (at(stream, 6) != later).any()
        assert len({row.tobytes() for row in later}) == 4  # chains have their own minibatches
