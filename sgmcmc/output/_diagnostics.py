"""ArviZ's effective sample sizes, Monte Carlo errors and R-hat, for [D, C, T]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sgmcmc.output.arviz import require_arviz

SHORTEST = 4  # draws: fewer have no diagnostics
TAILS = (0.05, 0.95)
AXES = {"chain_axis": 1, "draw_axis": 2}


NAMES = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")


def diagnostics(x: np.ndarray, names: Sequence[str] = NAMES) -> dict[str, np.ndarray]:
    """These diagnostics, each [D].

    NaN for fewer than SHORTEST draws, and for numbers that are NaN or infinite; R-hat for a single chain, and where all
    draws are equal.
    """
    require_arviz("summary")
    from arviz_stats.base import array_stats

    found = {name: np.full(len(x), np.nan) for name in names}
    finite = np.isfinite(x).all(axis=(1, 2))
    if x.shape[-1] < SHORTEST or not finite.any():
        return found
    x = x[finite]
    of: dict[str, Callable[[], Any]] = {
        "mcse_mean": lambda: array_stats.mcse(x, method="mean", **AXES),
        "mcse_sd": lambda: array_stats.mcse(x, method="sd", **AXES),
        "ess_bulk": lambda: array_stats.ess(x, method="bulk", **AXES),
        "ess_tail": lambda: array_stats.ess(x, method="tail", prob=TAILS, **AXES),
        "r_hat": lambda: array_stats.rhat(x, method="rank", **AXES) if x.shape[1] > 1 else np.nan,
    }
    with np.errstate(invalid="ignore"):
        for name in names:
            found[name][finite] = of[name]()
    return found


def errors_of_means(x: np.ndarray) -> np.ndarray:
    """The Monte Carlo standard errors of the means, [D].

    NaN for fewer than SHORTEST draws.
    """
    from arviz_stats.base import array_stats

    if x.shape[-1] < SHORTEST:
        return np.full(len(x), np.nan)
    return np.asarray(array_stats.mcse(x, method="mean", **AXES), np.float64)
