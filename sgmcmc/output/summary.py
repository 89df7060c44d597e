"""Tables that sum up draws, and the kinetic temperature, a cheap sign of wrong tuning."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.output.arviz import require_arviz

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.output.draws import Draws

BATCHES = 20
T_QUANTILE = 2.861  # Student's t, 19 degrees of freedom, 0.995: 99% for one chain, more for several
TOLERATED = 0.1
SHORT = 1000  # draws: nothing is said of shorter chains


def summary(draws: Draws) -> pd.DataFrame:
    """The table described in `Draws.summary`."""
    require_arviz("summary")
    if not draws:
        raise ValueError("summary needs draws, and none are stored, because reduce= was given without collect=.")
    if not len(draws.iterations):
        raise ValueError("summary needs draws, and there are none.")
    import arviz_stats
    import pandas as pd

    posterior = draws.toArviz()["posterior"].to_dataset()
    posterior = posterior.map(lambda x: x.astype(np.int8) if x.dtype == bool else x)
    table = arviz_stats.summary(posterior, ci_kind="eti", ci_prob=0.9, round_to="none")
    medians = arviz_stats.summary(posterior, kind="stats_median", ci_kind="eti", ci_prob=0.9, round_to="none")
    columns = {
        "mean": table["mean"],
        "sd": table["sd"],
        "5%": table["eti90_lb"],
        "50%": medians["median"],
        "95%": table["eti90_ub"],
    }
    columns |= {name: table[name] for name in ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")}
    bands = kinetic_temperature(draws)
    if bands:
        owner = [label.split("[")[0] for label in table.index]
        rows = np.array([bands.get(name, (np.nan,) * 3) for name in owner])
        labels = ("kinetic_temperature", "temperature_0.5%", "temperature_99.5%")
        columns |= {label: pd.Series(rows[:, k], table.index) for k, label in enumerate(labels)}
    return pd.DataFrame(columns)


def kinetic_temperature(draws: Draws) -> dict[str, tuple[float, float, float]]:
    """The mean of momentum^2 / stepsize of each parameter, and the 99% band around it by means of batches.

    Empty for samplers without momentum, and for fewer draws than make batches.
    """
    stats = draws._groups.get("sample_stats", {})
    if "kinetic_temperature" not in stats or stats["lp"].shape[1] < 2 * BATCHES:
        return {}
    values = np.asarray(stats["kinetic_temperature"], np.float64)  # [C, T, P]
    n_chains, n_draws, n_params = values.shape
    length = n_draws // BATCHES
    batches = values[:, n_draws - BATCHES * length :].reshape(n_chains * BATCHES, length, n_params).mean(axis=1)
    mean = batches.mean(axis=0)
    margin = T_QUANTILE * batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    names = sorted(draws.settings["stepsize"])
    return {name: (m, m - d, m + d) for name, m, d in zip(names, mean, margin, strict=True)}


def warn_of_temperature(draws: Draws) -> None:
    """Say so if the band of a parameter lies off 1, and not by little, in the second half of the draws."""
    if len(draws.iterations) < SHORT:
        return
    for name, (mean, low, high) in kinetic_temperature(draws[len(draws.iterations) // 2 :]).items():
        if abs(mean - 1.0) > TOLERATED and not low <= 1.0 <= high:
            remedy = "decrease stepsize or increase minibatchSize" if mean > 1 else "run longer, or decrease stepsize"
            warnings.warn(
                f"the kinetic temperature of {name!r} is {mean:.3g} (99% band {low:.3g} to {high:.3g}), not 1 as in a "
                f"well-tuned {draws.settings['sampler']}; {remedy}.",
                stacklevel=6,
            )
