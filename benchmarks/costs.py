"""Cost of an iteration of several samplers, in turn in one run, as medians of ratios to the first."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from harness import compare, interleave

import sgmcmc

N, D, MINIBATCH = 500_000, 55, 500
GRADIENTS = 4000


class Candidate(NamedTuple):
    """A sampler to time, and its gradients per iteration."""

    set_up: Callable
    arguments: dict[str, Any]
    leaps: int = 1


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    logit = tf.linalg.matvec(dataset["X"], params["beta"])
    return tf.reduce_sum(dataset["y"] * logit - tf.nn.softplus(logit))


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


def parsed(description: str | None) -> argparse.Namespace:
    """The arguments of a script that times candidates."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def timed(candidates: Mapping[str, Candidate], repetitions: int) -> dict[str, tuple[float, float]]:
    """The seconds per gradient of each, and their ratio to those of the first, as medians over the repetitions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[:, 0] = 1.0
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ rng.normal(size=D) / 7))).astype(np.float32)
    problem = {"logLik": log_lik, "dataset": {"X": X, "y": y}, "params": {"beta": np.zeros(D)}, "logPrior": log_prior}

    def arm(one: Candidate) -> Callable[[], float]:
        sampler = one.set_up(**problem, **{"minibatchSize": MINIBATCH, "seed": 1} | one.arguments)
        sess, iterations = sgmcmc.initSess(sampler, verbose=False), GRADIENTS // one.leaps

        def seconds() -> float:
            began = time.perf_counter()
            sgmcmc.sgmcmcStep(sampler, sess, nSteps=iterations)
            return (time.perf_counter() - began) / (iterations * one.leaps)

        return seconds

    measured = interleave({name: arm(one) for name, one in candidates.items()}, repetitions)
    first = next(iter(measured.values()))
    return {name: (statistics.median(each), compare(name, each, first).value) for name, each in measured.items()}


def publish(title: str, script: str, lines: list[str], given: argparse.Namespace) -> None:
    """Print the table, and write it to `--output` if given."""
    text = "\n".join(lines) + "\n"
    print(text)
    if given.output:
        given.output.write_text(
            f"# {title}\n\n"
            f"Logistic regression, {D} coefficients, {N:,} observations, n = {MINIBATCH}; medians over "
            f"{given.repetitions} repetitions of {GRADIENTS} gradients, in turn. Load of the machine at the end: "
            f"{os.getloadavg()[0]:.2f}. Made by `python benchmarks/{script}`.\n\n" + text,
            encoding="utf-8",
        )
