"""Accuracy of the samplers on known posteriors, and its cost; see README.md.

    python benchmarks/accuracy.py                                      # the small problems
    python benchmarks/accuracy.py --covertype covertype_subset.npz     # covertype too, and NUTS and SGMCMCJax on it
    python benchmarks/accuracy.py --covertype covertype_subset.npz --only covertype --samplers "sgldcv;NUTS"
    python benchmarks/accuracy.py --only nothing                       # remake only the page and the picture

The results are stored in accuracy.json, from which ACCURACY.md and figures/accuracy.png are made.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_problems import ALL, Case, cases, laplace
from accuracy_report import KEPT, OURS, PLAIN, report
from automatic import CHAINS, Problem, Reference, in_order
from harness import BLACKJAX, SGMCMCJAX, machine, read, run_worker, timed, write

import sgmcmc
from sgmcmc.draws.convergence import diagnostics

LEAPS = 5  # of sghmc, which therefore makes a fifth of the iterations
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    name + suffix: (name, {"preconditioner": preconditioner})
    for preconditioner, suffix in (("dense", ""), (None, PLAIN))
    for name in OURS
} | {
    "ccadl, full": ("ccadl", {"covariance": "full"}),
    "badodab": ("badodab", {}),
    "badodab, cv": ("badodab", {"gradient": sgmcmc.controlVariates()}),
    "baoab, cv": ("baoab", {"gradient": sgmcmc.controlVariates()}),
    "sgldcv, preferential": ("sgldcv", {"subsampling": sgmcmc.preferential()}),
}
PEERS = ("NUTS", "NUTS, given mode and curvature", "SGMCMCJax sgldCV")
NUTS_SECONDS = 150
GRID = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
GRID_N, GRID_ITERATIONS = 500, 60_000
TOLERANCE, SHIFT = 0.05, 0.1


def against(truth: Reference, mean: np.ndarray, sd: np.ndarray, told: dict[str, np.ndarray]) -> dict[str, Any]:
    """Errors relative to the reference, in posterior sds; Monte Carlo errors combine those of both."""
    shift = np.abs(mean - truth.mean) / truth.sd
    shift_error = np.hypot(told["mcse_mean"] / truth.sd, truth.mean_error)
    ratio = sd / truth.sd
    ratio_error = np.hypot(told["mcse_sd"] / truth.sd, truth.sd_error)
    worst, farthest = np.argmax(np.abs(ratio - 1)), np.argmax(shift)
    outside = (np.abs(ratio - 1) > TOLERANCE + 2 * ratio_error) | (shift > SHIFT + 2 * shift_error)
    return {
        "mean": float(shift[farthest]),
        "mean_error": float(shift_error[farthest]),
        "sd": float(ratio[worst] - 1),
        "sd_error": float(ratio_error[worst]),
        "ratios": ratio.round(4).tolist(),
        "outside": int(outside.sum()),
        "ess": float(np.min(told["ess_bulk"])),
        "r_hat": float(np.max(told["r_hat"])),
    }


def ours(label: str, problem: Problem, truth: Reference) -> dict[str, Any]:
    """One run of sgmcmc with its automatic stepsize."""
    name, options = SAMPLERS[label]
    leaps = LEAPS if "hmc" in name else 1
    iterations = problem.nIters // leaps
    with timed() as spent, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out = getattr(sgmcmc, name)(
                problem.logLik,
                problem.dataset,
                problem.params,
                "auto",
                logPrior=problem.logPrior,
                minibatchSize=problem.minibatchSize,
                nIters=iterations,
                burnIn=iterations // 10,
                nChains=CHAINS,
                seed=1,
                verbose=False,
                **problem.options | options,
            )
        except (ValueError, sgmcmc.DivergenceError, sgmcmc.ModeSearchError) as error:
            return {"failed": f"{type(error).__name__}: {error}"}
    table = in_order(out.summary(), problem)
    columns = {column: table[column].to_numpy() for column in ("mcse_mean", "mcse_sd", "ess_bulk", "r_hat")}
    evaluations = 2 if "cv" in label else 1
    return against(truth, table["mean"].to_numpy(), table["sd"].to_numpy(), columns) | {
        **spent,
        "gradients": evaluations * problem.minibatchSize * leaps * iterations * CHAINS,
        "stepsize": float(next(iter(out.settings["stepsize"].values()))),
        "iterations": iterations,
        "expected": float(out.settings["expected"]["error"]),
        "warnings": [str(one.message) for one in caught],
    }


def of_worker(package: str, script: str, problem: Problem, truth: Reference, settings: dict) -> dict[str, Any]:
    """A run of another package in its own environment."""
    mode, covariance = laplace(problem)
    X, y = problem.dataset["X"], problem.dataset["y"]
    with tempfile.TemporaryDirectory() as folder:
        into, out = Path(folder) / "input.npz", Path(folder) / "draws.npy"
        np.savez(into, X=np.hstack([X, np.ones((len(y), 1), X.dtype)]), y=y, mode=mode, covariance=covariance)
        try:
            told = run_worker(package, script, into, out, json.dumps(settings))
        except RuntimeError as error:
            return {"failed": str(error).splitlines()[-1]}
        draws = np.load(out).astype(float)
    if not np.isfinite(draws).all():
        return {"failed": "not finite"}
    if draws.shape[1] < 10:
        return told | {"failed": f"{told['warmed']} of {told['to_warm']} steps of warm-up in {told['seconds']:.0f} s"}
    sampled = draws if package == BLACKJAX else draws[:, draws.shape[1] // 10 :]
    # A single chain is cut into four for its R-hat.
    parts = sampled if len(sampled) > 1 else sampled[0, : sampled.shape[1] // 4 * 4].reshape(4, -1, sampled.shape[2])
    x = np.moveaxis(parts, 2, 0)
    return against(truth, x.mean(axis=(1, 2)), x.std(axis=(1, 2), ddof=1), diagnostics(x)) | told


def peer(label: str, problem: Problem, truth: Reference) -> dict[str, dict]:
    """The rows of another package."""
    if label.startswith("NUTS"):
        settings = {"seconds": NUTS_SECONDS, "given": label != "NUTS"}
        return {label: of_worker(BLACKJAX, "nuts.py", problem, truth, settings)}
    fixed = {"n": GRID_N, "iterations": GRID_ITERATIONS, "chains": CHAINS, "thin": 6}
    return {
        f"{label}, stepsize {stepsize:g}": of_worker(
            SGMCMCJAX, "sgldcv.py", problem, truth, fixed | {"stepsize": stepsize}
        )
        for stepsize in GRID
    }


def measure(name: str, case: Case, samplers: list[str]) -> None:
    """Run the samplers on a problem, and store the results after each."""
    truth = case.reference()
    size = float(truth.size) if np.isfinite(truth.size) else None
    for label in samplers:
        if label in PEERS:
            rows = peer(label, case.problem, truth) if name == "covertype" else {}
        else:
            one_array = "covariance" not in SAMPLERS[label][1] or len(case.problem.params) == 1
            rows = {label: ours(label, case.problem, truth)} if one_array else {}
        ran = {"load": os.getloadavg()[0], "date": str(datetime.date.today()), "machine": machine()}
        for row, measured in rows.items():
            short = {key: value for key, value in measured.items() if key != "ratios"}
            print(f"{name}, {row}: {json.dumps(short)}", flush=True)
        kept = read(KEPT)  # again: another run may measure other problems meanwhile
        found = kept.setdefault(name, {"rows": {}})
        found |= {
            "title": case.problem.title,
            "told": case.told,
            "n": case.problem.minibatchSize,
            "size": size,
            "parameters": len(truth.mean),
        }
        found["rows"] |= {row: measured | ran for row, measured in rows.items()}
        write(KEPT, dict(sorted(kept.items(), key=lambda item: ALL.index(item[0]))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--covertype", help="the file of covertype.py")
    parser.add_argument("--cache", type=Path, help="a file for the reference of covertype, which takes minutes")
    parser.add_argument("--only", help="problems, separated by commas")
    parser.add_argument("--samplers", default=";".join([*SAMPLERS, *PEERS]), help="separated by semicolons")
    arguments = parser.parse_args()
    for name, case in cases(arguments.covertype, arguments.cache).items():
        if not arguments.only or name in arguments.only.split(","):
            measure(name, case, arguments.samplers.split(";"))
    report(read(KEPT))


if __name__ == "__main__":
    main()
