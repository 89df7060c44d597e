"""The problems of accuracy.py, each with its reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from automatic import Problem, Reference, importance, logistic, normal_prior, problems, reference
from covertype import load, log_lik

COVERTYPE_DRAWS, SMALL_DRAWS = 5000, 100_000
ALL = ("gaussian", "diabetes", "cancer", "half", "hierarchical", "mixture", "covertype")
BLOCK = 20_000  # rows


@dataclass(frozen=True)
class Case:
    """A problem and how its reference is computed."""

    problem: Problem
    reference: Callable[[], Reference]
    told: str


def cases(covertype: str | None, cache: Path | None) -> dict[str, Case]:
    """All problems; covertype only if its file is given."""
    bundled = problems()
    sampled = "importance sampling"
    found = {"gaussian": Case(bundled["gaussian"], lambda: exact(bundled["gaussian"]), "exact")}
    for name, problem in {
        "diabetes": diabetes(),
        "cancer": cancer(50),
        "half": cancer(284),
        "hierarchical": bundled["hierarchical"],
    }.items():
        found[name] = Case(problem, lambda problem=problem: reference(problem, SMALL_DRAWS), sampled)
    two = mixture()
    found["mixture"] = Case(two, lambda: of_mixture(two), f"adaptive {sampled}")
    if covertype:
        forest = of_covertype(covertype)
        found["covertype"] = Case(forest, lambda: cached(forest, cache), sampled)
    return found


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def unknown_log_scale(params: dict, dataset: dict) -> tf.Tensor:
    residual = (dataset["y"] - tf.linalg.matvec(dataset["X"], params["beta"])) * tf.exp(-params["logSigma"])
    n = tf.cast(tf.shape(residual)[0], residual.dtype)
    return -0.5 * tf.reduce_sum(residual**2) - n * params["logSigma"]


def diabetes() -> Problem:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    X = np.hstack([standardised(X), np.ones((len(X), 1))])
    return Problem(
        "diabetes: linear regression with unknown scale, N = 442",
        unknown_log_scale,
        {"X": X, "y": standardised(y)},
        {"beta": np.zeros(X.shape[1]), "logSigma": 0.0},
        normal_prior(100),
        minibatchSize=50,
    )


def cancer(n: int) -> Problem:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X = np.hstack([standardised(X), np.ones((len(X), 1))])
    return Problem(
        f"breast cancer, minibatches of {n}: logistic regression, N = 569",
        logistic,
        {"X": X, "y": y},
        {"beta": np.zeros(X.shape[1])},
        normal_prior(1),
        minibatchSize=n,
    )


def exact(problem: Problem) -> Reference:
    """The posterior of the linear regression with noise N(0, 1) and prior N(0, 100)."""
    X, y = problem.dataset["X"], problem.dataset["y"]
    covariance = np.linalg.inv(X.T @ X + np.eye(X.shape[1]) / 100)
    none = np.zeros(X.shape[1])
    return Reference(covariance @ X.T @ y, np.sqrt(np.diag(covariance)), none, none, np.inf)


def two_normals(params: dict, dataset: dict) -> tf.Tensor:
    squares = [tf.reduce_sum((dataset["x"] - params[name]) ** 2, axis=-1) for name in ("theta1", "theta2")]
    return tf.reduce_sum(tf.reduce_logsumexp(-0.5 * tf.stack(squares), axis=0))


def mixture() -> Problem:
    """The problem of the vignette on the mixture."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1000, 2)) + 0.45 * rng.integers(2, size=(1000, 1))
    return Problem(
        "mixture of two Gaussians: four parameters, N = 1,000",
        two_normals,
        {"x": x},
        {"theta1": rng.normal(size=2), "theta2": rng.normal(size=2)},
        normal_prior(10),
    )


def of_mixture(problem: Problem) -> Reference:
    """Importance sampling from a wide t distribution over both modes; its covariance is adapted in rounds."""
    x = problem.dataset["x"]

    def log_density(theta: np.ndarray) -> np.ndarray:
        values = -0.05 * np.sum(theta**2, axis=1)
        for first in range(0, len(theta), BLOCK // 10):
            some = theta[first : first + BLOCK // 10]
            of_each = [-0.5 * np.sum((x - some[:, None, part]) ** 2, axis=2) for part in (slice(0, 2), slice(2, 4))]
            values[first : first + BLOCK // 10] += np.logaddexp(*of_each).sum(axis=1)
        return values

    # The two centres are correlated; their sum and difference are not, so the rounds use these.
    turn = np.kron([[1.0, 1.0], [1.0, -1.0]], np.eye(2)) / np.sqrt(2)
    centre, covariance = np.tile(x.mean(axis=0), 2), 0.1 * np.eye(4)
    for _ in range(5):
        found = importance(lambda u: log_density(u @ turn), turn @ centre, turn @ covariance @ turn.T, 5000)
        covariance = turn.T @ np.diag(found.sd**2) @ turn
    return importance(log_density, centre, 1.5 * covariance, SMALL_DRAWS)


def of_covertype(path: str) -> Problem:
    training, _ = load(path)
    return Problem(
        f"covertype: logistic regression, 55 coefficients, N = {len(training['y']):,}",
        log_lik,
        training,
        {"beta": np.zeros(54), "bias": 0.0},
        normal_prior(1),
        minibatchSize=4000,
        nIters=15_000,
    )


@functools.cache
def laplace(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The mode of the posterior of covertype and the inverse of the curvature there, by Newton's method in float64."""
    X, y = problem.dataset["X"], problem.dataset["y"]
    d = X.shape[1] + 1
    at = np.zeros(d)
    for _ in range(100):
        gradient, precision = -at, np.eye(d)
        for design, labels in blocks(X, y):
            p = 1 / (1 + np.exp(-design @ at))
            gradient = gradient + design.T @ (labels - p)
            precision = precision + (design * (p * (1 - p))[:, None]).T @ design
        step = np.linalg.solve(precision, gradient)
        at = at + step * min(1.0, 3.0 / np.abs(step).max())
        if gradient @ step < 1e-12:
            break
    return at, np.linalg.inv(precision)


def blocks(X: np.ndarray, y: np.ndarray) -> Any:
    """Rows in float64, with the intercept as the last column, in order of name."""
    for first in range(0, len(y), BLOCK):
        some = X[first : first + BLOCK].astype(np.float64)
        yield np.hstack([some, np.ones((len(some), 1))]), y[first : first + BLOCK].astype(np.float64)


def sampled_covertype(problem: Problem) -> Reference:
    def log_density(theta: np.ndarray) -> np.ndarray:
        values = -0.5 * np.sum(theta**2, axis=1)
        for design, labels in blocks(problem.dataset["X"], problem.dataset["y"]):
            values += theta @ (design.T @ labels)
            for first in range(0, len(theta), 250):
                logits = theta[first : first + 250] @ design.T
                values[first : first + 250] -= np.maximum(logits, 0).sum(axis=1)
                np.abs(logits, out=logits)
                np.exp(np.negative(logits, out=logits), out=logits)
                values[first : first + 250] -= np.log1p(logits, out=logits).sum(axis=1)
        return values

    return importance(log_density, *laplace(problem), COVERTYPE_DRAWS, degrees=12)


def cached(problem: Problem, cache: Path | None) -> Reference:
    """The reference, which takes minutes, read from or written to `cache` if that is given."""
    if cache and cache.exists():
        with np.load(cache) as file:
            return Reference(**{name: file[name] for name in Reference._fields})
    found = sampled_covertype(problem)
    if cache:
        np.savez(cache, **found._asdict())
    return found
