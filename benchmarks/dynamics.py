"""What an iteration of each dynamics costs, relative to SGLD: side by side in one run, medians of ratios.

Logistic regression of 55 coefficients, n = 500, simulated:

    python benchmarks/dynamics.py --output benchmarks/DYNAMICS.md
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import sgmcmc

N, D, MINIBATCH, STEPSIZE = 500_000, 55, 500, 1e-9
ITERATIONS, SHORT = 4000, 100
LEAPS = 5  # of sghmc, whose iterations are divided by them


def langevin(theta: tf.Tensor, memory: dict, given: sgmcmc.Given) -> tuple[tf.Tensor, dict]:
    """SGLD as a rule of a user's own."""
    return theta + given.eps / 2 * given.gradient + tf.sqrt(given.eps) * given.noise, memory


DYNAMICS: dict[str, tuple[Callable, dict[str, Any]]] = {
    "sgld": (sgmcmc.sgldSetup, {}),
    "sghmc, per leap": (sgmcmc.sghmcSetup, {"L": LEAPS}),
    "sghmc, betaHat fisher, per leap": (sgmcmc.sghmcSetup, {"L": LEAPS, "betaHat": "fisher"}),
    "sgnht": (sgmcmc.sgnhtSetup, {}),
    "ccadl, diag": (sgmcmc.ccadlSetup, {}),
    "ccadl, full": (sgmcmc.ccadlSetup, {"covariance": "full"}),
    "baoab": (sgmcmc.baoabSetup, {}),
    "badodab": (sgmcmc.badodabSetup, {}),
    "psgld": (sgmcmc.psgldSetup, {}),
    "sgld by sample": (sgmcmc.sampleSetup, {"dynamics": sgmcmc.Dynamics(langevin)}),
    "sgld, cyclical": (sgmcmc.sgldSetup, {"stepsize": sgmcmc.cyclical(STEPSIZE, 1000, 0.5)}),
    "sgld, temperature 2": (sgmcmc.sgldSetup, {"temperature": 2.0}),
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
    load = os.getloadavg()[0]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[:, 0] = 1.0
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ rng.normal(size=D) / 7))).astype(np.float32)
    chains = {}
    for name, (set_up, changes) in DYNAMICS.items():
        arguments: dict[str, Any] = {"stepsize": STEPSIZE, "minibatchSize": MINIBATCH} | changes
        sampler = set_up(log_lik, {"X": X, "y": y}, {"beta": np.zeros(D)}, logPrior=log_prior, seed=1, **arguments)
        sess = sgmcmc.initSess(sampler, verbose=False)
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=SHORT)
        chains[name] = (sampler, sess)
    times: dict[str, list[float]] = {name: [] for name in chains}
    for _ in range(given.repetitions):
        for name, (sampler, sess) in chains.items():
            leaps = LEAPS if "leap" in name else 1
            began = time.perf_counter()
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=ITERATIONS // leaps)
            times[name].append((time.perf_counter() - began) / (ITERATIONS // leaps * leaps))
    lines = ["| dynamics | us per gradient | over sgld |", "| --- | ---: | ---: |"]
    for name in DYNAMICS:
        ratio = np.median(np.array(times[name]) / np.array(times["sgld"]))
        lines.append(f"| {name} | {1e6 * np.median(times[name]):.0f} | {ratio:.2f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if given.output:
        given.output.write_text(
            "# What a dynamics costs\n\n"
            f"Logistic regression, {D} coefficients, {N:,} observations, n = {MINIBATCH}; medians over "
            f"{given.repetitions} repetitions of {ITERATIONS} gradients, in turn. Load of the machine at the start: "
            f"{load:.2f}. Made by `python benchmarks/dynamics.py`.\n\n" + text,
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
