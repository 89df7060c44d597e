"""The divergence of normal laws: closed forms, an integral, and what finitely many draws add."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from sgmcmc.diagnostics import gaussianKL

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) @ np.array([[1.0, 0.2, 0.0], [0.0, 2.0, 0.5], [0.0, 0.0, 0.1]]) + [1.0, 2.0, 3.0]
MEAN = np.array([0.5, 2.5, 3.0])
COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.0], [0.1, 0.0, 0.5]])


def by_determinants(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    found, shift, inverse = np.cov(x, rowvar=False), x.mean(axis=0) - mean, np.linalg.inv(covariance)
    logs = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(found)[1]
    return (np.trace(inverse @ found) + shift @ inverse @ shift - len(mean) + logs) / 2


def test_it_is_the_closed_form():
    assert gaussianKL(X, MEAN, COVARIANCE) == pytest.approx(by_determinants(X, MEAN, COVARIANCE), rel=1e-12)


def test_it_is_the_integral_and_not_that_of_the_other_direction():
    x = np.array([-1.0, 0.5, 2.0, 4.0])
    p, q = norm(x.mean(), x.std(ddof=1)), norm(1.0, 3.0)
    integral = quad(lambda t: p.pdf(t) * (p.logpdf(t) - q.logpdf(t)), -30, 30)[0]
    assert gaussianKL(x, 1.0, 9.0) == pytest.approx(integral, rel=1e-6)
    other = quad(lambda t: q.pdf(t) * (q.logpdf(t) - p.logpdf(t)), -60, 60)[0]
    assert abs(other - integral) > 0.05


def test_in_two_dimensions_it_is_a_mean_of_log_densities():
    x, covariance = X[:, :2], COVARIANCE[:2, :2]
    p = multivariate_normal(x.mean(axis=0), np.cov(x, rowvar=False))
    draws = p.rvs(size=200_000, random_state=1)
    ratios = p.logpdf(draws) - multivariate_normal(MEAN[:2], covariance).logpdf(draws)
    assert abs(gaussianKL(x, MEAN[:2], covariance) - ratios.mean()) < 6 * ratios.std() / len(draws) ** 0.5


def test_units_do_not_matter_even_far_from_the_origin():
    units, origin = np.array([1e-6, 1.0, 1e5]), np.array([1.0, -1e3, 1e8])
    there = gaussianKL(origin + units * X, origin + units * MEAN, COVARIANCE * np.outer(units, units))
    assert there == pytest.approx(gaussianKL(X, MEAN, COVARIANCE), rel=1e-6)


def test_its_own_moments_are_no_distance():
    assert gaussianKL(X, X.mean(axis=0), np.cov(X, rowvar=False)) == pytest.approx(0, abs=1e-12)


def test_independent_draws_of_the_posterior_are_as_far_as_is_said():
    """D (D + 3) / (4 T) on average; the mean of 500 is within 6 standard errors, 3% each, plus terms of order T^-2."""
    rng, expected = np.random.default_rng(1), 3 * 6 / (4 * 300)
    found = [gaussianKL(rng.normal(size=(300, 3)), np.zeros(3), np.eye(3)) for _ in range(500)]
    assert np.mean(found) == pytest.approx(expected, rel=0.18)


def test_forms_of_draws():
    exact = gaussianKL(X, MEAN, COVARIANCE)
    named = {"b": X[:, 2], "a": X[:, :2]}  # in order of name the elements are those of X
    assert gaussianKL(named, MEAN, COVARIANCE) == pytest.approx(exact)
    assert gaussianKL(named, {"b": MEAN[2], "a": MEAN[:2]}, COVARIANCE) == pytest.approx(exact)
    assert gaussianKL(named, {"a": MEAN[:2]}, COVARIANCE[:2, :2]) == pytest.approx(
        gaussianKL(X[:, :2], MEAN[:2], COVARIANCE[:2, :2])
    )
    assert gaussianKL(X.reshape(4, 10, 3), MEAN, COVARIANCE, nChains=4) == pytest.approx(exact)
    square = X[:, [0, 1, 2, 0]].reshape(-1, 2, 2) + RNG.normal(size=(40, 2, 2))
    flat = gaussianKL(square.reshape(-1, 4), np.arange(4.0), np.eye(4))
    assert gaussianKL(square, np.arange(4.0).reshape(2, 2), np.eye(4)) == pytest.approx(flat)


FLAT = np.column_stack([X[:, 0], 2 * X[:, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (X, MEAN[:2], COVARIANCE),
            r"^mean of gaussianKL must have the shape \(3,\), or be a dict; got shape \(2,\)\.$",
        ),
        ((X, [0, 0, np.nan], COVARIANCE), r"^mean of gaussianKL must be finite; got nan at index \(2,\)\.$"),
        ((X, MEAN, np.ones(3)), r"^covariance of gaussianKL must have the shape \(3, 3\), .* got shape \(3,\)\.$"),
        (
            (X, MEAN, np.triu(COVARIANCE)),
            r"^covariance of gaussianKL must be symmetric; got entries that differ by 0\.3",
        ),
        ((X, MEAN, np.ones((3, 3)) - 2 * np.eye(3)), r"^covariance of .* must be positive definite; got a smallest"),
        ((X, MEAN, np.full((3, 3), np.inf)), r"^covariance of gaussianKL must be finite; got inf at index \(0, 0\)\.$"),
        ((X[:3], MEAN, COVARIANCE), r"^draws of gaussianKL must outnumber the 3 elements of a draw; got 3\.$"),
        ((FLAT, [0, 0], np.eye(2)), r"^draws of gaussianKL must vary in all directions; got 40 draws"),
        ((np.full((9, 2), 0.1), [0, 0], np.eye(2)), r"^draws of gaussianKL must vary in all directions; got 9 draws"),
        ((X * np.nan, MEAN, COVARIANCE), r"^draws of gaussianKL must be finite; got nan at index \(0, 0\)\.$"),
        (({"a": X}, {"b": MEAN}, COVARIANCE), r"^draws of gaussianKL must have arrays for \['b'\]; got \['a'\]\.$"),
        (({"a": X}, {"a": MEAN[:2]}, COVARIANCE), r"^mean of gaussianKL must have the names and shapes of a draw"),
        (
            ({"a": X, "b": X[1:]}, MEAN, COVARIANCE),
            r"^draws\['b'\] of .* must have as many draws as the others, \(40,\)",
        ),
        (({}, MEAN, COVARIANCE), r"^draws of gaussianKL must have at least one array; got none\.$"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        gaussianKL(*arguments)
