# ruff: noqa: E501
"""Predicted and actual errors of stepsize="auto" on ten very different problems.

    python benchmarks/automatic.py [--output benchmarks/AUTOMATIC.md] [problem ...]

Each problem is run by `sgldcv(logLik, dataset, params)` with its `logPrior`, `minibatchSize`, `nIters` and a seed, and
nothing else. The reference is importance sampling from a t distribution around the mode on all data, reported with its
effective sample size; of Gaussian posteriors it is exact.
"""

from __future__ import annotations

import argparse
import datetime
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.optimize
import scipy.stats
import tensorflow as tf
from harness import timed

import sgmcmc

DRAWS, DEGREES = 20_000, 8
CHAINS = 4


@dataclass(eq=False)
class Problem:
    """A posterior as a user would specify it."""

    title: str
    logLik: Callable
    dataset: dict[str, Any]
    params: dict[str, Any]
    logPrior: Callable | None = None
    minibatchSize: int = 100
    nIters: int = 20_000
    options: dict[str, Any] = field(default_factory=dict)
    outputs: Callable[[np.ndarray], np.ndarray] | None = (
        None  # the compared functions of all elements, in order of name
    )


class Reference(NamedTuple):
    """Moments of all elements of the parameters, in order of name; Monte Carlo errors are relative to the sd."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    size: float  # effective


def normal_prior(variance: float) -> Callable:
    return lambda params: -0.5 / variance * tf.add_n([tf.reduce_sum(x**2) for x in params.values()])


def linear(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.linalg.matvec(dataset["X"], params["beta"])) ** 2)


def unknown_scale(params: dict, dataset: dict) -> tf.Tensor:
    residual = (dataset["y"] - tf.linalg.matvec(dataset["X"], params["beta"])) / params["sigma"]
    return -0.5 * residual**2 - tf.math.log(params["sigma"])


def scale_prior(params: dict) -> tf.Tensor:
    """N(0, 100) for the coefficients and for the logarithm of the scale."""
    log_sigma = tf.math.log(params["sigma"])
    return -0.5 / 100 * (tf.reduce_sum(params["beta"] ** 2) + log_sigma**2) - log_sigma


def poisson(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["X"], params["beta"]) + params["intercept"]
    return tf.reduce_sum(dataset["y"] * eta - tf.exp(eta))


def logistic(params: dict, dataset: dict) -> tf.Tensor:
    logits = tf.linalg.matvec(dataset["X"], params["beta"])
    return tf.reduce_sum(dataset["y"] * logits - tf.nn.softplus(logits))


def softmax(params: dict, dataset: dict) -> tf.Tensor:
    logits = tf.matmul(dataset["X"], params["W"])
    logits = tf.concat([tf.zeros_like(logits[:, :1]), logits], axis=1)
    return tf.reduce_sum(dataset["Y"] * tf.nn.log_softmax(logits))


def hierarchical(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.gather(params["mu"], dataset["group"])) ** 2)


def hierarchical_prior(params: dict) -> tf.Tensor:
    log_tau = tf.math.log(params["tau"])
    within = -0.5 * tf.reduce_sum(((params["mu"] - params["mean"]) / params["tau"]) ** 2) - 20.0 * log_tau
    return within - 0.5 * (params["mean"] / 10.0) ** 2 - 0.5 * log_tau**2 - log_tau


def problems() -> dict[str, Problem]:
    rng = np.random.default_rng(0)
    found = {}

    def design(n: int, d: int, condition: float = 1.0) -> np.ndarray:
        q = np.linalg.qr(rng.normal(size=(d, d)))[0]
        return rng.normal(size=(n, d)) @ (q * np.logspace(0, -0.5 * np.log10(condition), d)) @ q.T

    X = design(1000, 5)
    found["gaussian"] = Problem(
        "Gaussian, condition 1, N = 1,000",
        linear,
        {"X": X, "y": X @ np.ones(5) + rng.normal(size=1000)},
        {"beta": np.zeros(5)},
        normal_prior(100),
    )
    X = design(10**5, 10, 1e6)
    found["ill"] = Problem(
        "Gaussian, condition 1e6, N = 100,000",
        linear,
        {"X": X, "y": X @ rng.normal(size=10) + rng.normal(size=10**5)},
        {"beta": np.zeros(10)},
        minibatchSize=500,
    )
    X = design(100, 3)
    found["small"] = Problem(
        "logistic, N = 100, prior N(0, 1)",
        logistic,
        {"X": X, "y": rng.random(100) < 0.5},
        {"beta": np.zeros(3)},
        normal_prior(1),
        minibatchSize=20,
        options={"dtype": "float64"},
    )
    X = design(10**6, 4)
    found["large"] = Problem(
        "logistic, N = 1,000,000, float32",
        logistic,
        {"X": X.astype(np.float32), "y": (rng.random(10**6) < 1 / (1 + np.exp(-X.sum(1)))).astype(np.float32)},
        {"beta": np.zeros(4)},
        minibatchSize=500,
    )
    X = design(5000, 4)
    found["poisson"] = Problem(
        "Poisson, two parameters, N = 5,000",
        poisson,
        {"X": X, "y": rng.poisson(np.exp(1 + 0.3 * X.sum(1)))},
        {"beta": np.zeros(4), "intercept": 0.0},
        normal_prior(100),
    )
    X = design(2000, 4)
    found["scale"] = Problem(
        "Gaussian with unknown scale, N = 2,000",
        unknown_scale,
        {"X": X, "y": X @ np.ones(4) + 3 * rng.normal(size=2000)},
        {"beta": np.zeros(4), "sigma": 1.0},
        scale_prior,
        options={"transforms": {"sigma": "positive"}},
    )
    X = design(3000, 4)
    labels = np.argmax(X[:, :3] + rng.gumbel(size=(3000, 3)), axis=1)
    found["softmax"] = Problem(
        "softmax of 3 classes, N = 3,000",
        softmax,
        {"X": X, "Y": np.eye(3)[labels]},
        {"W": np.zeros((4, 2))},
        normal_prior(1),
    )
    group = np.repeat(np.arange(20), 50)
    mu = 2 + 1.5 * rng.normal(size=20)
    found["hierarchical"] = Problem(
        "hierarchical, 20 groups of 50",
        hierarchical,
        {"y": mu[group] + rng.normal(size=1000), "group": group},
        {"mu": np.zeros(20), "mean": 0.0, "tau": 1.0},
        hierarchical_prior,
        options={"integers": ["group"], "transforms": {"tau": "positive"}},
    )
    X = design(10**4, 5)
    found["tight"] = Problem(
        "logistic, prior N(0, 0.01)",
        logistic,
        {"X": X, "y": rng.random(10**4) < 1 / (1 + np.exp(-X.sum(1)))},
        {"beta": np.zeros(5)},
        normal_prior(0.01),
    )
    rare = (rng.random((20_000, 4)) < [0.3, 0.05, 0.003, 0.0005]).astype(float)
    X = np.hstack([np.ones((20_000, 1)), rare])
    found["rare"] = Problem(
        "logistic, rare categories (10 of 20,000)",
        logistic,
        {"X": X, "y": rng.random(20_000) < 1 / (1 + np.exp(-X @ [-1, 1, 1, -1, 0.5]))},
        {"beta": np.zeros(5)},
        normal_prior(1),
        nIters=100_000,
    )
    return found


def importance(
    log_density: Callable,
    at: np.ndarray,
    covariance: np.ndarray,
    draws: int = DRAWS,
    degrees: int = DEGREES,
    logarithm: np.ndarray | bool = False,
) -> Reference:
    """Self-normalised importance sampling from a t distribution. `log_density` maps [draws, D] to [draws].

    Where `logarithm` is True, the mean and the sd are those of the exponential.
    """
    t = scipy.stats.multivariate_t(df=degrees, shape=np.eye(len(at)), seed=1)
    z = t.rvs(draws).reshape(draws, -1)
    theta = at + z @ np.linalg.cholesky(covariance).T
    log_weights = log_density(theta) - t.logpdf(z)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    theta = np.where(logarithm, np.exp(theta), theta)
    mean = weights @ theta
    squares = (theta - mean) ** 2
    sd = np.sqrt(weights @ squares)
    return Reference(
        mean,
        sd,
        np.sqrt(weights**2 @ squares) / sd,
        np.sqrt(weights**2 @ (squares / sd**2 - 1) ** 2) / 2,
        float(1 / (weights**2).sum()),
    )


class Flat(NamedTuple):
    """A posterior in one vector of unconstrained elements, in order of name, in float64."""

    log_density: Callable  # of [D], with the Jacobian
    mode: np.ndarray
    covariance: np.ndarray  # the inverse of the curvature at the mode
    logarithm: np.ndarray  # whether an element is the logarithm of that of the parameter
    outputs: Callable[[np.ndarray], np.ndarray] | None  # as of the problem


def flattened(problem: Problem) -> Flat:
    """The problem as a `Flat`, with its mode by L-BFGS and Newton's method on all data."""
    names, sizes = sorted(problem.params), [np.size(problem.params[name]) for name in sorted(problem.params)]
    integers = problem.options.get("integers", ())
    data = {
        name: tf.constant(x if name in integers else np.asarray(x, np.float64)) for name, x in problem.dataset.items()
    }
    shapes = [np.shape(problem.params[name]) for name in names]
    positive = problem.options.get("transforms", {})
    logarithm = np.repeat([name in positive for name in names], sizes)

    def log_density(flat: tf.Tensor) -> tf.Tensor:
        parts = tf.split(flat, sizes)
        params = {name: tf.reshape(part, shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        jacobian = tf.add_n([tf.zeros([], tf.float64), *(tf.reduce_sum(params[name]) for name in positive)])
        params |= {name: tf.exp(params[name]) for name in positive}
        prior = problem.logPrior(params) if problem.logPrior else tf.constant(0.0, tf.float64)
        return tf.reduce_sum(problem.logLik(params, data)) + prior + jacobian

    @tf.function(jit_compile=True)
    def first(flat: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(flat)
            value = log_density(flat)
        return value, tape.gradient(value, flat)

    def minus(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = first(tf.constant(flat))
        return -float(value), -gradient.numpy()

    @tf.function
    def hessian(flat: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as outer:
            outer.watch(flat)
            with tf.GradientTape() as inner:
                inner.watch(flat)
                value = log_density(flat)
            gradient = inner.gradient(value, flat)
        return outer.jacobian(gradient, flat)

    at = np.concatenate([np.ravel(np.asarray(problem.params[name], float)) for name in names])
    at[logarithm] = np.log(at[logarithm])
    for _ in range(3):
        at = scipy.optimize.minimize(
            minus, at, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
        ).x
        covariance = np.linalg.inv(-hessian(tf.constant(at)).numpy())
        at = at - covariance @ minus(at)[1]
    return Flat(log_density, at, covariance, logarithm, problem.outputs)


def reference(problem: Problem, draws: int = DRAWS) -> Reference:
    """Importance sampling around the mode, in float64; at most 2000 draws for large data."""
    flat = flattened(problem)
    large = len(next(iter(problem.dataset.values()))) >= 10**5
    one = tf.function(flat.log_density, jit_compile=True)
    of_some = tf.function(lambda some: tf.vectorized_map(flat.log_density, some))

    def densities(theta: np.ndarray) -> np.ndarray:
        if large:
            return np.array([float(one(tf.constant(x))) for x in theta])
        return np.concatenate([of_some(tf.constant(some)) for some in np.split(theta, range(100, len(theta), 100))])

    return importance(
        densities, flat.mode, flat.covariance, min(draws, 2000) if large else draws, logarithm=flat.logarithm
    )


def in_order(table: pd.DataFrame, problem: Problem) -> pd.DataFrame:
    """The rows of a summary in the order of a reference."""
    return table.loc[[label for name in sorted(problem.params) for label in table.index if label.split("[")[0] == name]]


def row(problem: Problem) -> str:
    truth = reference(problem)
    with timed() as spent, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        out = sgmcmc.sgldcv(
            problem.logLik,
            problem.dataset,
            problem.params,
            logPrior=problem.logPrior,
            minibatchSize=problem.minibatchSize,
            nIters=problem.nIters,
            nChains=CHAINS,
            burnIn=problem.nIters // 10,
            seed=1,
            verbose=False,
            **problem.options,
        )
    expected, table, seconds = out.settings["expected"], out.summary(), spent["seconds"]
    columns = in_order(table, problem)
    ratio = columns["sd"].to_numpy() / truth.sd
    worst = np.argmax(np.abs(ratio - 1))
    shift = np.abs(columns["mean"].to_numpy() - truth.mean) / truth.sd
    told = columns["expected_sd_ratio"].to_numpy()
    errors = columns["mcse_sd"].to_numpy() / truth.sd
    return (
        f"| {problem.title} | {next(iter(out.settings['stepsize'].values())):.3g} | {told.max() - 1:+.1%} | "
        f"{ratio[worst] - 1:+.1%} ± {errors[worst]:.1%} | {shift.max():.2f} | {table['r_hat'].max():.3f} | "
        f"{table['ess_bulk'].min():,.0f} | {CHAINS * 0.9 * problem.nIters / expected['iterations']:,.0f} | {seconds:.0f} | "
        f"{truth.size:,.0f} | {len(said)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    lines = [
        "| problem | stepsize | sd expected | sd of the worst element, ± MC error | mean, in sds | R-hat | smallest ESS | "
        "ESS expected | seconds | ESS of the reference | warnings |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name, problem in problems().items():
        if not arguments.problems or name in arguments.problems:
            lines.append(row(problem))
            print(lines[-1], flush=True)
    if arguments.output:
        text = f'# Accuracy with stepsize="auto"\n\n{__doc__.split("    python")[0].strip()}\n\n'
        made = f"Made by `python benchmarks/automatic.py` on {datetime.date.today()}."
        arguments.output.write_text(text + "\n".join(lines) + f"\n\n{made}\n")


if __name__ == "__main__":
    main()
