"""Four chains on the covertype data: the summary table, and the four plots.

    python benchmarks/covertype_chains.py covertype_subset.npz       # writes benchmarks/figures/covertype_*.png

The file is that of covertype.py. The covariates are nine standardised numeric columns and the areas other than the
first. With all 54 columns of covertype.py, only the prior identifies the intercept against the sums of the areas and
of the soils, and the third hillshade against the others; no chain of this length mixes along these directions. The run
also collects the log loss on the held-out rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf
from covertype import load, log_lik, log_prior

import sgmcmc

FIGURES = Path(__file__).parent / "figures"
N_ITERS, BURN_IN, THIN = 12_000, 2_000, 2
NUMERIC = [0, 1, 2, 3, 4, 5, 6, 7, 9]


def standardised(training: dict, held_out: dict) -> tuple[dict, dict]:
    columns = training["X"][:, NUMERIC]
    mean, sd = columns.mean(axis=0), columns.std(axis=0)
    return tuple(
        {"X": np.hstack([(data["X"][:, NUMERIC] - mean) / sd, data["X"][:, 11:14]]), "y": data["y"]}
        for data in (training, held_out)
    )


def main(path: str) -> None:
    training, held_out = standardised(*load(path))
    test = {name: tf.constant(array) for name, array in held_out.items()}

    def collect(params: dict) -> dict:
        return {**params, "logLoss": -log_lik(params, test) / len(held_out["y"])}

    out = sgmcmc.sghmccv(
        log_lik, training, {"bias": 0.0, "beta": np.zeros(12)}, 2e-7, 2e-6, log_prior, 1000, alpha=0.1, L=20,
        nIters=N_ITERS, nChains=4, starts=0.02, thin=THIN, seed=1, collect=collect, verbose=False,
    )  # fmt: skip
    kept = out.burnIn(BURN_IN)
    table = kept.summary()
    with pd.option_context("display.width", 150, "display.max_columns", 20, "display.float_format", "{:.4g}".format):
        print(table)
    print(
        f"R-hat below 1.01 for {np.mean(table['r_hat'] < 1.01):.0%} of the elements; largest {table['r_hat'].max():.3f}"
    )
    print({name: round(value, 1) for name, value in out.timings.items()})
    FIGURES.mkdir(exist_ok=True)
    some = ["bias", "beta[0]", "beta[6]", "beta[7]"]
    for name, axes in {
        "trace": sgmcmc.plotTrace(kept, names=some),
        "marginals": sgmcmc.plotMarginals(kept, names=some),
        "running": sgmcmc.plotRunning(out, "logLoss", burnIn=BURN_IN),
        "pairs": sgmcmc.plotPairs(kept, names=some),
    }.items():
        np.atleast_1d(axes).flat[0].figure.savefig(FIGURES / f"covertype_{name}.png", dpi=110)
        plt.close("all")


if __name__ == "__main__":
    main(sys.argv[1])
