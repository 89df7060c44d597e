"""Cost of a call before its first iteration: traces, operations and processor time of first and repeated calls.

Each sampler has its own process on one core, so that nothing else is computed during the call. The time of a repeated
call excludes compiled programs, such as full passes and iterations; that of a first call includes compilation.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

N, COLUMNS, ITERATIONS, REPEATED = 100_000, 20, 10, 7
SAMPLERS = ("sgld", "sgldcv", "sghmc", "saga", "scir", "lda")


class Counted:
    """Counts of traces and operations, and the time of compiled programs, in this process."""

    def __init__(self) -> None:
        self.traces, self.operations, self.running = 0, 0, 0.0

    def watch(self) -> None:
        """Start to count."""
        from tensorflow.python.framework import func_graph

        from sgmcmc.core import compilation as compiled
        from sgmcmc.core import tracing

        create, trace, traced = func_graph.FuncGraph._create_op_internal, tracing.trace, compiled.Compiled.traced

        def create_counted(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self.operations += 1
            return create(graph, *args, **kwargs)

        def trace_counted(*args: Any, **kwargs: Any) -> Any:
            self.traces += 1
            return trace(*args, **kwargs)

        def traced_timed(one: Any, *args: Any, **kwargs: Any) -> Callable:
            program = traced(one, *args, **kwargs)

            def timed(*tensors: Any) -> Any:
                began = time.process_time()
                results = program(*tensors)
                self.running += time.process_time() - began
                return results

            return timed

        func_graph.FuncGraph._create_op_internal = create_counted
        compiled.Compiled.traced = traced_timed
        for module in [one for name, one in sys.modules.items() if name.startswith("sgmcmc")]:
            if getattr(module, "trace", None) is trace:
                module.trace = trace_counted


def call_of(name: str) -> Callable[[], Any]:
    """One call of the sampler, with few iterations."""
    import numpy as np
    import tensorflow as tf

    import sgmcmc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, COLUMNS)).astype(np.float32)
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ rng.normal(size=COLUMNS) / 5))).astype(np.float32)
    labels = np.eye(4)[rng.integers(0, 4, 1000)]
    docs = rng.poisson(0.3, size=(500, 100))

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        logit = tf.linalg.matvec(dataset["X"], params["beta"]) + params["level"]
        return tf.reduce_sum(dataset["y"] * logit - tf.nn.softplus(logit))

    def log_prior(params: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(params["beta"] ** 2) - 0.5 * params["level"] ** 2

    def counts(params: dict, dataset: dict) -> dict:
        return {"p": tf.reduce_sum(dataset["x"], 0)}

    begin = {"beta": np.zeros(COLUMNS), "level": 0.0}
    problem = {"logLik": log_lik, "dataset": {"X": X, "y": y}, "params": begin, "logPrior": log_prior}
    run = {"nIters": ITERATIONS, "verbose": False, "seed": 1}
    return {
        "sgld": lambda: sgmcmc.sgld(**problem, stepsize=1e-5, **run),
        "sgldcv": lambda: sgmcmc.sgldcv(**problem, **run),
        "sghmc": lambda: sgmcmc.sghmc(**problem, stepsize=1e-6, **run),
        "saga": lambda: sgmcmc.sgld(**problem, stepsize=1e-5, gradient=sgmcmc.saga(), **run),
        "scir": lambda: sgmcmc.scir(counts, {"x": labels}, {"p": np.full(4, 0.25)}, stepsize=0.01, alpha=0.5, **run),
        "lda": lambda: sgmcmc.lda(docs, nTopics=5, **run),
    }[name]


def measured(name: str) -> dict[str, float]:
    """Results of one sampler, with medians over the repeated calls."""
    warnings.simplefilter("ignore")
    call, counted, rows = call_of(name), Counted(), []
    counted.watch()
    for _ in range(1 + REPEATED):
        counted.traces, counted.operations, counted.running = 0, 0, 0.0
        began = time.process_time()
        call()
        seconds = time.process_time() - began
        rows.append((seconds, seconds - counted.running, counted.traces, counted.operations))
    repeated = [statistics.median(column) for column in zip(*rows[1:], strict=True)]
    return dict(zip(("first", "repeated", "traces", "operations"), (rows[0][0], *repeated[1:]), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one)))
        return
    lines = [
        "| sampler | traces | operations | first call, s | repeated call, s |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in given.samplers.split(","):
        command = [sys.executable, __file__, "--one", name]
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        of = json.loads(done.stdout.splitlines()[-1])
        lines.append(
            f"| {name} | {of['traces']:.0f} | {of['operations']:.0f} | {of['first']:.2f} | {of['repeated']:.2f} |"
        )
        print(lines[-1], flush=True)
    if given.output:
        given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
