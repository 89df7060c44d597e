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
from scipy.optimize import minimize

from sgmcmc import sgldcv, sgldSetup, windows

QUIET = {"verbose": False, "seed": 1}


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


def mode_of_level(y, before=None, length=10):
    """The mode and the posterior sd, of the whole series or of windows of it, in NumPy."""

    def minus_log_density(u):
        phi = 1 / (1 + np.exp(-u[0]))
        starts = [0] if before is None else range(0, len(y), length)
        total = 0.5 * (u[0] - 3) ** 2
        for start in starts:
            first, stop = (0, len(y)) if before is None else (max(0, start - before), min(start + length, len(y)))
            mean, variance = 0.0, 1.0
            for t in range(first, stop):
                if t >= start:
                    total += 0.5 * (y[t] - mean) ** 2 / (variance + 1) + 0.5 * np.log(variance + 1)
                gain = variance / (variance + 1)
                mean = phi * (mean + gain * (y[t] - mean))
                variance = phi**2 * variance * (1 - gain) + 1 - phi**2
        return total

    found = minimize(minus_log_density, [3.0], method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9})
    h = 1e-2
    at = found.x[0]
    second = (minus_log_density([at + h]) - 2 * found.fun + minus_log_density([at - h])) / h**2
    return at, second**-0.5


def prior_of_level(params):
    return -0.5 * (params["phi"] - 3) ** 2


def run_of_level(y, before, **options):
    data = windows({"y": y}, length=10, before=before)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        out = sgldcv(of_level, data, {"phi": 2.0}, logPrior=prior_of_level, **QUIET, **options)
    return out, [str(one.message) for one in told if "of windows of" in str(one.message)]


@pytest.mark.parametrize("phi, before, seed", [(0.9, 5, 1), (0.99, 5, 1), (0.99, 8, 2)])
def test_a_context_that_is_too_short_is_told_with_the_shift_that_it_makes(phi, before, seed):
    y = level(1500, phi, seed)
    out, told = run_of_level(y, before, nIters=100)
    (here, _), (whole, sd) = mode_of_level(y, before), mode_of_level(y)
    true, predicted = (whole - here) / sd, float(out.settings["expected"]["contextShift"]["phi"])
    assert true > 0.5 and abs(predicted - true) < (0.25 if before * (1 - phi) > 0.06 else 0.6) * true
    (message,) = told
    assert f"before={before} of windows of sgldcv is too few steps" in message and "['phi']" in message
    assert float(re.search(r"up to ([\d.e-]+) posterior", message)[1]) == pytest.approx(predicted, rel=0.05)


def test_as_many_steps_are_taken_as_needed():
    y = level(1500, 0.9, seed=1)
    whole, sd = mode_of_level(y)
    out, told = run_of_level(y, "auto")
    before = out.settings["before"]
    assert told == [] and before == 16
    assert abs(mode_of_level(y, before)[0] - whole) < 0.02 * sd < abs(mode_of_level(y, before // 2)[0] - whole)
    # The posterior is that of the whole series, nearly normal on this scale.
    assert abs(out["phi"].mean() - whole) < 0.3 * sd
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
