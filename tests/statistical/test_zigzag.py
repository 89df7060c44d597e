"""The zig-zag process: one step, the exact law of its chains on a grid, and atoms at 0 with known probabilities."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import multivariate_normal

from sgmcmc import controlVariates, sgzigzag, sgzigzagSetup
from sgmcmc.dynamics import Given
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.dynamics.sgzigzag import sgzigzag as dynamics_of
from sgmcmc.laplace import stepsize
from sgmcmc.laplace.stepsize import directions
from sgmcmc.minibatch.uniform import with_replacement
from sgmcmc.run import curvature
from sgmcmc.samplers.sgzigzag import Spike
from tests.statistical.laws import (
    GaussianMean,
    accept,
    chains,
    found_for,
    moments_z,
    reject,
    scaled_noise,
    settled,
    simulate,
    z_score,
)

# --- one step ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "h"), [(0.5, 0.4), (8.0, 0.4)])
def test_one_step(rate, h):
    """Moments of h - 2 max(h - tau, 0) and of the turn, tau exponential; the error bound is 0.5% of h."""

    def step(dynamics, gradient, size=200_000):
        z = tf.constant(np.random.default_rng(0).normal(size=size))
        one = tf.ones(size, tf.float64)
        given = Given(tf.constant(h**2, tf.float64), z, gradient * one)
        moved, memory = dynamics.step(one * h / 2, {"velocity": one, "ahead": one * h / 2}, given)
        return moved.numpy(), memory["velocity"].numpy()

    stays = np.exp(-rate * h)
    late = h - (1 - stays) / rate  # E max(h - tau, 0)
    late2 = h**2 - 2 * late / rate  # and of its square
    moved, velocity = step(dynamics_of(), -rate)
    expected = {"mean": (moved, h - 2 * late), "square": (moved**2, h**2 - 4 * h * late + 4 * late2)}
    expected["velocity"] = (velocity, 2 * stays - 1)
    accept(f"rate {rate}", {name: z_score(*pair) for name, pair in expected.items()})
    wrong, turned = step(scaled_noise(dynamics_of(), 2**0.5), -rate)
    reject("noise * sqrt(2)", {"velocity": z_score(turned, 2 * stays - 1), "mean": z_score(wrong, h - 2 * late)})
    np.testing.assert_allclose(step(dynamics_of(), rate)[0], h, rtol=1e-12)  # uphill nothing turns


def test_the_gradient_is_taken_in_the_middle_of_the_step():
    """So without noise the error is of order h^2, not h; an element at 0, or near, does not look beyond it."""
    theta = tf.constant([0.01, -0.01, 1.0, 0.0], tf.float64)
    v, h = tf.constant([-1.0, -1.0, 1.0, 1.0], tf.float64), 0.1
    given = Given(tf.constant(h**2, tf.float64), v)
    plain, sticky = dynamics_of(), dynamics_of(np.ones(4))
    for dynamics, place in ((plain, theta + v * h / 2), (sticky, [0.0, -0.06, 1.05, 0.0])):
        np.testing.assert_allclose(dynamics.drift(theta, dynamics.init(theta, given)), place, atol=1e-12)


# --- where a chain settles --------------------------------------------------------------------------------------------


def law(h, precision, noises, weights, width=8.0, parts=6):
    """Mean, variance and integrated autocorrelation time on N(0, 1/precision), by the kernel of (v, theta) on a grid.

    The noise of the gradient is one of `noises`, with these probabilities: numbers, or functions of the position. The
    grid divides h, so that moves without a turn stay on it; those with one are rounded to it.
    """
    n = 2 * int(width / np.sqrt(precision) / (h / parts)) + 1
    x, here = (np.arange(n) - n // 2) * h / parts, np.arange(n)
    kernel = np.zeros((2, n, 2, n))  # from v, theta to v, theta
    shifts = np.arange(-parts, parts + 1)
    borders = np.clip(np.append(shifts - 0.5, parts + 0.5) * h / parts, -h, h)
    for number, v in enumerate((1, -1)):
        at = x[:, None] + v * h / 2
        of_minibatch = np.hstack([noise(at) if callable(noise) else np.full_like(at, noise) for noise in noises])
        rates = np.maximum(-v * (of_minibatch - precision * at), 0)
        later = np.einsum("xnb,n->xb", np.exp(-rates[..., None] * (v * borders + h) / 2), weights)
        for shift, turned in zip(shifts, np.abs(np.diff(later)).T, strict=True):
            kernel[number, here, 1 - number, np.clip(here + shift, 0, n - 1)] += turned
        kernel[number, here, number, np.clip(here + v * parts, 0, n - 1)] += np.exp(-rates * h) @ weights
    kernel = kernel.reshape(2 * n, 2 * n)
    np.testing.assert_allclose(kernel.sum(axis=1), 1, rtol=1e-9)
    density, *found = settled(kernel, np.tile(x, 2))
    assert density[0] + density[n - 1] < 1e-9
    return found


def of_normal(variance):
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return np.sqrt(variance) * nodes, weights / weights.sum()


@pytest.mark.parametrize(("h", "V"), [(0.2, 0.0), (0.6, 0.0), (0.2, 1.0), (0.05, 20.0), (0.3, 20.0)])
def test_it_tells_where_it_settles(h, V):
    """The variance to 10% of its error and 0.3%, and the autocorrelation time to 15%."""
    precision = 7.0
    step, noise = h / np.sqrt(precision), V * precision
    _, variance, time = law(step, precision, *of_normal(noise), width=8 * (1 + h * V**0.5) ** 0.5)
    told = dynamics_of().stationary(step**2, np.array([precision]), np.array([noise]))
    ratio = variance * precision
    assert told.variance[0] * precision == pytest.approx(ratio, abs=0.003 + 0.1 * (ratio - 1))
    assert told.iterations[0] == pytest.approx(time, rel=0.15)
    if V == 20:  # far from the posterior, and near what large noise does
        assert ratio - 1 == pytest.approx(h * (V / (2 * np.pi)) ** 0.5, rel=0.3)


def test_a_chain_settles_where_its_law_is():
    """Five observations, and minibatches of one: the noise is one of five numbers."""
    few = GaussianMean(5, 1.0, seed=3)
    h = 0.25 / np.sqrt(few.a)
    noises = few.N * (few.x - few.x.mean())
    mean, variance, _ = law(h, few.a, noises, np.full(5, 0.2))
    assert 1.2 < variance * few.a < 1.8

    def scores(dynamics, variance=variance):
        draws = simulate(chains(few, dynamics, with_replacement(5, 1), h**2, 8000, few.mean, variance), 800, 5)
        return moments_z({"theta": draws["theta"][60:]}, np.array([few.mean + mean]), np.array([[variance]]))

    accept("sgzigzag, n = 1", scores(dynamics_of()))
    reject("the posterior", scores(dynamics_of(), 1 / few.a))
    reject("sgld", scores(sgld()))
    reject("noise * sqrt(2)", scores(scaled_noise(dynamics_of(), 2**0.5)))


def test_the_stepsize_is_for_noise_as_it_is(monkeypatch):
    """Ten observations of different precisions, control variates, minibatches of one: the sd stays within 5%. It would
    not if noise that grows with the distance counted as if it were the same everywhere. For rare noise see barker."""
    precisions = np.arange(1.0, 11.0) ** 2 / 38.5
    size, total = len(precisions), precisions.sum()

    def error():
        eps, noises = found_for(sgzigzagSetup, precisions)
        return (total * law(eps**0.5, total, noises, np.full(size, 1 / size))[1]) ** 0.5 - 1

    assert 0 < error() < 0.05
    monkeypatch.setattr(curvature, "NOISE_GROWTH", 1.0)
    monkeypatch.setattr(stepsize, "JUMPS", 0.0)
    assert error() > 0.05


@pytest.mark.parametrize("correlation", [0.95, -0.5])
def test_elements_whose_noise_is_correlated_are_too(correlation):
    """White coordinates, noise that is 20 times as large as the precision: the variances along the two diagonals are
    6% too large, and more or less by what the correlation of the noise does. Less than 1 counts as 1."""
    h, size = 0.03, 20_000
    noise = 20 * np.array([[1, correlation], [correlation, 1]])
    where = directions(np.eye(2), noise, dynamics_of().along)
    told = dynamics_of().stationary(h**2, where.precision, where.noise).variance
    rng, root = np.random.default_rng(1), np.linalg.cholesky(noise)
    theta, z = (tf.constant(rng.normal(size=(size, 2))) for _ in range(2))
    eps = tf.constant(h**2, tf.float64)
    step = tf.function(lambda theta, memory, z, g: dynamics_of().step(theta, memory, Given(eps, z, g)))
    memory, total, count = dynamics_of().init(theta, Given(eps, z)), 0.0, 0
    for t in range(2000):
        at = dynamics_of().drift(theta, memory)
        error = tf.random.stateless_normal([size, 2], [t, 1], dtype=tf.float64) @ root.T
        theta, memory = step(at, memory, tf.random.stateless_normal([size, 2], [t, 2], dtype=tf.float64), error - at)
        if t >= 400:
            total, count = total + np.cov(theta.numpy().T), count + 1
    found = np.diag(where.vectors.T @ (total / count) @ where.vectors)
    apart = abs(told[1] - told[0])
    assert apart > 0.05
    np.testing.assert_allclose(np.maximum(found, 1), told, atol=0.15 * apart)


# --- atoms at 0 -------------------------------------------------------------------------------------------------------

N, W, SD = 60, np.array([0.65, 0.45]), 0.8
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]]) / 6
Y = X @ [0.0, 0.9] + RNG.normal(size=N)


def log_lik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.linalg.matvec(dataset["x"], params["beta"])) ** 2)


def log_prior(params):
    return -0.5 * tf.reduce_sum((params["beta"] / SD) ** 2)


def models():
    """The probability of each set of elements that are not 0, and the mean and covariance of these."""
    found = {}
    for included in product((False, True), repeat=2):
        x = X[:, list(included)]
        evidence = multivariate_normal.pdf(Y, np.zeros(N), np.eye(N) + SD**2 * x @ x.T)
        covariance = np.linalg.inv(x.T @ x + np.eye(sum(included)) / SD**2)
        found[included] = np.prod(np.where(included, W, 1 - W)) * evidence, covariance @ x.T @ Y, covariance
    total = sum(weight for weight, *_ in found.values())
    return {included: (weight / total, *rest) for included, (weight, *rest) in found.items()}


def test_probabilities_of_inclusion_are_those_of_all_models(monkeypatch):
    """Two correlated coefficients, both uncertain. The step is a tenth of an sd, with half of the data and control
    variates: its error is below what 1,200 chains can see, 1% of a probability."""
    exact = models()
    joint = {key: weight for key, (weight, *_) in exact.items()}
    assert all(0.08 < weight < 0.7 for weight in joint.values())
    mean = sum(w * m[-1] for included, (w, m, c) in exact.items() if included[1])

    def scores():
        out = sgzigzag(
            log_lik, {"x": X, "y": Y}, {"beta": np.zeros(2)}, 0.06**2, log_prior, N // 2, 1400, seed=1, burnIn=400,
            thin=20, nChains=1200, starts=0.3, gradient=controlVariates(), dtype="float64", verbose=False,
            inclusion={"beta": W},
        )  # fmt: skip
        beta = out["beta"]
        found = {str(k): z_score(((beta != 0) == k).all(axis=2).mean(axis=1), joint[k]) for k in joint}
        return found | {"mean": z_score(beta[..., 1].mean(axis=1), mean)}

    accept("inclusion", scores())
    rates = Spike.rates
    monkeypatch.setattr(Spike, "rates", lambda spike: {name: 2**0.5 * each for name, each in rates(spike).items()})
    reject("slab * sqrt(2)", scores())
