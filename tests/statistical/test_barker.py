"""Barker dynamics: one step against quadrature, and where its chains settle, against the exact law on a grid."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy.linalg import solve_continuous_lyapunov
from scipy.special import expit
from scipy.stats import norm

import sgmcmc
from sgmcmc.dynamics import Given
from sgmcmc.dynamics.barker import PROBIT, barker
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.laplace import stepsize
from sgmcmc.laplace.stepsize import directions
from sgmcmc.minibatch.uniform import with_replacement
from sgmcmc.run import curvature
from tests.statistical.laws import (
    GaussianMean,
    accept,
    chains,
    found_for,
    moments_z,
    reject,
    scaled_noise,
    settled,
    sgld_variance,
    simulate,
    z_score,
)

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


# --- one step ---------------------------------------------------------------------------------------------------------


def drift(g, eps):
    """The mean of a step at the gradient g."""
    z = np.sqrt(eps) * NODES
    return np.tanh(np.multiply.outer(g, z) / 2) @ (z * WEIGHTS)


def corrected_drift(g, eps, variance):
    """With the correction, over normal noise of the gradient; the noise by a fine grid, since b may be a step there."""
    z, noise = np.linspace(-8, 8, 2001), np.linspace(-8, 8, 2001)
    density, h = norm.pdf(z), z[1] - z[0]
    left = 1 - eps * (z / PROBIT) ** 2 * variance
    alpha = np.where(left > 0, np.maximum(left, 1e-12) ** -0.5, 1e6)
    odds = np.multiply.outer(alpha * np.sqrt(eps) * z, g + np.sqrt(variance) * noise)
    return np.sqrt(eps) * np.einsum("zn,z,z,n->", np.tanh(odds / 2), z, density, density) * h**2


def steps(dynamics, g, eps, variance, size=400_000):
    """Of so many chains from 0, with normal noise of the gradient."""
    first, second, error = np.random.default_rng(3).normal(size=(3, size))
    gradient = tf.constant(g + np.sqrt(variance) * error)
    given = Given(tf.constant(eps, tf.float64), (tf.constant(first), tf.constant(second)), gradient)
    zero = tf.zeros(size, tf.float64)
    moved, _ = dynamics.step(zero, {}, given._replace(covariance=tf.fill([size], tf.constant(variance, tf.float64))))
    return moved.numpy()


@pytest.mark.parametrize("g", [-30.0, 0.7, 4.0])
def test_one_step(g):
    """Standard errors of the mean are 0.2% of a step's size."""
    eps = 0.04
    moved = steps(barker(), g, eps, 0.0)
    accept(f"barker, g = {g}", {"mean": z_score(moved, drift(g, eps)), "square": z_score(moved**2, eps)})
    reject("noise * sqrt(2)", {"square": z_score(steps(scaled_noise(barker(), 2**0.5), g, eps, 0.0) ** 2, eps)})
    reject("mean of sgld" if abs(g) > 1 else "no gradient", {"mean": z_score(moved, eps / 2 * g if abs(g) > 1 else 0)})


@pytest.mark.parametrize("variance", [10.0, 25.0, 60.0])
def test_one_step_that_is_corrected_for_noise(variance):
    """Normal noise with eps V from 0.4 to 2.4: of what it takes from the mean a third to a half remains, then more."""
    g, eps = 1.0, 0.04
    moved = steps(barker(corrected=True), g, eps, variance)
    exact = corrected_drift(g, eps, variance)
    accept(f"corrected, V = {variance}", {"mean": z_score(moved, exact), "square": z_score(moved**2, eps)})
    wrong = steps(scaled_noise(barker(corrected=True), 2**0.5), g, eps, variance)
    reject("noise * sqrt(2)", {"square": z_score(wrong**2, eps)})
    noisy, without = WEIGHTS @ drift(g + np.sqrt(variance) * NODES, eps), drift(g, eps)
    reject("not corrected", {"mean": z_score(moved, noisy)})
    assert 0.2 < (without - exact) / (without - noisy) < (0.5 if eps * variance <= 1 else 0.75)


# --- where a chain settles --------------------------------------------------------------------------------------------


def law(eps, precision, noises, weights, width=9.0, size=1201):
    """Mean, variance and integrated autocorrelation time on N(0, 1/precision), by the kernel on a grid.

    The noise of the gradient is one of `noises`, with these probabilities: numbers, or functions of the position.
    """
    x = np.linspace(-width, width, size) / np.sqrt(precision)
    step = x[:, None] - x  # to, from
    at = [v(x) if callable(v) else v for v in noises]
    forwards = sum(w * expit(step * (v - precision * x)) for v, w in zip(at, weights, strict=True))
    kernel = norm.pdf(step, scale=np.sqrt(eps)) * forwards
    density, *found = settled((kernel / kernel.sum(axis=0)).T, x)
    assert abs(density[0]) + abs(density[-1]) < 1e-9
    return found


@pytest.mark.parametrize(("speed", "heat"), [(0.05, 0.0), (0.05, 0.1), (0.1, 0.0), (0.3, 1.0), (2.0, 0.0), (1.0, 5.0)])
def test_it_tells_where_it_settles(speed, heat):
    """To 0.1% for variances up to 12% too large, for which it is used, and to 4% for any."""
    precision = 7.0
    eps, noise = speed / precision, heat * precision / speed
    _, variance, time = law(eps, precision, np.sqrt(noise) * NODES, WEIGHTS, width=9 * (1 + heat + speed) ** 0.5)
    told = barker().stationary(eps, np.array([precision]), np.array([noise]))
    ratio = variance * precision
    assert told.variance[0] == pytest.approx(variance, rel=1e-3 if ratio < 1.12 else 0.04)
    assert told.iterations[0] == pytest.approx(time, rel=0.01 if ratio < 1.12 else 0.2)


def test_a_chain_settles_where_its_law_is():
    """Five observations, and minibatches of one: the noise is one of five numbers."""
    few = GaussianMean(5, 1.0, seed=3)
    eps = 0.1 / few.a
    noises = few.N * (few.x - few.x.mean())
    mean, variance, _ = law(eps, few.a, noises, np.full(5, 0.2))
    assert 1.4 < variance * few.a < 1.6

    def scores(dynamics, variance=variance):
        draws = simulate(chains(few, dynamics, with_replacement(5, 1), eps, 4000, few.mean, variance), 1500, 5)
        later = {"theta": draws["theta"][60:]}
        return moments_z(later, np.array([few.mean + mean]), np.array([[variance]]))

    accept("barker, n = 1", scores(barker()))
    reject("the posterior", scores(barker(), 1 / few.a))
    reject("law of sgld", scores(barker(), sgld_variance(eps, few.a, noises.var())))
    reject("sgld", scores(sgld()))
    reject("noise * sqrt(2)", scores(scaled_noise(barker(), 2**0.5)))


def test_the_statistic_is_the_variance():
    """On average over points of the law: what the chain tells is R, but for (R - 1)^2."""
    eps, precision, noise = 0.02, 7.0, 20.0
    told = barker().stationary(eps, np.array([precision]), np.array([noise]))
    ratio = told.variance[0] * precision
    rng = np.random.default_rng(4)
    theta, error, first, second = rng.normal(size=(4, 200_000))
    gradient = tf.constant(-precision * np.sqrt(told.variance) * theta + np.sqrt(noise) * error)
    given = Given(tf.constant(eps, tf.float64), (tf.constant(first), tf.constant(second)), gradient)
    _, memory = barker().step(tf.zeros_like(gradient), {}, given)
    assert 1.15 < ratio < 1.35
    assert memory["variance_ratio"].numpy() == pytest.approx(2 - 1 / ratio, abs=0.004)


SPREAD, RARE = np.arange(1.0, 11.0) ** 2 / 38.5, np.append(10.0, np.zeros(19))


@pytest.mark.parametrize("precisions", [SPREAD, RARE])
def test_the_stepsize_is_for_noise_as_it_is(precisions, monkeypatch):
    """Observations of different precisions, control variates, minibatches of one: the sd stays within 5%. It would not
    if noise counted as if it were the same everywhere, and normal where one of 20 observations makes all of it."""
    size, total = len(precisions), precisions.sum()

    def error():
        eps, noises = found_for(sgmcmc.barkerSetup, precisions)
        return (total * law(eps, total, noises, np.full(size, 1 / size), 30.0, 3001)[1]) ** 0.5 - 1

    assert 0 < error() < 0.05
    monkeypatch.setattr(curvature, "NOISE_GROWTH", 1.0)
    monkeypatch.setattr(stepsize, "JUMPS", 0.0)
    assert error() > 0.05


# --- several dimensions -----------------------------------------------------------------------------------------------

H = np.array([[2.0, 1.2, 0.0], [1.2, 1.5, -0.4], [0.0, -0.4, 1.0]])
NOISE = np.array([[8.0, -5.0, 2.0], [-5.0, 6.0, 1.0], [2.0, 1.0, 3.0]])


def change(covariance, eps):
    """Of the second moments in a step from N(0, covariance), with normal noise; exact, by quadrature."""
    size = len(H)
    of_gradient = H @ covariance @ H + NOISE
    moments = np.zeros((size, size))  # E d d^T
    with_theta = np.zeros((size, size))  # E theta d^T
    root = np.sqrt(np.diag(of_gradient))
    for i in range(size):
        mean = drift(root[i] * NODES, eps)
        with_theta[:, i] = -(covariance @ H)[:, i] / root[i] * (WEIGHTS * NODES @ mean)
        for j in range(size):
            r = of_gradient[i, j] / root[i] / root[j]
            other = r * NODES[:, None] + np.sqrt(1 - r**2) * NODES if i != j else NODES[:, None]
            moments[i, j] = (WEIGHTS * mean) @ drift(root[j] * other, eps) @ WEIGHTS if i != j else eps
    return with_theta + with_theta.T + moments


def test_the_covariance_to_the_first_order():
    """With X as the formula has it a step changes the moments by the order of eps^3, without by that of eps^2."""
    S = H + NOISE
    X = solve_continuous_lyapunov(H, S / 2 + np.diag(np.diag(S)))
    wrong = solve_continuous_lyapunov(H, 1.5 * S)

    def left(x, eps):
        return np.abs(change(np.linalg.inv(H) + eps * x, eps)).max() / eps**2

    assert left(X, 5e-4) < 0.3 * left(X, 2e-3) and left(X, 5e-4) < 0.05 * left(wrong, 5e-4)


@pytest.mark.parametrize("white", [True, False])
def test_directions_have_the_covariance_or_a_bound_of_it(white):
    """In white coordinates to the first order; else no direction is farther off than the worst is said to be."""
    eps, precision = 1e-4, np.eye(3) if white else H
    S = precision + NOISE
    X = solve_continuous_lyapunov(precision, S / 2 + np.diag(np.diag(S)))
    where = directions(precision, NOISE, barker().along)
    told = barker().stationary(eps, where.precision, where.noise).variance * where.precision - 1
    exact = np.einsum("ji,jk,ki->i", where.vectors, X, where.vectors) * where.precision * eps
    if white:
        np.testing.assert_allclose(told, exact, rtol=1e-2)
    else:
        assert where.mixed
        root = np.linalg.cholesky(precision)
        worst = eps * np.linalg.eigvalsh(root.T @ X @ root)[-1]
        assert worst <= told.max() < 3 * worst
