"""The kernel Stein discrepancy with any kernel of its family, against its definition and what `Draws.ksd` gives."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import sgld
from sgmcmc.diagnostics import fullGradients, ksd
from sgmcmc.draws import stein

RNG = np.random.default_rng(0)
X = 3 + RNG.normal(size=(30, 3))
S = 3 - X + RNG.normal(size=(30, 3))
KERNELS = [(1.0, -0.5), (0.4, -0.5), (2.0, -0.9), (1.5, -0.1)]


def by_pairs(x: np.ndarray, s: np.ndarray, c: float, beta: float) -> np.ndarray:
    """The terms of eq. 20, from every pair of draws by itself."""
    total = np.zeros(x.shape[1])
    for k, m in product(range(len(x)), repeat=2):
        d = x[k] - x[m]
        base = c**2 + d @ d
        dx = 2 * beta * d * base ** (beta - 1)
        mixed = -2 * beta * base ** (beta - 1) - 4 * beta * (beta - 1) * d**2 * base ** (beta - 2)
        total += mixed - s[k] * dx + s[m] * dx + s[k] * s[m] * base**beta
    return np.sqrt(total) / len(x)


@pytest.mark.parametrize(("c", "beta"), KERNELS)
def test_it_is_the_mean_over_all_pairs(c, beta, monkeypatch):
    expected = by_pairs(X, S, c, beta)
    np.testing.assert_allclose(ksd(X, S, c=c, beta=beta, perCoordinate=True), expected, rtol=1e-11)
    assert ksd(X, S, c=c, beta=beta) == pytest.approx(expected.sum(), rel=1e-11)
    monkeypatch.setattr(stein, "BLOCK_NUMBERS", 70)  # blocks of two draws
    assert ksd(X, S, c=c, beta=beta) == pytest.approx(expected.sum(), rel=1e-11)


@pytest.mark.parametrize(("c", "beta"), KERNELS)
def test_the_stein_kernel_is_that_of_eq_21(c, beta):
    """Derivatives of pi(x) K(x, y) pi(y), divided by the densities, for a normal density; by finite differences."""

    def weighted(x: np.ndarray, y: np.ndarray) -> float:
        return np.exp(-(x @ x + y @ y) / 2) * (c**2 + (x - y) @ (x - y)) ** beta

    x, h, total = RNG.normal(size=(4, 2)), 1e-4, np.zeros(2)
    for k, m in product(range(4), repeat=2):
        for j in range(2):
            e = h * np.eye(2)[j]
            corners = [(1, e, e), (-1, e, -e), (-1, -e, e), (1, -e, -e)]
            derivative = sum(sign * weighted(x[k] + a, x[m] + b) for sign, a, b in corners) / (4 * h**2)
            total[j] += derivative * np.exp((x[k] @ x[k] + x[m] @ x[m]) / 2)
    np.testing.assert_allclose(ksd(x, -x, c=c, beta=beta, perCoordinate=True), np.sqrt(total) / 4, rtol=1e-5)


@pytest.mark.parametrize("beta", [-0.5, -0.3])
def test_scale_is_another_c(beta):
    """(1 + |x - y|^2 / w^2)^beta = w^(-2 beta) (w^2 + |x - y|^2)^beta, and the gradients are w times as large."""
    assert ksd(X, S, scale=3.0, beta=beta) == pytest.approx(3 ** (1 - beta) * ksd(X, S, c=3.0, beta=beta))
    widths = np.array([1.0, 2.0, 0.5])
    assert ksd(X, S, scale=widths) == pytest.approx(ksd(X / widths, S * widths))


def test_forms_of_draws():
    names = {"b": X[:, :1], "a": X[:, 1:]}, {"b": S[:, :1], "a": S[:, 1:]}
    assert ksd(*names) == pytest.approx(ksd(X, S))
    terms, each = ksd(*names, perCoordinate=True), ksd(X, S, perCoordinate=True)
    assert terms["b"] == pytest.approx(each[:1]) and terms["a"] == pytest.approx(each[1:])
    assert ksd(X.reshape(2, 15, 3), S.reshape(2, 15, 3), nChains=2) == pytest.approx(ksd(X, S))
    assert ksd(X[:, 0], S[:, 0]) == pytest.approx(ksd(X[:, :1], S[:, :1]))
    scales = {"b": 0.5, "a": [2.0, 3.0]}
    assert ksd(*names, scale=scales) == pytest.approx(ksd(X, S, scale=[0.5, 2.0, 3.0]))


def test_memory_does_not_grow_with_the_pairs(monkeypatch):
    monkeypatch.setattr(stein, "BLOCK_NUMBERS", 2**14)
    x = RNG.normal(size=(3000, 1))
    tracemalloc.start()
    ksd(x, -x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 3000**2 / 10


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_is_infinitely_far(bad):
    x = X.copy()
    x[1, 1] = bad
    assert ksd(x, S) == ksd(X, x) == np.inf


def test_of_a_run_it_is_that_of_draws():
    dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}

    def log_lik(params, dataset):
        return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)

    given = {"minibatchSize": 100, "nIters": 500, "gradients": True, "verbose": False, "seed": 1, "nChains": 2}
    out = sgld(log_lik, dataset, {"theta": 3.0}, 1e-4, **given)
    assert ksd(out, scale=0.03) == out.ksd(0.03)
    exact = fullGradients(out, log_lik, dataset, verbose=False)
    x, s = out["theta"].reshape(-1, 1), exact["theta"].reshape(-1, 1)
    assert ksd(out, exact, scale=0.03) == pytest.approx(by_pairs(x / 0.03, s * 0.03, 1.0, -0.5).sum(), rel=1e-6)
    assert ksd(out, exact, scale=0.03) < out.ksd(0.03)
    with pytest.raises(ValueError, match=r"^nChains of ksd must be that of draws, 2; got 3\.$"):
        ksd(out, nChains=3)
    without = sgld(log_lik, dataset, {"theta": 3.0}, 1e-4, **given | {"gradients": False})
    with pytest.raises(ValueError, match=r"^gradients of ksd must be those .* gradients=True .* got None\.$"):
        ksd(without)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X,), {}, r"^gradients of ksd must be those .* got None\.$"),
        ((X, S), {"c": 0.0}, r"^c of ksd must be a positive number; got 0\.0\.$"),
        ((X, S), {"c": "a"}, r"^c of ksd must be a positive number; got 'a'\.$"),
        ((X, S), {"beta": -1.0}, r"^beta of ksd must be a number in \(-1, 0\); got -1\.0\.$"),
        ((X, S), {"beta": 0}, r"^beta of ksd must be a number in \(-1, 0\); got 0\.$"),
        ((X, S), {"perCoordinate": 1}, r"^perCoordinate of ksd must be True or False; got 1\.$"),
        ((X, S), {"scale": -1.0}, r"^scale of ksd must be positive and finite; got -1\.0\.$"),
        ((X, S), {"scale": [1.0, 2.0]}, r"^scale of ksd must be numbers of the shape \(3,\); got \(2,\)\.$"),
        (
            (X, S),
            {"scale": {"a": 1.0}},
            r"^scale of ksd must be a number or an array, since draws are not a dict; got keys",
        ),
        ((X, S[:3]), {}, r"^gradients of ksd must have the shape of the draws, \(30, 3\); got \(3, 3\)\.$"),
        (({"a": X}, {"a": S}), {"scale": {"b": 1.0}}, r"^scale of ksd must be a number, or a dict with the keys"),
    ],
)
def test_bad_arguments_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ksd(*arguments, **options)
