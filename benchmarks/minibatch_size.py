"""Time per effective draw with minibatchSize="auto" and with other sizes.

    python benchmarks/minibatch_size.py --data FOLDER --output TABLE.md      # about ten minutes

Three logistic regressions by `sgldcv` with four chains: covertype, a million simulated rows, and rare categories. The
first run of a size is short, and compiles. Then the sizes run in turn, ROUNDS times, of which the table has medians.
The time is that of the iterations, divided by the effective sample size of the slowest coefficient.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from covertype import load

from sgmcmc import sgldcvSetup
from sgmcmc.arguments.signatures import RUN_DEFAULTS

ROUNDS, DRAWS, FEWEST = 3, 400, 20_000  # FEWEST: iterations; DRAWS: effective draws, at least
FACTORS = (1 / 4, 1 / 2, 1, 2, 4, 8)
RARE = (0.5, 0.1, 0.03, 0.01, 0.003, 0.001)


def logLik(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["X"], params["beta"])
    return dataset["y"] * eta - tf.math.softplus(eta)


def logPrior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["beta"] ** 2) / 10


def made_up(x: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    beta = np.linspace(-1, 1, x.shape[1])
    return {"X": x.astype(np.float32), "y": (rng.random(len(x)) < 1 / (1 + np.exp(-x @ beta))).astype(np.float32)}


def problems(folder: Path | None) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    found = {} if folder is None else {"covertype": load(str(folder / "covertype_subset.npz"))[0]}
    found["a million rows"] = made_up(rng.normal(size=(10**6, 20)) / 3, rng)
    found["rare categories"] = made_up(np.column_stack([np.ones(10**5), rng.random((10**5, 6)) < RARE]), rng)
    return found


def sampler_of(dataset: dict[str, np.ndarray], size: int | str) -> Any:
    params = {"beta": np.zeros(dataset["X"].shape[1])}
    sampler = sgldcvSetup(logLik, dataset, params, logPrior=logPrior, minibatchSize=size, nChains=4, seed=1)
    out = sampler.run(10, False, **RUN_DEFAULTS)
    expected = out.settings["expected"]["iterations"]
    n_iters = max(int(np.ceil(DRAWS / 4 * expected)), FEWEST)
    return sampler, n_iters, out.settings["minibatchSize"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| problem | n | ms for an effective draw | over the best |", "|---|---:|---:|---:|"]
    for name, dataset in problems(arguments.data).items():
        *_, chosen = sampler_of(dataset, "auto")
        sizes = sorted({int(np.clip(round(chosen * f), 1, len(dataset["y"]))) for f in FACTORS})
        samplers = {n: sampler_of(dataset, n) for n in sizes}
        times: dict[int, list[float]] = {n: [] for n in sizes}
        for _ in range(ROUNDS):
            for n, (sampler, n_iters, _) in samplers.items():
                out = sampler.run(n_iters, False, **RUN_DEFAULTS)
                times[n].append(1e3 * out.timings["sampling"] / out.summary()["ess_bulk"].min())
        each = {n: float(np.median(of)) for n, of in times.items()}
        for n, value in each.items():
            mark = " (auto)" if n == chosen else ""
            lines.append(f"| {name} | {n}{mark} | {value:.2f} | {value / min(each.values()):.2f} |")
            print(lines[-1], flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
