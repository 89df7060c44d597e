"""Coverage of the 95% intervals of each method of equal_cost.py over simulated data sets; see EQUAL_COST.md.

    python benchmarks/equal_cost_coverage.py [--data-sets 200] [--only rare] [--methods "sgldcv;Laplace"]

The parameters of each data set are drawn from the prior, so exact intervals cover 95% of them. All data sets have the
same shapes, so that nothing is recompiled. Intervals are quantiles of the draws or, for Laplace and ADVI, of the
normal distribution.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import tensorflow as tf
from automatic import CHAINS, Problem, flattened, logistic, normal_prior, poisson
from equal_cost import COVERAGE, METHODS, OURS, flat_draws, gradients_of, report
from equal_cost_full import FULL
from harness import read, write

import sgmcmc

LEVEL, NORMAL = 0.95, 1.959964
GRADIENTS = 1_600_000
VARIANCE = 0.25


def counts(rng: np.random.Generator) -> tuple[Problem, np.ndarray]:
    """A thousand counts, with four coefficients and an intercept; and the true values, in order of name."""
    truth, X = rng.normal(0, VARIANCE**0.5, 5), rng.normal(size=(1000, 4))
    y = rng.poisson(np.exp(X @ truth[:4] + truth[4]))
    data, start = {"X": X, "y": y.astype(float)}, {"beta": np.zeros(4), "intercept": 0.0}
    return Problem("Poisson regression, N = 1,000", poisson, data, start, normal_prior(VARIANCE), 50), truth


def few_of_a_kind(rng: np.random.Generator) -> tuple[Problem, np.ndarray]:
    """Binary outcomes and categories, the rarest with about ten observations of a thousand."""
    truth = rng.normal(size=5)
    X = np.hstack([np.ones((1000, 1)), rng.random((1000, 4)) < [0.5, 0.2, 0.05, 0.01]])
    y = rng.random(1000) < 1 / (1 + np.exp(-X @ truth))
    data, start = {"X": X, "y": y.astype(float)}, {"beta": np.zeros(5)}
    return Problem("logistic regression, rare categories, N = 1,000", logistic, data, start, normal_prior(1), 50), truth


SIMULATED = {"poisson": counts, "rare": few_of_a_kind}


def interval(label: str, problem: Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The ends, of all elements in order of name."""
    if label in FULL:
        found = FULL[label](flattened(problem), GRADIENTS // 1000, seed)
        if found.draws is None:
            return found.mean - NORMAL * found.sd, found.mean + NORMAL * found.sd
        draws = found.draws
    else:
        name, options = OURS[label]
        iterations = GRADIENTS // gradients_of(label, problem)
        out = getattr(sgmcmc, name)(
            problem.logLik, problem.dataset, problem.params, logPrior=problem.logPrior, nChains=CHAINS, seed=seed,
            minibatchSize=problem.minibatchSize, nIters=iterations, burnIn=iterations // 10, verbose=False, **options,
        )  # fmt: skip
        draws = flat_draws(out, problem)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=(0, 1))
    return low, high


def covered(label: str, simulated: Any, data_sets: int) -> dict[str, float]:
    """The coverage over all elements and data sets, its standard error over data sets, and the worst element's."""
    inside, failed = [], 0
    for seed in range(data_sets):
        problem, truth = simulated(np.random.default_rng(1000 + seed))
        try:
            low, high = interval(label, problem, seed)
        except (ValueError, sgmcmc.DivergenceError, sgmcmc.ModeSearchError):
            failed += 1
            continue
        inside.append((low < truth) & (truth < high))
    shares = np.mean(inside, axis=1)
    error = shares.std(ddof=1) / len(shares) ** 0.5
    return {"share": shares.mean(), "error": error, "worst": np.mean(inside, axis=0).min(), "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-sets", type=int, default=200)
    parser.add_argument("--only", default=",".join(SIMULATED), help="models, separated by commas")
    parser.add_argument("--methods", default=";".join(label for label in METHODS if label not in ("NUTS", "MALA")))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    tf.get_logger().setLevel("ERROR")
    for name in arguments.only.split(","):
        simulated = SIMULATED[name]
        for label in arguments.methods.split(";"):
            found = covered(label, simulated, arguments.data_sets)
            print(name, label, found, flush=True)
            kept = read(COVERAGE)
            of_problem = kept.setdefault(name, {"rows": {}})
            of_problem |= {"title": simulated(np.random.default_rng(0))[0].title, "data sets": arguments.data_sets}
            of_problem["rows"][label] = found
            write(COVERAGE, kept)
    report()


if __name__ == "__main__":
    main()
