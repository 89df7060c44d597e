"""Time series as windows: the posterior, and the error of the steps before them, against whole-series computations.

Statistical bounds: a run has at least 400 effective draws, so a mean is within 0.2 sds of the exact one, 4 standard
errors (a false alarm in 16,000), and an sd within 20%: 4 standard errors of 3.5% and the tolerance of 5%. A factor of
sqrt(2) in an sd, or context steps that count, are far outside.
"""

import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter

from sgmcmc import scirSetup, sgldcv, sgldSetup, shards, windows

QUIET = {"verbose": False, "seed": 1}
CASES = [
    (0.7, 5, 0.25),
    (0.9, 5, 0.6),
]  # the rate, the steps before, and how near the predicted shift is to the true one


def autoregression(sizes, phi, seed=0):
    rng = np.random.default_rng(seed)
    series = []
    for size in sizes:
        y = np.zeros(size)
        y[0] = rng.normal() / np.sqrt(1 - phi**2)
        for t in range(1, size):
            y[t] = phi * y[t - 1] + rng.normal()
        series.append({"y": y})
    return series


def of_autoregression(params, dataset):
    y, inside, phi = dataset["y"], dataset["inside"], params["phi"]
    of_steps = inside[:, 1:] * -0.5 * (y[:, 1:] - phi * y[:, :-1]) ** 2
    first = -0.5 * y[:, 0] ** 2 * (1 - phi**2) + 0.5 * tf.math.log(1 - phi**2)
    return tf.reduce_sum(of_steps, axis=1) + dataset["begins"] * inside[:, 0] * first


@pytest.mark.parametrize("sizes", [[3000], [700, 1, 900, 3, 1400]], ids=["one series", "several"])
def test_an_autoregression_has_the_posterior_of_the_whole_series(sizes):
    series = autoregression(sizes, 0.8)
    out = sgldcv(of_autoregression, windows(series, length=7, before=1), {"phi": 0.0}, **QUIET)
    phi = np.linspace(0.6, 0.95, 4001)
    log_density = np.zeros_like(phi)
    for one in series:
        y = one["y"]
        log_density += -0.5 * (phi**2 * (y[:-1] @ y[:-1]) - 2 * phi * (y[1:] @ y[:-1]))
        log_density += -0.5 * y[0] ** 2 * (1 - phi**2) + 0.5 * np.log(1 - phi**2)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = density @ phi
    sd = np.sqrt(density @ (phi - mean) ** 2)
    assert abs(out["phi"].mean() - mean) < 0.2 * sd
    assert abs(out["phi"].std() / sd - 1) < 0.2
    np.testing.assert_allclose(out.settings["expected"]["contextShift"]["phi"], 0, atol=2e-3)  # one step says all


def smoothed(y, u):
    """The means of all steps given those before: m_t = 0.95 m_t-1 + (0.95 - rate) (y_t-1 - m_t-1), from m_0 = 0."""
    rate = 1 / (1 + np.exp(-u))
    return lfilter([0, 0.95 - rate], [1, -rate], y)


def series_of_rate(rate, size=2000, seed=0):
    rng = np.random.default_rng(seed)
    y, mean = np.zeros(size), 0.0
    for t in range(size):
        y[t] = mean + rng.normal()
        mean = rate * mean + (0.95 - rate) * y[t]
    return y


def of_smoothing(params, dataset):
    y, rate = dataset["y"], tf.sigmoid(params["u"])
    steps = tf.range(y.shape[1], dtype=y.dtype)
    lag = steps[:, None] - steps - 1
    weights = tf.where(lag >= 0, rate ** tf.maximum(lag, 0.0), 0.0)
    mean = (0.95 - rate) * tf.matmul(y, weights, transpose_b=True)
    return tf.reduce_sum(dataset["inside"] * -0.5 * (y - mean) ** 2, axis=1)


def prior(params):
    return -0.5 * params["u"] ** 2


def mode(y, before=None, length=10):
    """The mode and the posterior sd, of the whole series or of windows of it, in NumPy."""

    def minus_log_density(u):
        if before is None:
            return 0.5 * u**2 + 0.5 * ((y - smoothed(y, u)) ** 2).sum()
        of_windows = 0.0
        for start in range(0, len(y), length):
            part = y[max(0, start - before) : start + length]
            of_windows += 0.5 * ((part - smoothed(part, u))[min(start, before) :] ** 2).sum()
        return 0.5 * u**2 + of_windows

    at = minimize_scalar(minus_log_density, bounds=(-3, 8), method="bounded", options={"xatol": 1e-7}).x
    h = 1e-2
    second = (minus_log_density(at + h) - 2 * minus_log_density(at) + minus_log_density(at - h)) / h**2
    return at, second**-0.5


def run_of(log_lik, y, before, start, log_prior, **options):
    data = windows({"y": y}, length=10, before=before)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        out = sgldcv(log_lik, data, start, logPrior=log_prior, **QUIET, **options)
    return out, [str(one.message) for one in told if "of windows of" in str(one.message)]


@pytest.mark.parametrize("rate, before, within", CASES)
def test_a_context_that_is_too_short_is_told_with_the_shift_that_it_makes(rate, before, within):
    y = series_of_rate(rate)
    out, told = run_of(of_smoothing, y, before, {"u": 1.0}, prior, nIters=100)
    (here, sd_here), (whole, sd) = mode(y, before), mode(y)
    true, predicted = (whole - here) / sd_here, float(out.settings["expected"]["contextShift"]["u"])
    assert abs(true) > 0.1 and abs(predicted - true) < within * abs(true)
    assert float(out.settings["expected"]["contextSdRatio"]["u"]) == pytest.approx(sd / sd_here, rel=0.1)
    (message,) = told
    assert f"before={before} of windows of sgldcv is too few steps" in message and "['u']" in message
    assert float(re.search(r"up to ([\d.e-]+) posterior", message)[1]) >= 0.95 * abs(predicted)


def test_as_many_steps_are_taken_as_needed():
    y = series_of_rate(0.7)
    whole, sd = mode(y)
    out, told = run_of(of_smoothing, y, "auto", {"u": 1.0}, prior)
    before = out.settings["before"]
    assert told == [] and before in (8, 16, 32)
    assert abs(mode(y, before)[0] - whole) < 0.02 * sd < abs(mode(y, 4)[0] - whole)
    # The posterior is that of the whole series, nearly normal on this scale.
    assert abs(out["u"].mean() - whole) < 0.3 * sd
    assert abs(out["u"].std() / sd - 1) < 0.2


def level(size, phi, seed=0):
    """An autoregression of standard deviation 1, observed with noise of standard deviation 1."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(), np.zeros(size)
    for t in range(size):
        y[t] = x + rng.normal()
        x = phi * x + np.sqrt(1 - phi**2) * rng.normal()
    return y


def of_level(params, dataset):
    """By a Kalman filter from the stationary distribution."""
    phi, y = tf.sigmoid(params["phi"]), tf.transpose(dataset["y"])

    def step(before, y):
        mean, variance, _ = before
        total = variance + 1
        log_density = -0.5 * (y - mean) ** 2 / total - 0.5 * tf.math.log(total)
        gain = variance / total
        mean = phi * (mean + gain * (y - mean))
        return mean, phi**2 * variance * (1 - gain) + 1 - phi**2, log_density

    zeros = tf.zeros_like(y[0])
    log_densities = tf.scan(step, y, (zeros, zeros + 1, zeros))[2]
    return tf.reduce_sum(dataset["inside"] * tf.transpose(log_densities), axis=1)


def posterior_of_level(y):
    """The mean and sd on a grid, by a Kalman filter over the whole series, in NumPy."""
    u = np.linspace(1, 6, 2001)
    phi, mean, variance, log_density = 1 / (1 + np.exp(-u)), np.zeros_like(u), np.ones_like(u), -0.5 * (u - 3) ** 2
    for value in y:
        log_density = log_density - 0.5 * (value - mean) ** 2 / (variance + 1) - 0.5 * np.log(variance + 1)
        gain = variance / (variance + 1)
        mean = phi * (mean + gain * (value - mean))
        variance = phi**2 * variance * (1 - gain) + 1 - phi**2
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    centre = density @ u
    return centre, np.sqrt(density @ (u - centre) ** 2)


def test_a_kalman_filter_has_the_posterior_of_the_whole_series():
    y = level(2000, 0.9, seed=1)
    out, _ = run_of(of_level, y, 16, {"phi": 2.0}, lambda params: -0.5 * (params["phi"] - 3) ** 2)
    mean, sd = posterior_of_level(y)
    assert abs(out["phi"].mean() - mean) < 0.2 * sd
    assert abs(out["phi"].std() / sd - 1) < 0.2


def counting_all(params, dataset):
    y = dataset["y"]
    return tf.reduce_sum(-0.5 * (y[:, 1:] - params["phi"] * y[:, :-1]) ** 2, axis=1)


def beginning_twice(params, dataset):
    """The first step of a series counts in each window that begins with it."""
    y, inside, phi = dataset["y"], dataset["inside"], params["phi"]
    of_steps = tf.reduce_sum(inside[:, 1:] * -0.5 * (y[:, 1:] - phi * y[:, :-1]) ** 2, axis=1)
    return of_steps - dataset["begins"] * 0.5 * y[:, 0] ** 2 * (1 - phi**2)


@pytest.mark.parametrize(
    "log_lik, size, message",
    [
        (counting_all, 105, "must not depend on padding"),
        (beginning_twice, 100, r"must count only those steps of a window for which dataset\['inside'\] is 1"),
    ],
    ids=["padding", "steps before"],
)
def test_steps_outside_that_count_are_refused(log_lik, size, message):
    data = windows(autoregression([size], 0.8), length=10, before=20)
    with pytest.raises(ValueError, match=f"logLik of sgld {message}"):
        sgldSetup(log_lik, data, {"phi": 0.5}, 1e-4, minibatchSize=5)


def test_steps_before_must_be_a_number_where_their_error_is_unknown():
    data, params = windows(autoregression([200], 0.8), length=10), {"phi": 0.5}
    with pytest.raises(ValueError, match="before of windows, in dataset of sgld in shard 0 must be a number in shards"):
        sgldSetup(of_autoregression, shards([data]), params, 1e-4, minibatchSize=5)
    with pytest.raises(ValueError, match="before of windows, in dataset of scir must be a number"):
        scirSetup(lambda params, dataset: {"p": tf.zeros(2)}, data, {"p": [0.5, 0.5]}, 0.1, alpha=1.0, minibatchSize=5)
