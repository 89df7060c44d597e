"""Cost of a loop in logLik relative to the same model unrolled by hand: medians of ratios, in one run.

A hidden Markov model with two states, 1,500 sequences of 20 steps, n = 100:

    python benchmarks/loops.py --output benchmarks/LOOPS.md
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from costs import parsed
from harness import compare, interleave

import sgmcmc

N, STEPS, MINIBATCH, ITERATIONS = 1500, 20, 100, 300
START = tf.constant([0.0, -30.0])  # log probabilities of the first state, which is known
PARAMS = {"logit": np.zeros(2), "mean": np.array([-0.5, 0.5])}


def parts(params: dict, dataset: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Log densities of the observations given each state, [steps, n, 2], and log transition probabilities, [2, 2]."""
    stays = tf.sigmoid(params["logit"])
    transitions = tf.math.log(tf.stack([tf.stack([stays[0], 1 - stays[0]]), tf.stack([1 - stays[1], stays[1]])]))
    return -0.5 * (tf.transpose(dataset["y"])[..., None] - params["mean"]) ** 2, transitions


def forward(before: tf.Tensor, density: tf.Tensor, transitions: tf.Tensor) -> tf.Tensor:
    """A step of the forward recursion, [n, 2]."""
    return tf.reduce_logsumexp(before[:, :, None] + transitions, axis=1) + density


def unrolled(params: dict, dataset: dict) -> tf.Tensor:
    densities, transitions = parts(params, dataset)
    state = START + densities[0]
    for t in range(1, STEPS):
        state = forward(state, densities[t], transitions)
    return tf.reduce_logsumexp(state, axis=1)


def scanned(params: dict, dataset: dict) -> tf.Tensor:
    densities, transitions = parts(params, dataset)
    states = tf.scan(lambda s, d: forward(s, d, transitions), densities[1:], initializer=START + densities[0])
    return tf.reduce_logsumexp(states[-1], axis=1)


FORMS = {"unrolled": unrolled, "tf.scan": scanned}
CASES: dict[str, tuple[Callable, dict[str, Any]]] = {
    "sgld": (sgmcmc.sgldSetup, {"stepsize": 1e-5}),
    "sgld, 4 chains": (sgmcmc.sgldSetup, {"stepsize": 1e-5, "nChains": 4}),
    "saga": (sgmcmc.sgldSetup, {"stepsize": 1e-5, "gradient": sgmcmc.saga()}),
    "ccadl": (sgmcmc.ccadlSetup, {"stepsize": 1e-7}),
    "sgldcv, stepsize found": (sgmcmc.sgldcvSetup, {"verbose": False}),
}


def sequences() -> dict[str, np.ndarray]:
    """Simulated data."""
    rng, stays = np.random.default_rng(0), np.array([0.9, 0.8])
    state = np.zeros((N, STEPS), int)
    for t in range(1, STEPS):
        before = state[:, t - 1]
        state[:, t] = np.where(rng.random(N) < stays[before], before, 1 - before)
    return {"y": np.array([-1.0, 1.5])[state] + rng.normal(size=state.shape)}


def started(form: Callable, set_up: Callable, changes: dict[str, Any], dataset: dict) -> tuple[float, Callable]:
    """The seconds to the first iteration, and a function that times an iteration."""
    began = time.perf_counter()
    sampler = set_up(
        form,
        dataset,
        PARAMS,
        logPrior=lambda params: -0.05 * sum(tf.reduce_sum(x**2) for x in params.values()),
        **{"minibatchSize": MINIBATCH, "seed": 1} | changes,
    )
    sess = sgmcmc.initSess(sampler, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=ITERATIONS)

    def iteration() -> float:
        began = time.perf_counter()
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=ITERATIONS)
        return (time.perf_counter() - began) / ITERATIONS

    return time.perf_counter() - began, iteration


def main() -> None:
    """Measure, and write the table."""
    given, dataset = parsed(__doc__), sequences()
    lines = [
        "| sampler | first call, s: unrolled | tf.scan | us per iteration: unrolled | tf.scan | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, (set_up, changes) in CASES.items():
        arms = {form: started(logLik, set_up, changes, dataset) for form, logLik in FORMS.items()}
        times = interleave({form: iteration for form, (_, iteration) in arms.items()}, given.repetitions)
        first, then = zip(*((arms[form][0], times[form]) for form in FORMS), strict=True)
        ratio = compare(name, then[1], then[0]).value
        cells = [*(f"{x:.1f}" for x in first), *(f"{1e6 * statistics.median(x):.0f}" for x in then), f"{ratio:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if given.output:
        about = f"""# Cost of a loop

A hidden Markov model with two states, {N:,} sequences of {STEPS} steps, n = {MINIBATCH}; medians over
{given.repetitions} repetitions of {ITERATIONS} iterations, in turn. The first call includes tracing, compilation,
{ITERATIONS} iterations and, for sgldcv, the search for the mode and the pilot. Load of the machine at the end:
{os.getloadavg()[0]:.2f}. Made by `python benchmarks/loops.py`.

"""
        given.output.write_text(about + text, encoding="utf-8")


if __name__ == "__main__":
    main()
