"""Tables that sum up draws, and the kinetic temperature, a cheap sign of wrong tuning."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.output._table import table

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.output.draws import Draws

BATCHES = 20
NORMAL_QUANTILE = 2.5758  # 0.995
TOLERATED = 0.1
SHORT, LONG = 1000, 100_000  # draws: nothing is said of shorter chains, and of longer ones their end is looked at


def summary(draws: Draws, names: str | Sequence[str] | None = None) -> pd.DataFrame:
    """The table described in `Draws.summary`."""
    if not draws:
        raise ValueError("summary needs draws, and none are stored; with reduce=, collect= says what is stored.")
    if not len(draws.iterations):
        raise ValueError("summary needs draws, and there are none.")
    result = table(draws, names)
    bands = kinetic_temperature(draws)
    if bands:
        rows = np.array([bands.get(_owner(label, bands), (np.nan,) * 3) for label in result.index])
        labels = ("kinetic_temperature", "temperature_0.5%", "temperature_99.5%")
        for k, label in enumerate(labels):
            result[label] = rows[:, k]
    return result


def _owner(label: str, names: Collection[str]) -> str:
    """The parameter of an element, by its label such as theta[0, 1]."""
    return label if label in names else label.rpartition("[")[0]


def kinetic_temperature(draws: Draws) -> dict[str, tuple[float, float, float]]:
    """The mean of momentum^2 / stepsize of each parameter, and the 99% band around it by means of batches.

    The band takes the means of 20 stretches of each chain for independent and normal.
    Empty for samplers without momentum, and for fewer draws than make batches.
    """
    stats = draws.groups.get("sample_stats", {})
    if "kinetic_temperature" not in stats or stats["kinetic_temperature"].shape[1] < 2 * BATCHES:
        return {}
    values = np.asarray(stats["kinetic_temperature"], np.float64)  # [C, T, P]
    n_chains, n_draws, n_params = values.shape
    length = n_draws // BATCHES
    batches = values[:, n_draws - BATCHES * length :].reshape(n_chains * BATCHES, length, n_params).mean(axis=1)
    mean = batches.mean(axis=0)
    margin = _t_quantile(len(batches) - 1) * batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    names = draws.settings["parameters"]
    return {name: (m, m - d, m + d) for name, m, d in zip(names, mean, margin, strict=True)}


def _t_quantile(degrees: int) -> float:
    """The 0.995 quantile of Student's t by the expansion of Cornish and Fisher; within 0.1% from 19 degrees on."""
    z = NORMAL_QUANTILE
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def warn_of_temperature(draws: Draws) -> None:
    """Say so if the band of a parameter lies off 1, and not by little, in the second half of the draws.

    A thermostat brings the mean to 1 in time, whatever the tuning; until then it moves.
    """
    n_draws = len(draws.iterations)
    if n_draws < SHORT:
        return
    for name, (mean, low, high) in kinetic_temperature(draws[-min(n_draws // 2, LONG) :]).items():
        if abs(mean - 1.0) > TOLERATED and not low <= 1.0 <= high:
            if "thermostat" in draws.sampleStats:
                remedy = "its thermostat has not settled; run longer, or increase a"
            elif mean > 1:
                remedy = "the noise of the gradients heats it; decrease stepsize or increase minibatchSize or alpha"
            else:
                remedy = "run longer, or decrease stepsize or alpha"
            warnings.warn(
                f"the kinetic temperature of {name!r} is {mean:.3g} (99% band {low:.3g} to {high:.3g}), not 1 as in a "
                f"well-tuned {draws.settings['sampler']}; {remedy}.",
                stacklevel=6,
            )
