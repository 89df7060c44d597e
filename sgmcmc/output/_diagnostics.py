"""ArviZ's effective sample sizes, Monte Carlo errors and R-hat of many chains of numbers, [D, C, T]."""

from __future__ import annotations

import numpy as np

from sgmcmc.output.arviz import require_arviz

SHORTEST = 4  # draws: fewer have no diagnostics
TAILS = (0.05, 0.95)


def diagnostics(x: np.ndarray) -> dict[str, np.ndarray]:
    """mcse_mean, mcse_sd, ess_bulk, ess_tail and r_hat, each [D]; NaN of too few draws, and of what is not finite."""
    require_arviz("summary")
    from arviz_stats.base import array_stats

    axes = {"chain_axis": 1, "draw_axis": 2}
    names = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")
    found = {name: np.full(len(x), np.nan) for name in names}
    finite = np.isfinite(x).all(axis=(1, 2))
    if x.shape[-1] < SHORTEST or not finite.any():
        return found
    x = x[finite]
    values = (
        array_stats.mcse(x, method="mean", **axes),
        array_stats.mcse(x, method="sd", **axes),
        array_stats.ess(x, method="bulk", **axes),
        array_stats.ess(x, method="tail", prob=TAILS, **axes),
        array_stats.rhat(x, method="rank", **axes) if x.shape[1] > 1 else np.full(len(x), np.nan),
    )
    for name, value in zip(names, values, strict=True):
        found[name][finite] = value
    return found
