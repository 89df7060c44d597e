"""Logistic regression of Fearnhead et al. (2024): SGLD and the zig-zag sampler over four decades of stepsizes.

    python benchmarks/papers/sgpdmp_laplace.py --output FOLDER

Writes sgpdmp_laplace.md. The data are simulated; --data is not looked at.
"""

from __future__ import annotations

import datetime
import statistics
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from shared import GIVEN_MODE, PRIOR_VARIANCE, Clock, Model, arguments, logistic, mode_and_covariance, table, write

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import machine, timed

import sgmcmc

TITLE = "Fearnhead, Grazzi, Nemeth and Roberts (2024), Stochastic gradient piecewise deterministic Monte Carlo samplers"
N, D, ITERATIONS, THIN = 100_000, 10, 500_000, 500
BLOCK = 10_000  # of random numbers
SIZES = (1, 10, 100)
DATA_SETS, DRAWS = 3, 1000
SHORTER = 1e-4  # above this step, chains of the authors' rule are shorter, and travel as far
SGLD, ZIG_ZAG, AUTHORS = "SGLD", "zig-zag", "zig-zag, the authors' rule"
PUBLISHED = {  # step: SGLD with minibatches of 1, 10 and 100, zig-zag with 1
    1e-2: (None, None, None, 0.0969),
    5e-3: (None, None, None, 0.0729),
    1e-3: (None, None, None, 0.0299),
    5e-4: (None, None, None, 0.0194),
    1e-4: (None, None, None, 0.00981),
    5e-5: (None, None, None, 0.00827),
    1e-5: (0.0202, 0.00809, 0.00721, 0.00499),
    5e-6: (0.0116, 0.00711, 0.00728, 0.0107),
    1e-6: (0.00817, 0.00810, 0.00631, 0.00608),
}
LARGEST_SGLD = 1e-4


@dataclass(frozen=True)
class Problem:
    """Data by the recipe of the authors' code, with the mode and the inverse curvature there."""

    model: Model
    mode: np.ndarray
    covariance: np.ndarray

    @property
    def given(self) -> dict[str, Any]:
        return self.model.given | {"params": {"theta": self.mode}}

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))

    @property
    def conditional_sd(self) -> np.ndarray:
        """Of each coefficient, given the others."""
        return np.diag(np.linalg.inv(self.covariance)) ** -0.5

    def errors(self, draws: np.ndarray) -> dict[str, float]:
        """The authors', a norm of differences to conditional sds; and the root mean square relative to marginal sds."""
        sd = draws.std(axis=0, ddof=1)
        relative = np.sqrt(((sd / self.sd - 1) ** 2).mean())
        return {"published": float(np.linalg.norm(sd - self.conditional_sd)), "relative": float(relative)}


def simulated(seed: int) -> Problem:
    """A column of ones and correlated normal ones; correlations are random powers, until they are positive definite."""
    rng = np.random.default_rng(seed)
    while True:
        correlation = np.eye(D - 1)
        for i in range(D - 1):
            for j in range(i):
                correlation[i, j] = correlation[j, i] = rng.uniform(-0.4, 0.4) ** (i - j)
        if np.linalg.eigvalsh(correlation)[0] > 0:
            break
    X = np.hstack([np.ones((N, 1)), rng.normal(size=(N, D - 1)) @ np.linalg.cholesky(correlation).T])
    truth = rng.normal(size=D)
    y = (rng.uniform(size=N) < 1 / (1 + np.exp(-X @ truth))).astype(float)
    model = Model("logistic regression, simulated", logistic, X, y)
    return Problem(model, *mode_and_covariance(model))


def authors_chain(problem: Problem, h: float, steps: int, seed: int) -> tuple[np.ndarray, int]:
    """Draws of the zig-zag sampler as in the authors' program, and its gradients: a new one after each turn."""
    rng, thin = np.random.default_rng(seed), max(steps // DRAWS, 1)
    X, mode = problem.model.X, problem.mode
    theta, v, draws, gradients = mode.copy(), rng.choice([-1.0, 1.0], size=D), [], 0
    rows, clocks = rng.integers(N, size=BLOCK), rng.exponential(size=(BLOCK, D))
    for iteration in range(steps):
        left = h
        while True:
            at = gradients % BLOCK
            if at == 0 and gradients:
                rows, clocks = rng.integers(N, size=BLOCK), rng.exponential(size=(BLOCK, D))
            x = X[rows[at]]
            p, p_mode = 1 / (1 + np.exp(-(x @ theta))), 1 / (1 + np.exp(-(x @ mode)))
            slope = v * (N * (p - p_mode) * x + (theta - mode) / PRIOR_VARIANCE)
            gradients += 1
            tau = clocks[at] / np.maximum(slope, 1e-300)
            first = tau.argmin()
            if tau[first] >= left:
                theta = theta + v * left
                break
            theta = theta + v * tau[first]
            left -= tau[first]
            v[first] = -v[first]
        if (iteration + 1) % thin == 0:
            draws.append(theta)
    return np.array(draws), gradients


def authors_zig_zag(problem: Problem, h: float, iterations: int, seed: int) -> dict[str, Any]:
    steps = round(iterations * min(1.0, SHORTER / h))
    with timed() as spent:
        draws, gradients = authors_chain(problem, h, steps, seed)
    return problem.errors(draws) | spent | {"gradients": gradients / steps}


def run(problem: Problem, sampler: Callable, iterations: int, n: int, seed: int, **chosen: Any) -> dict[str, Any]:
    with timed() as spent, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of stepsizes that are too large: the table shows them
        out = sampler(
            **problem.given, minibatchSize=n, nIters=iterations, thin=THIN, dtype="float64",
            subsampling="withReplacement", verbose=False, seed=seed, **chosen,
        )  # fmt: skip
    return problem.errors(np.asarray(out["theta"], float)) | spent


def number(x: float | None) -> str:
    return "" if x is None else "unstable" if x > 1 else f"{x:.3g}"


def percent(x: float) -> str:
    return "unstable" if x > 10 else f"{x:.1%}"


def main() -> None:
    given, clock = arguments(__doc__), Clock()
    iterations, sets = (10_000, 1) if given.quick else (ITERATIONS, DATA_SETS)
    fixed: dict[str, Any] = {"preconditioner": None, "gradient": GIVEN_MODE}
    arms: dict[tuple[str, int, float | None], Callable[[Problem, int], dict[str, Any]]] = {}

    def ours(sampler: Callable, n: int, **chosen: Any) -> Callable[[Problem, int], dict[str, Any]]:
        return lambda problem, seed: run(problem, sampler, iterations, n, seed, **chosen)

    for h in PUBLISHED:
        if h <= LARGEST_SGLD:
            for n in SIZES:
                arms[SGLD, n, h] = ours(sgmcmc.sgld, n, stepsize=h, **fixed)
        arms[ZIG_ZAG, 1, h] = ours(sgmcmc.sgzigzag, 1, stepsize=h**2, **fixed)
        arms[AUTHORS, 1, h] = lambda problem, seed, h=h: authors_zig_zag(problem, h, iterations, seed)
    for n in SIZES:
        arms[SGLD, n, None] = ours(sgmcmc.sgldcv, n)
        arms[ZIG_ZAG, n, None] = ours(sgmcmc.sgzigzag, n, gradient=sgmcmc.controlVariates())
    found: dict[tuple[str, int, float | None], list[dict[str, Any]]] = {}
    problems = [simulated(seed) for seed in range(sets)]
    for seed, problem in enumerate(problems):
        for (name, n, h), arm in arms.items():
            one = arm(problem, seed)
            found.setdefault((name, n, h), []).append(one)
            clock(f"{seed} {name}, n = {n}, h = {h}: " + ", ".join(f"{what} {x:.3g}" for what, x in one.items()))
    write(given.output / "sgpdmp_laplace.md", page(found, problems, clock))


def middle(runs: list[dict[str, Any]], what: str) -> float:
    return statistics.median(one[what] for one in runs)


def page(found: dict, problems: list[Problem], clock: Clock) -> list[str]:
    absolute, relative, automatic = [], [], []
    columns = [*((SGLD, n) for n in SIZES), (ZIG_ZAG, 1)]
    for h, published in PUBLISHED.items():
        runs = [found.get((name, n, h)) for name, n in columns]
        authors = found[AUTHORS, 1, h]
        line = [f"{h:g}"]
        for theirs, here in zip(published, runs, strict=True):
            line += [number(theirs), number(middle(here, "published")) if here else ""]
        absolute.append([*line, number(middle(authors, "published"))])
        shown = [percent(middle(here, "relative")) if here else "" for here in [*runs, authors]]
        relative.append([f"{h:g}", *shown, f"{middle(authors, 'gradients'):.2f}"])
    for (name, n, h), runs in found.items():
        if h is None:
            title = "`sgldcv`" if name == SGLD else "`sgzigzag(gradient=controlVariates())`"
            costs = [f"{middle(runs, what):.1f}" for what in ("seconds", "work")]
            errors = [number(middle(runs, "published")), percent(middle(runs, "relative"))]
            automatic.append([f"{title}, n = {n}", *errors, *costs])
    floor = [float(np.linalg.norm(p.sd - p.conditional_sd)) for p in problems]
    sizes = [float(np.linalg.norm(p.sd)) for p in problems]
    titles = [f"SGLD, n = {n}" for n in SIZES] + ["zig-zag"]
    both = [f"{title}, {whose}" for title in titles for whose in ("published", "here")]
    return [
        "# Standard deviations over four decades of steps",
        f"{TITLE}, the logistic regression: N = {N:,}, {D} coefficients, control variates at the mode, {ITERATIONS:,} "
        f"iterations, of which every {THIN}th is kept. The published numbers are "
        "`scripts/logistic_regression/stein_distance/output/laplace.csv` (commit d277ed4) in the authors' repository "
        "SebaGraz/SG-PDMPS. The paper shows such results as pictures; whether it shows these very runs is not known "
        "to us. The authors' program is in Julia. That file also has SGLD with h = 0.0001 and 0.00005. They are left "
        "out here: the program runs SGLD only up to h = 1/N, and the draws stored for these two are of an earlier "
        "commit with N = 10,000.",
        f"The authors' data are random. Ours are {len(problems)} sets by the recipe of their code, and each number is "
        "the median over the sets. h is the time step of the zig-zag sampler (`stepsize=h**2`), and the stepsize of "
        "SGLD. A column costs as many gradients here as there, iterations times minibatch size, except for zig-zag. "
        "There the authors take a new gradient after each turn, and `sgzigzag` one in each step, halfway through it. "
        "*The authors' rule* is theirs, in NumPy on our data. It is the same number of steps, but above h = "
        f"{SHORTER:g} fewer, so that all chains travel for at most the same time.",
        "## As published",
        "The norm of the difference between the standard deviations of the draws and their reference. The authors' "
        "reference is 1/sqrt of the diagonal of the curvature at the mode. These are the conditional standard "
        "deviations, which are smaller than the marginal ones. So this error does not tend to 0: exact draws would "
        f"have {min(floor):.2g} to {max(floor):.2g} here. The norm of the marginal standard deviations is "
        f"{min(sizes):.2g} to {max(sizes):.2g}.",
        table(["h", *both, "zig-zag, the authors' rule"], absolute),
        "## Relative error of the marginal standard deviations, here",
        "Root mean square over the coefficients. With 1000 independent draws chance alone makes 2.2%.",
        table(["h", *titles, "zig-zag, the authors' rule", "gradients per step of it"], relative),
        "## With nothing tuned",
        "Each with the same number of iterations; the search for the mode and the stepsize comes on top. *Seconds* and "
        "*work* (processor time) are of the whole call, with compilation.",
        table(["call", "error as published", "relative error", "seconds", "work"], automatic),
        f"{datetime.date.today():%d %B %Y}. {machine()}; sgmcmc {sgmcmc.__version__}, TensorFlow {tf.__version__}. "
        f"{clock.minutes} minutes.",
    ]


if __name__ == "__main__":
    main()
