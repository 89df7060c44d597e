"""What an iteration of each estimator costs, relative to the plain one: side by side in one run, medians of ratios.

Logistic regression of 55 coefficients, n = 500, simulated:

    python benchmarks/estimators.py --output benchmarks/ESTIMATORS.md
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import sgmcmc
from sgmcmc import adaptive, controlVariates, preferential, saga, svrg

N, D, MINIBATCH, STEPSIZE = 500_000, 55, 500, 1e-7
ITERATIONS, SHORT = 4000, 100

ESTIMATORS: dict[str, tuple[dict[str, Any], float | None]] = {  # and the most that was aimed at
    "plain": ({}, None),
    "preferential": ({"subsampling": preferential()}, 1.5),
    "control variates": ({"gradient": controlVariates()}, 1.5),
    "control variates, preferential": ({"gradient": controlVariates(), "subsampling": preferential()}, None),
    "saga": ({"gradient": saga()}, 2.0),
    "svrg": ({"gradient": svrg()}, 1.6),
    "control variates, adaptive": ({"gradient": controlVariates(), "minibatchSize": adaptive(pilot=MINIBATCH)}, None),
    "dense preconditioner": ({"preconditioner": "dense", "stepsize": 1e-2}, 1.15),
    "diagonal preconditioner": ({"preconditioner": "diagonal", "stepsize": 1e-2}, 1.05),
}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    logit = tf.linalg.matvec(dataset["X"], params["beta"])
    return tf.reduce_sum(dataset["y"] * logit - tf.nn.softplus(logit))


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[:, 0] = 1.0
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ rng.normal(size=D) / 7))).astype(np.float32)
    chains = {}
    for name, (changes, _) in ESTIMATORS.items():
        arguments: dict[str, Any] = {"stepsize": STEPSIZE, "minibatchSize": MINIBATCH} | changes
        sampler = sgmcmc.sgldSetup(
            log_lik, {"X": X, "y": y}, {"beta": np.zeros(D)}, logPrior=log_prior, seed=1, **arguments
        )
        sess = sgmcmc.initSess(sampler, verbose=False)
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=SHORT)
        chains[name] = (sampler, sess)
    times: dict[str, list[float]] = {name: [] for name in chains}
    for _ in range(given.repetitions):
        for name, (sampler, sess) in chains.items():
            began = time.perf_counter()
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=ITERATIONS)
            times[name].append((time.perf_counter() - began) / ITERATIONS)
    lines = ["| estimator | us per iteration | over plain | aimed at |", "| --- | ---: | ---: | ---: |"]
    for name, (_, aim) in ESTIMATORS.items():
        ratio = np.median(np.array(times[name]) / np.array(times["plain"]))
        lines.append(f"| {name} | {1e6 * np.median(times[name]):.0f} | {ratio:.2f} | {'' if aim is None else aim} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if given.output:
        given.output.write_text(
            "# What an estimator costs\n\n"
            f"Logistic regression, {D} coefficients, {N:,} observations, n = {MINIBATCH}; medians over "
            f"{given.repetitions} repetitions of {ITERATIONS} iterations, in turn. "
            "Made by `python benchmarks/estimators.py`.\n\n" + text,
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
