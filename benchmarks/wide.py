"""A regression with very many coefficients and everything automatic, against its exact posterior.

    python benchmarks/wide.py --output TABLE.md      # about ten minutes

A linear model of N observations on the levels of ten fields, a few levels frequent and many rare. Its precision is a
sparse matrix, so conjugate gradients give the exact mean and the standard deviations of some coefficients.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from sgmcmc import sgldcv

FIELDS, PRIOR, CHECKED = 10, 11.0, 100
ITERATIONS = 6000


def logLik(params: dict, dataset: dict) -> tf.Tensor:
    effects = tf.gather(params["beta"], dataset["level"])
    return -0.5 * (dataset["y"] - tf.reduce_sum(effects, axis=1)) ** 2


def logPrior(params: dict) -> tf.Tensor:
    return -0.5 * PRIOR * tf.reduce_sum(params["beta"] ** 2)


def made_up(size: int, n_data: int) -> dict[str, np.ndarray]:
    rng, of_field = np.random.default_rng(0), size // FIELDS
    level = np.minimum((50 * rng.pareto(1.0, size=(n_data, FIELDS))).astype(int), of_field - 1)
    level = (level + of_field * np.arange(FIELDS)).astype(np.int32)
    y = rng.normal(0, 0.3, size=size)[level].sum(axis=1) + rng.normal(size=n_data)
    return {"level": level, "y": y.astype(np.float32)}


class Exact:
    """The exact posterior: its mean, and single standard deviations."""

    def __init__(self, data: dict[str, np.ndarray], size: int) -> None:
        n_data = len(data["y"])
        entries = np.ones(n_data * FIELDS), data["level"].ravel(), np.arange(0, n_data * FIELDS + 1, FIELDS)
        x = sparse.csr_matrix(entries, shape=(n_data, size))
        self._precision = (x.T @ x + PRIOR * sparse.eye(size)).tocsr()
        self.diagonal = self._precision.diagonal()
        self._size = size
        self.mean = self._solved(x.T @ data["y"].astype(float))

    def _solved(self, right: np.ndarray) -> np.ndarray:
        scaled = LinearOperator((self._size, self._size), matvec=lambda v: v / self.diagonal)
        found, failed = cg(self._precision, right, rtol=1e-9, maxiter=10_000, M=scaled)
        assert not failed
        return found

    def sd(self, element: int) -> float:
        return self._solved(np.eye(1, self._size, element).ravel())[element] ** 0.5


def row(size: int, n_data: int) -> str:
    data = made_up(size, n_data)
    exact, begin = Exact(data, size), time.perf_counter()
    out = sgldcv(
        logLik, data, {"beta": np.zeros(size)}, logPrior=logPrior, integers=["level"], minibatchSize="auto",
        nIters=ITERATIONS, nChains=4, thin=10, seed=1,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    settings, expected = out.settings, out.settings["expected"]
    draws = out["beta"].reshape(-1, size)
    order = np.argsort(exact.diagonal)
    some = np.concatenate([order[-10:], np.random.default_rng(1).choice(order, CHECKED - 10, replace=False)])
    sds = np.array([exact.sd(k) for k in some])
    sd_of_all = np.ravel(expected["sd"]["beta"])
    errors = (draws.mean(axis=0) - exact.mean) / sd_of_all
    ratios = draws[:, some].std(axis=0) / sds
    return (
        f"| {n_data:,} | {size:,} | {settings['minibatchSize']:,} | {expected['stepsize']:.3f} | "
        f"{expected['iterations']:.0f} | {settings['nIters']:,} | {np.sqrt((errors**2).mean()):.3f} | "
        f"{np.abs(errors).max():.2f} | {np.median(ratios):.3f} | {ratios.min():.2f} to {ratios.max():.2f} | "
        f"{seconds:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5000, 50_000])
    parser.add_argument("--observations", type=int, default=10**6)
    arguments = parser.parse_args()
    lines = [
        "| N | coefficients | n found | stepsize | iterations for a draw | iterations | error of the means, sds: rms | "
        "largest | ratio of sds: median | of 100, from least to most | seconds |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for size in arguments.sizes:
        lines.append(row(size, arguments.observations))
        print("\n".join(lines), flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
