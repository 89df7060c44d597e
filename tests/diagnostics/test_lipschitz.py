"""Lipschitz constants, against gradients: never less than they change, and no more than they can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sgmcmc.diagnostics import lipschitzLinear, lipschitzLogistic

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(6), RNG.normal(size=(6, 3))])
Y = np.array([0, 1, 1, 0, 1, 0])
SIGMA = 0.5


def logistic(theta: np.ndarray) -> np.ndarray:
    """Of each observation, minus the gradient of its log likelihood, [N, d]."""
    return (1 / (1 + np.exp(-X @ theta)) - Y)[:, None] * X


def linear(theta: np.ndarray) -> np.ndarray:
    return (X @ theta - Y)[:, None] * X / SIGMA**2


def hessian_norms(gradient: Callable, theta: np.ndarray) -> np.ndarray:
    """The spectral norms of the Hessians, by central differences."""
    columns = [(gradient(theta + e) - gradient(theta - e)) / 2e-5 for e in 1e-5 * np.eye(4)]
    return np.linalg.norm(np.stack(columns, axis=2), ord=2, axis=(1, 2))


def test_logistic_regression_has_the_largest_norm_of_the_hessian():
    """It is reached where the probability is 1/2, as at 0, and nowhere exceeded."""
    constants = lipschitzLogistic(X)
    assert constants.shape == (6,) and constants.dtype == np.float64
    np.testing.assert_allclose(constants, hessian_norms(logistic, np.zeros(4)), rtol=1e-6)
    for theta in RNG.normal(size=(50, 4)):
        assert (hessian_norms(logistic, theta) <= constants * (1 + 1e-6)).all()


def test_linear_regression_has_the_norm_of_the_hessian():
    constants = lipschitzLinear(X, SIGMA)
    for theta in RNG.normal(size=(5, 4)):
        np.testing.assert_allclose(constants, hessian_norms(linear, theta), rtol=1e-6)
    np.testing.assert_allclose(lipschitzLinear(X), SIGMA**2 * constants)


def test_a_matrix_of_float32_or_of_integers_is_added_up_in_float64():
    wide = np.full((2, 10**5), 0.1, np.float32)
    assert lipschitzLinear(wide) == pytest.approx(10**5 * np.float64(np.float32(0.1)) ** 2, rel=1e-12)
    np.testing.assert_array_equal(lipschitzLogistic(np.array([[200, 100]], np.uint8)), [12500.0])


@pytest.mark.parametrize("function", [lipschitzLogistic, lipschitzLinear])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones(3), r"^X of lipschitz\w+ must have the shape \(N, d\), .* got shape \(3,\)\.$"),
        (np.ones((0, 3)), r"^X of lipschitz\w+ must have the shape \(N, d\), .* got shape \(0, 3\)\.$"),
        ([[1.0, np.nan]], r"^X of lipschitz\w+ must be finite; got nan at index \(0, 1\)\.$"),
        ([[1e200]], r"^X of lipschitz\w+ must have rows whose squares are finite; got up to 1e\+200\.$"),
        ([["a"]], r"^X of lipschitz\w+ must be an array of real numbers; got strings such as .a.;"),
    ],
)
def test_bad_matrices_are_refused(function, given, message):
    with pytest.raises(ValueError, match=message):
        function(given)


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, "a"])
def test_a_bad_sigma_is_refused(sigma):
    with pytest.raises(ValueError, match=r"^sigma of lipschitzLinear must be a positive number; got "):
        lipschitzLinear(X, sigma)
