"""Effect of shards on means and standard deviations, measured against chains on all data, and predicted.

    python benchmarks/shards.py covertype_subset.npz --output TABLE.md      # six minutes

The logistic regression of `covertype.py`, with 55 coefficients, on 20,000 observations in four shards: split at random,
or sorted by the first column, the elevation, so that some kinds of soil and wilderness are in some shards only.
`sgldcv` runs with preconditioner="dense" and 16 chains, with a hop every 1, 5 and 100 iterations, and without shards.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from automatic import normal_prior
from covertype import load, log_lik
from executors import table

import sgmcmc

N, SHARDS, HOPS = 20_000, 4, (1, 5, 100)
RUN = {"minibatchSize": 1000, "nIters": 20_000, "burnIn": 1000, "thin": 5, "nChains": 16, "seed": 1, "verbose": False}
HEADER = ["shards", "hop", "error of a mean, sds", "ratios of sds", "predicted", "warned", "R-hat", "seconds"]


def elements(out: sgmcmc.Draws) -> np.ndarray:
    """The draws of all elements, [chains, draws, elements]."""
    return np.concatenate([out[name].reshape(*out[name].shape[:2], -1) for name in sorted(out)], axis=2)


def expected(out: sgmcmc.Draws) -> np.ndarray:
    """The predicted sds of all elements, relative to those of the posterior."""
    return np.concatenate([np.ravel(x) for _, x in sorted(out.settings["expected"]["sdRatio"].items())])


def run(dataset: Any) -> tuple[sgmcmc.Draws, float, bool]:
    """The draws, the seconds, and whether there was a warning about the shards."""
    params = {"beta": np.zeros(54), "bias": 0.0}
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = sgmcmc.sgldcv(log_lik, dataset, params, logPrior=normal_prior(1), preconditioner="dense", **RUN)
    return out, time.perf_counter() - started, any("the shards of" in str(one.message) for one in caught)


def between(x: np.ndarray) -> str:
    return f"{x.min():.2f} to {x.max():.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="covertype_subset.npz")
    parser.add_argument("--output", type=Path, help="where the table is written")
    parser.add_argument("--quick", action="store_true", help="few iterations, to check that everything works")
    arguments = parser.parse_args()
    if arguments.quick:
        RUN.update(nIters=600, burnIn=100)
    data = {name: x[:N] for name, x in load(arguments.file)[0].items()}  # already in random order
    orders = {"random": np.arange(N), "sorted": np.argsort(data["X"][:, 0], kind="stable")}
    whole, seconds, _ = run(data)
    mean, sd = elements(whole).mean(axis=(0, 1)), elements(whole).std(axis=(0, 1))
    rows = [["none", "", "", "", between(expected(whole)), "", f"{np.max(r_hat(whole)):.3f}", f"{seconds:.0f}"]]
    for name, order in orders.items():
        parts = [{key: x[at] for key, x in data.items()} for at in np.array_split(order, SHARDS)]
        for hop in HOPS:
            out, seconds, warned = run(sgmcmc.shards(parts, hop))
            draws = elements(out)
            rows.append([
                name,
                str(hop),
                f"{np.max(np.abs(draws.mean(axis=(0, 1)) - mean) / sd):.2f}",
                between(draws.std(axis=(0, 1)) / sd),
                between(expected(out) / expected(whole)),
                "yes" if warned else "no",
                f"{np.max(r_hat(out)):.3f}",
                f"{seconds:.0f}",
            ])  # fmt: skip
            print(rows[-1], flush=True)
    found = table([HEADER, *rows]) + "\n"
    print(found)
    if arguments.output:
        arguments.output.write_text(found)


def r_hat(out: sgmcmc.Draws) -> np.ndarray:
    """R-hat of all elements."""
    return out.summary()["r_hat"].to_numpy()


if __name__ == "__main__":
    main()
