"""SGLD on the network for letter, in sgmcmc and in posteriors (PyTorch), from the same start; see NETWORKS.md.

Requires an environment with torch and posteriors, as posteriors/ in SGMCMC_BENCH_ENVIRONMENTS. The packages take
turns. Both draw minibatches with replacement, and average the predictions of 50 draws.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import WORKERS, Worker, machine
from networks import SCORES, SEEDS, letter, over_seeds, trained

from sgmcmc import sgld
from sgmcmc.diagnostics import classScores

WORKERS["posteriors"] = "posteriors_worker.py"
STEPSIZE, ITERATIONS, DRAWS = 1e-5, 20_000, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    problem = letter(parser.parse_args().data)
    network, truth = problem.network(), problem.testset["y"]
    (start,) = trained(network, problem, 0)
    thin, scores, seconds = ITERATIONS // DRAWS, {}, {}
    chain = {"stepsize": STEPSIZE, "minibatchSize": problem.minibatchSize, "nIters": ITERATIONS, "thin": thin}

    def ours(seed: int) -> tuple[np.ndarray, float]:
        begin = time.perf_counter()
        out = sgld(**network | {"params": start}, **chain, subsampling="withReplacement", seed=seed, verbose=False)
        p = out.predict(network.outputs, problem.testset, quantiles=())["mean"]
        return p, time.perf_counter() - begin

    with tempfile.TemporaryDirectory() as folder, Worker("posteriors") as worker:
        files = {"problem": f"{folder}/problem.npz", "result": f"{folder}/p.npy"}
        np.savez(
            files["problem"], X=problem.dataset["X"], y=problem.dataset["y"], test=problem.testset["X"],
            **{f"start.{name}": x for name, x in start.items()},
        )  # fmt: skip

        def theirs(seed: int) -> tuple[np.ndarray, float]:
            taken = worker.ask("chain", **files, **chain, seed=seed)
            return np.load(files["result"]), taken

        print(machine(), worker.ask("versions"))
        for seed in range(SEEDS + 1):
            for name, run in (("sgmcmc", ours), ("posteriors", theirs)):
                p, taken = run(seed)
                if seed > 0:  # the first turn compiles
                    scores.setdefault(name, []).append([classScores(p, truth)[score] for score in SCORES])
                    seconds.setdefault(name, []).append(taken)
    print(f"| | {' | '.join(SCORES)} | seconds |\n|---|{'---:|' * (len(SCORES) + 1)}")
    for name, rows in scores.items():
        print(f"| {name} | {over_seeds(zip(*rows, strict=True))} | {np.median(seconds[name]):.1f} |")


if __name__ == "__main__":
    main()
