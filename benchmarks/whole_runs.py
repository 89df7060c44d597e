"""Runs with automatic length, minibatch size and stepsize, against NUTS on all data.

    python benchmarks/whole_runs.py --data FOLDER --output TABLE.md [problem ...]      # about forty minutes

The problems are those of automatic.py and forest covertype, with `params` as a user would give them. Both methods run
until the bulk and tail effective sample sizes of every element reach the same value: `sgldcv(..., nIters="auto",
minibatchSize="auto")` with four chains, and NumPyro's NUTS with four chains in parallel and 500 iterations of warm-up,
within five minutes. They run one after the other. Errors are the largest over all elements, in standard deviations of
the reference for means, and relative for standard deviations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from automatic import Problem, Reference, logistic, normal_prior, problems, reference
from covertype import load
from harness import NUMPYRO, run_worker, timed

from sgmcmc import sgldcv

ESS, LIMIT = 1000, 300


class Outcome(NamedTuple):
    """The result of one method."""

    ess: float
    mean: float
    sd: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.ess:,.0f} | {self.mean:.2f} | {self.sd:.1%} | {self.seconds:.1f}"


def all_problems(folder: Path | None) -> dict[str, Problem]:
    found = problems()
    if folder is not None:
        data = load(str(folder / "covertype_subset.npz"))[0]
        data["X"] = np.column_stack([data["X"], np.ones(len(data["y"]), np.float32)])
        size = data["X"].shape[1]
        found["covertype"] = Problem(
            f"covertype, {size} coefficients, N = {len(data['y']):,}",
            logistic,
            data,
            {"beta": np.zeros(size)},
            normal_prior(1),
        )
    return found


def errors(draws: dict[str, np.ndarray], truth: Reference) -> tuple[float, float]:
    flat = np.concatenate([x.reshape(-1, np.prod(x.shape[2:], dtype=int)) for _, x in sorted(draws.items())], axis=1)
    mean, sd = flat.mean(axis=0, dtype=np.float64), flat.std(axis=0, dtype=np.float64)
    return float(np.abs((mean - truth.mean) / truth.sd).max()), float(np.abs(sd / truth.sd - 1).max())


def ours(problem: Problem, truth: Reference) -> tuple[Outcome, str]:
    with timed() as spent, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = sgldcv(
            problem.logLik,
            problem.dataset,
            problem.params,
            logPrior=problem.logPrior,
            minibatchSize="auto",
            nIters="auto",
            ess=ESS,
            seed=1,
            verbose=False,
            **problem.options,
        )
    ess = float(out.summary()[["ess_bulk", "ess_tail"]].to_numpy().min())
    of_draws = errors({name: out[name] for name in problem.params}, truth)
    return Outcome(ess, *of_draws, spent["seconds"]), f"{out.settings['minibatchSize']:,} | {out.settings['nIters']:,}"


def nuts(name: str, problem: Problem, truth: Reference) -> str:
    positive = problem.options.get("transforms", {})
    start = {f"start {key}": np.log(x) if key in positive else np.asarray(x) for key, x in problem.params.items()}
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, **start, **{f"data {key}": x for key, x in problem.dataset.items()})
        settings = json.dumps({"problem": name, "ess": ESS, "seconds": LIMIT})
        try:
            told = run_worker(NUMPYRO, "numpyro_nuts.py", given, found, settings, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return f"not reached | | | over {LIMIT}"
        draws = dict(np.load(found))
    draws = {key: np.exp(x) if key in positive else x for key, x in draws.items()}
    return str(Outcome(told["ess"], *errors(draws, truth), told["seconds"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    lines = [
        "| problem | n found | iterations | ESS | mean | sd | seconds | NUTS: ESS | mean | sd | seconds | "
        "reference's ESS |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    for name, problem in all_problems(arguments.data).items():
        if arguments.problems and name not in arguments.problems:
            continue
        truth = reference(problem)
        found, chosen = ours(problem, truth)
        lines.append(f"| {problem.title} | {chosen} | {found} | {nuts(name, problem, truth)} | {truth.size:,.0f} |")
        print(lines[-1], flush=True)
        if arguments.output:
            arguments.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
