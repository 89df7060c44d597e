"""Data that do not fit: memory and time of sgldcv on N = 5 x 10^7 rows of 20 columns in a file of 4 GB.

    python benchmarks/data_on_disk.py FOLDER                  # makes FOLDER/rows.npy if it is not there; minutes
    python benchmarks/data_on_disk.py FOLDER --rows 1000000   # a small one, to see that all works

Linear regression: the first 19 columns predict the last. Reported: the resident memory that the process needs beyond
that of TensorFlow, without the pages of the file that the system keeps in its cache, and the time of an iteration with
the file in that cache and without.
"""

from __future__ import annotations

import argparse
import mmap
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import psutil
import tensorflow as tf

from sgmcmc import initSess, sgldcv, sgldSetup, sgmcmcStep

COLUMNS, PART = 20, 10**6


def make(path: Path, n_data: int) -> None:
    """Rows of a linear regression, written part by part."""
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n_data, COLUMNS))
    rng, beta = np.random.default_rng(0), np.linspace(-1, 1, COLUMNS - 1, dtype=np.float32)
    for start in range(0, n_data, PART):
        part = rng.standard_normal((min(PART, n_data - start), COLUMNS), dtype=np.float32)
        part[:, -1] += part[:, :-1] @ beta
        rows[start : start + PART] = part
    rows.flush()


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    rows = dataset["rows"]
    return -0.5 * tf.reduce_sum((rows[:, -1] - tf.linalg.matvec(rows[:, :-1], params["beta"])) ** 2)


def own_memory() -> float:
    """Resident bytes of the process that are not pages of files, in MB."""
    memory = psutil.Process().memory_full_info()
    return (memory.rss - memory.shared) / 1e6


def forget(path: Path, rows: np.memmap) -> None:
    """Ask the system to drop the file from its cache."""
    rows._mmap.madvise(mmap.MADV_DONTNEED)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5 * 10**7)
    parser.add_argument("--iterations", type=int, default=10**5)
    arguments = parser.parse_args()
    path = arguments.folder / f"rows{arguments.rows}.npy"
    if not path.exists():
        make(path, arguments.rows)
    dataset, n_data = {"rows": np.load(path, mmap_mode="r")}, arguments.rows
    params, eps = {"beta": np.zeros(COLUMNS - 1)}, 0.1 / n_data

    warm_up = {"rows": np.zeros((1000, COLUMNS), np.float32)}
    sgldcv(log_lik, warm_up, params, 1e-6, 1e-6, minibatchSize=500, nIters=10, nItersOpt=10, verbose=False)
    before, started = own_memory(), time.perf_counter()
    out = sgldcv(log_lik, dataset, params, eps, 0.1 / n_data, minibatchSize=500, nIters=arguments.iterations, seed=1)
    print(f"whole run: {time.perf_counter() - started:.0f} s, {out.timings}")
    print(f"memory: {own_memory() - before:.0f} MB beyond the {before:.0f} MB of TensorFlow and a small run")
    print(f"draws: {sum(x.nbytes for x in out.values()) / 1e6:.0f} MB")
    sampler = sgldSetup(log_lik, dataset, params, eps, minibatchSize=500, seed=1)
    sess = initSess(sampler)
    for cache in ("cold", "warm"):
        sgmcmcStep(sampler, sess, nSteps=256)
        if cache == "cold":
            forget(path, dataset["rows"])
        started = time.perf_counter()
        sgmcmcStep(sampler, sess, nSteps=2048)
        print(f"{cache} cache: {(time.perf_counter() - started) / 2048 * 1e6:.0f} us per iteration of 500 rows")


if __name__ == "__main__":
    main()
