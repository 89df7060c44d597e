"""Host memory and megabytes per second of a chain of 10^7 iterations and 55 parameters written to a Zarr store.

    python benchmarks/storage_memory.py [iterations]      # writes benchmarks/figures/storage_memory.png

The run has its own process, whose memory is read from outside every quarter of a second.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parent / "workers"))
from cases import simulate

N_ITERS = 10**7
N = 100_000
FIGURE = Path(__file__).parent / "figures" / "storage_memory.png"


def run(path: str, n_iters: int, send: object) -> None:
    import tensorflow as tf

    import sgmcmc

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        logits = tf.linalg.matvec(dataset["x"], params["beta"]) + params["bias"]
        return tf.reduce_sum(dataset["y"] * logits - tf.nn.softplus(logits))

    out = sgmcmc.sgld(
        log_lik, simulate("logistic", N), {"bias": 0.0, "beta": np.zeros(54)}, 1e-5, minibatchSize=50, nIters=n_iters,
        seed=1, verbose=False, subsampling="withReplacement", storage=path,
    )  # fmt: skip
    send.send((out.timings["sampling"], tuple(out["beta"].shape)))


def main(n_iters: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "run.zarr")
        context = multiprocessing.get_context("spawn")
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=run, args=(path, n_iters, send))
        process.start()
        watched, began = psutil.Process(process.pid), time.perf_counter()
        memory, written = [], []
        while process.is_alive():
            memory.append((time.perf_counter() - began, watched.memory_info().rss / 1e6))
            written.append(_size(path) / 1e6)
            time.sleep(0.25)
        seconds, shape = receive.recv()
        size = _size(path) / 1e6
    times, rss = np.array(memory[:-1]).T
    stored = np.array(written[:-1])
    writing = stored > 0.05 * size
    print(f"{n_iters} iterations, beta {shape}: {size:.0f} MB in {seconds:.1f} s, {size / seconds:.1f} MB/s, "
          f"{seconds / n_iters * 1e6:.2f} us per iteration")  # fmt: skip
    slope = np.polyfit(stored[writing], rss[writing], 1)[0]
    print(
        f"memory while writing: {rss[writing].min():.0f} to {rss[writing].max():.0f} MB, {slope:+.4f} MB per MB stored"
    )
    draw(times, rss, stored)


def draw(times: np.ndarray, rss: np.ndarray, stored: np.ndarray) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    axes.plot(times, rss, label="memory of the process")
    axes.plot(times, stored, label="draws on disk")
    axes.set(xlabel="seconds", ylabel="MB", ylim=(0, None), xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=150)


def _size(path: str) -> int:
    return sum(file.stat().st_size for file in Path(path).glob("posterior/**/*") if file.is_file())


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else N_ITERS)
