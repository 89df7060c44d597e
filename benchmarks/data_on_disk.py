"""Time and memory of sgldcv on data that stay on disk, from the search for the mode to R-hat, for N up to 10^8.

    python benchmarks/data_on_disk.py FOLDER --output TABLE.md      # 8 GB of free disk, about an hour
    python benchmarks/data_on_disk.py FOLDER --rows 100000          # a small run, to check that everything works

With --output it also draws the times, next to the table: figure 4.2.1 of the thesis of Baker (2018), time against N.

The data of the two models are simulated: a logistic regression on 19 numbers, in a file of 80 bytes per observation,
and one on 8 categorical variables with 70 levels in total, in a file of 8 positions and an outcome. `sgldcv` with four
chains, minibatches of 1,000 and no other setting is compared with the normal distribution at the mode, which NumPy
computes in float64 by passes over the file; at these sample sizes it is the posterior. Each run has its own
interpreter, after the file was dropped from the system's cache. Memory is the largest resident memory of the process
without pages of files, in excess of that after a run with 1,000 observations. A pass is over all observations, for a
derivative of any order.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import psutil
import tensorflow as tf

from sgmcmc import initSess, sgldcv, sgldSetup, sgmcmcStep
from sgmcmc.dataset.full_pass import FullPass

ROWS = [10**6, 10**7, 3 * 10**7, 10**8]
PART = 10**6
MINIBATCH = 1000
COLUMNS = 20
LEVELS = [12, 31, 7, 4, 5, 3, 2, 6]  # 70 together
BEGINS = np.cumsum([0, *LEVELS[:-1]]).astype(np.int32)


def logistic(params: dict, dataset: dict) -> tf.Tensor:
    rows = dataset["rows"]
    eta = tf.linalg.matvec(rows[:, :-1], params["beta"])
    return rows[:, -1] * eta - tf.math.softplus(eta)


def flights(params: dict, dataset: dict) -> tf.Tensor:
    rows = dataset["rows"]
    eta = tf.reduce_sum(tf.gather(params["beta"], rows[:, :-1]), axis=1)
    return tf.cast(rows[:, -1], eta.dtype) * eta - tf.math.softplus(eta)


def weak(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["beta"] ** 2)


HEADER = [
    "model", "N", "GB", "before the chains (s)", "chains (s)", "passes", "memory (MB)", "error of the means (sds)",
    "sds", "R-hat", "iteration, cold (ms)", "warm (ms)",
]  # fmt: skip
MODELS = {"logistic": (logistic, np.float32, COLUMNS), "flights": (flights, np.int32, len(LEVELS) + 1)}
SIZES = {"logistic": COLUMNS - 1, "flights": sum(LEVELS)}


def part_of(model: str, rng: np.random.Generator, n: int) -> np.ndarray:
    """`n` rows of the file."""
    beta = np.linspace(-1, 1, SIZES[model])
    if model == "logistic":
        rows = rng.standard_normal((n, COLUMNS), dtype=np.float32)
        eta = rows[:, :-1] @ (beta / 2).astype(np.float32)
    else:
        levels = [rng.integers(0, n_levels, n) + begin for n_levels, begin in zip(LEVELS, BEGINS, strict=True)]
        rows = np.stack([*levels, levels[0]], axis=1).astype(np.int32)
        eta = (beta / 4)[rows[:, :-1]].sum(axis=1)
    rows[:, -1] = rng.random(n, dtype=np.float32) < 1 / (1 + np.exp(-eta))
    return rows


def make(path: Path, model: str, n_data: int) -> None:
    _, dtype, columns = MODELS[model]
    rows = np.lib.format.open_memmap(path, "w+", dtype, (n_data, columns))
    rng = np.random.default_rng(0)
    for start in range(0, n_data, PART):
        rows[start : start + PART] = part_of(model, rng, min(PART, n_data - start))
    rows.flush()


def exact(path: Path, model: str) -> tuple[np.ndarray, np.ndarray]:
    """The mode, and the sds of the normal distribution at it, by Newton's method in float64."""
    rows, d = np.load(path, mmap_mode="r"), SIZES[model]
    theta = np.zeros(d)
    while True:
        gradient, precision = -theta, np.eye(d)
        for start in range(0, len(rows), PART // 4):
            part = np.array(rows[start : start + PART // 4])
            y = part[:, -1].astype(np.float64)
            if model == "logistic":
                x = part[:, :-1].astype(np.float64)
            else:
                x = np.zeros((len(part), d))
                x[np.arange(len(part))[:, None], part[:, :-1]] = 1.0
            p = 1 / (1 + np.exp(-x @ theta))
            gradient += x.T @ (y - p)
            precision += (x * (p * (1 - p))[:, None]).T @ x
        step = np.linalg.solve(precision, gradient)
        theta += step
        if np.sqrt(step @ gradient) < 1e-3:
            return theta, np.sqrt(np.diag(np.linalg.inv(precision)))


def forget(path: Path, rows: np.memmap | None = None) -> None:
    """Ask the system to drop the file from its cache."""
    if rows is not None:
        rows._mmap.madvise(mmap.MADV_DONTNEED)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path) -> None:
    """Read the file into the system's cache, as far as it fits."""
    with path.open("rb") as file:
        while file.read(2**26):
            pass


class Memory(threading.Thread):
    """Records the largest resident memory of the process, without pages of files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()

    def run(self) -> None:
        process = psutil.Process()
        while not self.ended.wait(0.05):
            memory = process.memory_info()
            self.most = max(self.most, memory.rss - memory.shared)


def one(path: Path, model: str, n_iters: int | None) -> dict[str, Any]:
    """Time, memory and accuracy of one run."""
    log_lik, dtype, _ = MODELS[model]
    counts: dict[str, float] = {"observations": 0}
    blocks = FullPass.blocks

    def counted(self: FullPass, values: Any, part: range, of_each: Any = ()) -> Any:
        counts["observations"] += len(part)
        return blocks(self, values, part, of_each)

    params = {"beta": np.zeros(SIZES[model])}
    common: dict[str, Any] = {"logPrior": weak, "integers": ["rows"] if dtype is np.int32 else []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = {"rows": part_of(model, np.random.default_rng(1), 1000)}
        sgldcv(log_lik, small, params, nChains=4, nIters=100, seed=1, verbose=False, **common)
    before, memory = psutil.Process().memory_info(), Memory()
    memory.start()
    FullPass.blocks = counted  # type: ignore[method-assign]
    rows = np.load(path, mmap_mode="r")
    forget(path, rows)
    arguments = {} if n_iters is None else {"nIters": n_iters}
    out = sgldcv(
        log_lik,
        {"rows": rows},
        params,
        minibatchSize=MINIBATCH,
        nChains=4,
        seed=1,
        verbose=False,
        **common,
        **arguments,
    )
    memory.ended.set()
    mean, sd = exact_of(path, model)
    draws = np.asarray(out["beta"], np.float64).reshape(-1, len(mean))  # a sum in float32 would give a wrong mean
    result = {
        "model": model,
        "N": len(rows),
        "GB": path.stat().st_size / 1e9,
        "before": out.timings["total"] - out.timings["sampling"],
        "sampling": out.timings["sampling"],
        "iterations": out.settings["nIters"],
        "passes": counts["observations"] / len(rows),
        "memory": (memory.most - (before.rss - before.shared)) / 1e6,
        "error": float(np.abs((draws.mean(axis=0) - mean) / sd).max()),
        "sds": [float(x) for x in (np.quantile(draws.std(axis=0) / sd, [0, 1]))],
        "rhat": float(out.summary()["r_hat"].max()),
    }
    sampler = sgldSetup(log_lik, {"rows": rows}, params, 0.1 / len(rows), minibatchSize=500, seed=1, **common)
    sess = initSess(sampler, verbose=False)
    for cache in ("cold", "warm"):
        sgmcmcStep(sampler, sess, nSteps=256)
        if cache == "cold":
            forget(path, rows)
        else:
            read(path)
        started = time.perf_counter()
        sgmcmcStep(sampler, sess, nSteps=1024)
        result[cache] = (time.perf_counter() - started) / 1024 * 1e3
    return result


def exact_of(path: Path, model: str) -> tuple[np.ndarray, np.ndarray]:
    kept = path.with_suffix(".npz")
    if not kept.exists():
        np.savez(kept, *exact(path, model))
    with np.load(kept) as arrays:
        return arrays["arr_0"], arrays["arr_1"]


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    """The seconds of the chains, and of everything before them, against N."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    for model, colour in zip(MODELS, ("#4477aa", "#ee6677"), strict=True):
        mine = [r for r in rows if r["model"] == model]
        n = [r["N"] for r in mine]
        axis.plot(n, [r["before"] for r in mine], ".:", color=colour, label=f"{model}, mode, curvature, stepsize")
        axis.plot(n, [r["sampling"] for r in mine], ".-", color=colour, label=f"{model}, chains")
    axis.set(xscale="log", yscale="log", xlabel="observations", ylabel="seconds")
    axis.minorticks_off()
    axis.set_yticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=lambda text: [int(float(x)) for x in text.split(",")], default=ROWS)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        (model,), (n_data,) = arguments.models, arguments.rows
        print(json.dumps(one(arguments.folder / f"{model}{n_data}.npy", model, arguments.iterations)))
        return
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    print("\n".join(lines))
    results = []
    for model in arguments.models:
        for n_data in arguments.rows:
            path = arguments.folder / f"{model}{n_data}.npy"
            if not path.exists():
                make(path, model, n_data)
            exact_of(path, model)
            more = [] if arguments.iterations is None else ["--iterations", str(arguments.iterations)]
            command = [
                sys.executable,
                __file__,
                str(arguments.folder),
                "--one",
                "--models",
                model,
                "--rows",
                str(n_data),
            ]
            printed = subprocess.run([*command, *more], check=True, capture_output=True, text=True).stdout
            r = json.loads(printed.splitlines()[-1])
            results.append(r)
            low, high = r["sds"]
            cells = [
                model, f"{r['N']:,}", f"{r['GB']:.2f}", f"{r['before']:.1f}", f"{r['sampling']:.1f}",
                f"{r['passes']:.1f}", f"{r['memory']:.0f}", f"{r['error']:.2f}", f"{low:.2f} to {high:.2f}",
                f"{r['rhat']:.3f}", f"{r['cold']:.2f}", f"{r['warm']:.2f}",
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
        picture(results, arguments.output.with_suffix(".png"))


if __name__ == "__main__":
    main()
