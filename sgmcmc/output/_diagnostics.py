"""ArviZ's effective sample sizes, Monte Carlo errors and R-hat, for [D, C, T]."""

from __future__ import annotations

import numpy as np

from sgmcmc.output.arviz import require_arviz

SHORTEST = 4  # draws: fewer have no diagnostics
TAILS = (0.05, 0.95)
AXES = {"chain_axis": 1, "draw_axis": 2}


def diagnostics(x: np.ndarray) -> dict[str, np.ndarray]:
    """mcse_mean, mcse_sd, ess_bulk, ess_tail and r_hat, each [D].

    NaN for fewer than SHORTEST draws, and for numbers that are NaN or infinite.
    """
    require_arviz("summary")
    from arviz_stats.base import array_stats

    names = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")
    found = {name: np.full(len(x), np.nan) for name in names}
    finite = np.isfinite(x).all(axis=(1, 2))
    if x.shape[-1] < SHORTEST or not finite.any():
        return found
    x = x[finite]
    values = (
        array_stats.mcse(x, method="mean", **AXES),
        array_stats.mcse(x, method="sd", **AXES),
        array_stats.ess(x, method="bulk", **AXES),
        array_stats.ess(x, method="tail", prob=TAILS, **AXES),
        array_stats.rhat(x, method="rank", **AXES) if x.shape[1] > 1 else np.full(len(x), np.nan),
    )
    for name, value in zip(names, values, strict=True):
        found[name][finite] = value
    return found


def errors_of_means(x: np.ndarray) -> np.ndarray:
    """The Monte Carlo standard errors of the means, [D].

    NaN for fewer than SHORTEST draws.
    """
    from arviz_stats.base import array_stats

    if x.shape[-1] < SHORTEST:
        return np.full(len(x), np.nan)
    return np.asarray(array_stats.mcse(x, method="mean", **AXES), np.float64)
