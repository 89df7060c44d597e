"""Gamma and Poisson draws against SciPy's distributions, and what the queue of refused draws must not change.

All seeds are fixed. Each goodness-of-fit comparison is made at ALPHA = 1e-8, and there are fewer than 100, so over the
choice of seeds the file raises a false alarm with probability below 1e-6. With 20,000 draws a distribution function
that is wrong by 0.045 anywhere is found out (the 1e-8 quantile of the Kolmogorov-Smirnov distance is 0.022); the same
comparisons are shown to refuse a standard deviation that is wrong by the factor sqrt(2).
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from sgmcmc.core import rejection
from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.core.rejection import LOG_FACTORIALS, log_probability

ALPHA = 1e-8
DRAWS = 20_000
SHAPES = (1e-4, 1e-3, 0.1, 0.9, 1.0, 1.7, 30.0, 800.0, 1e8)
MEANS = (1e-8, 1e-3, 0.5, 3.0, 9.99, 10.0, 30.0, 99.0, 1e4, 1e8)
DTYPES = (tf.float32, tf.float64)

STREAM = Stream(keys(5, Purpose.NOISE, 1))
COUNTER = tf.constant([3], tf.uint32)


@tf.function(jit_compile=True, autograph=False)
def log_gamma(shapes: tf.Tensor) -> tf.Tensor:
    return STREAM.log_gamma(COUNTER, tf.range(shapes.shape[-1]), shapes)


@tf.function(jit_compile=True, autograph=False)
def poisson(means: tf.Tensor) -> tf.Tensor:
    return STREAM.poisson(COUNTER, tf.range(means.shape[-1]), means)


def draws(of: tf.types.experimental.PolymorphicFunction, parameters: tuple[float, ...], dtype: tf.DType) -> np.ndarray:
    """[parameter, DRAWS], all from one program, and enough that the queue is used."""
    each = tf.constant(np.repeat(parameters, DRAWS)[None, None], dtype)
    assert each.shape[-1] > rejection.FEW
    return of(each).numpy().astype(np.float64).reshape(len(parameters), DRAWS)


def log_gamma_cdf(y: np.ndarray, shape: float) -> np.ndarray:
    """P(log G <= y), also where exp(y) underflows: there the density is that of a power."""
    power = np.exp(np.minimum(shape * y - special.gammaln(shape + 1), 0))
    return np.where(y < -50, power, special.gammainc(shape, np.exp(np.maximum(y, -50))))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_logarithms_of_gamma_draws(dtype: tf.DType) -> None:
    for shape, y in zip(SHAPES, draws(log_gamma, SHAPES, dtype), strict=True):
        assert np.isfinite(y).all()
        assert stats.kstest(log_gamma_cdf(y, shape), "uniform").pvalue > ALPHA, shape
        centre = np.median(y)
        assert stats.kstest(log_gamma_cdf(centre + np.sqrt(2) * (y - centre), shape), "uniform").pvalue < ALPHA, shape
        assert stats.kstest(log_gamma_cdf(y, 1.2 * shape), "uniform").pvalue < ALPHA, shape


def poisson_p(x: np.ndarray, mean: float) -> float:
    """Of the randomised distribution function, which is uniform."""
    u = np.random.default_rng(0).uniform(size=x.size)
    if mean > 1e6:  # in float32 not all counts are there, and the distribution is normal to 1e-5
        return stats.kstest((x + u - 0.5 - mean) / np.sqrt(mean), "norm").pvalue
    below, mass = stats.poisson.cdf(x - 1, mean), stats.poisson.pmf(x, mean)
    return stats.kstest(below + u * mass, "uniform").pvalue


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_poisson_draws(dtype: tf.DType) -> None:
    for mean, x in zip(MEANS, draws(poisson, MEANS, dtype), strict=True):
        assert (x >= 0).all() and (x == np.floor(x)).all()
        assert poisson_p(x, mean) > ALPHA, mean
        z = (x.mean() - mean) / np.sqrt(mean / x.size)
        assert abs(z) < 6 or mean < 1e-3, (mean, z)
        if mean >= 0.5:
            assert poisson_p(np.round(mean + np.sqrt(2) * (x - mean)), mean) < ALPHA, mean
            assert poisson_p(x, 1.2 * mean) < ALPHA, mean
    assert (draws(poisson, (0.0, 1e-8), dtype)[0] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_log_probabilities_by_which_poisson_proposals_are_accepted(dtype: tf.DType) -> None:
    mean = np.array([10.0, 15.0, 100.0, 1e3, 1e5])
    spread = np.array([-3.0, -1.0, 0.0, 0.5, 4.0])
    count = np.maximum(np.floor(mean + spread[:, None] * np.sqrt(mean)), 0)
    got = log_probability(tf.constant(count, dtype), tf.constant(np.broadcast_to(mean, count.shape), dtype))
    np.testing.assert_allclose(got, stats.poisson.logpmf(count, mean), atol=2e-4 if dtype == tf.float32 else 1e-9)
    np.testing.assert_allclose(LOG_FACTORIALS, special.gammaln(np.arange(16) + 1), atol=1e-12)


@pytest.mark.parametrize(("of", "parameters"), [(log_gamma, SHAPES), (poisson, MEANS)], ids=["gamma", "poisson"])
def test_the_queue_does_not_change_a_draw(of: tf.types.experimental.PolymorphicFunction, parameters: tuple) -> None:
    """The first draws of many are those of few, which are proposed again together."""
    many = draws(of, parameters, tf.float64)
    few = of(tf.constant(np.full((1, 1, 500), parameters[0])[..., :500], tf.float64)).numpy()[0, 0]
    np.testing.assert_allclose(few, many[0, :500], rtol=1e-9, atol=1e-12)


def test_chains_and_counters_draw_alone() -> None:
    """Chain 1 and the second counter are the same whatever is drawn beside them, and differ from the others."""
    several, counters = Stream(keys(5, Purpose.NOISE, 3)), tf.constant([3, 9], tf.uint32)
    shapes = tf.constant(np.full((2, 3, 40), 0.7), tf.float64)
    for draw in ("log_gamma", "poisson"):
        all_of = getattr(several, draw)(counters, tf.range(40), 5 * shapes).numpy()
        one = getattr(Stream(keys(5, Purpose.NOISE, range(1, 2))), draw)(counters[1:], tf.range(40), 5 * shapes[:1, :1])
        np.testing.assert_allclose(one.numpy()[0, 0], all_of[1, 1], rtol=1e-12)
        assert len(np.unique(all_of.reshape(6, 40), axis=0)) == 6


def test_parameters_outside_of_the_distribution_give_nan() -> None:
    bad = tf.constant([[[0.0, -1.0, np.nan, np.inf, 1.0]]], tf.float64)
    np.testing.assert_array_equal(np.isnan(log_gamma(bad)), [[[True, True, True, True, False]]])
    np.testing.assert_array_equal(np.isnan(poisson(bad)), [[[False, True, True, True, False]]])


def test_first_refused_in_order() -> None:
    rng = np.random.default_rng(0)
    for size, share in ((1000, 0.1), (1000, 0.0), (777, 1.0), (64, 0.5)):
        value = np.where(rng.uniform(size=size) < share, np.nan, 1.0)
        expected = np.flatnonzero(np.isnan(value))
        for n in (10, 200):
            got = rejection._first_refused(tf.constant(value), n).numpy()
            padded = np.concatenate([expected, np.full(n, size)])[:n]
            np.testing.assert_array_equal(got, padded)
