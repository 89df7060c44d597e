"""Tables that sum up draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.output import tuning
from sgmcmc.output._elements import label
from sgmcmc.output._table import table

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.output.draws import Draws


def summary(draws: Draws, names: str | Sequence[str] | None = None, diagnosed: bool = True) -> pd.DataFrame:
    """The table described in `Draws.summary`."""
    if not draws:
        raise ValueError("summary needs draws, and none are stored; with reduce=, collect= says what is stored.")
    if not len(draws.iterations):
        raise ValueError("summary needs draws, and there are none.")
    result = table(draws, names, diagnosed)
    for column, values in _of_tuning(draws, list(result.index)).items():
        result[column] = values
    return result


def _of_tuning(draws: Draws, labels: list[str]) -> dict[str, list[float]]:
    """The columns that tell how well the sampler is tuned, with a value for each of these rows."""
    averages, settings = tuning.of_draws(draws), draws.settings
    columns: dict[str, list[float]] = {}
    if hot := tuning.temperatures(averages, settings):
        right = {name: tuning.right_temperature(settings, name) for name in hot}
        names = [_owner(label, hot) or max(hot, key=lambda name: abs(hot[name].mean - right[name])) for label in labels]
        columns |= _band("kinetic_temperature", "temperature", [hot[name] for name in names])
        columns["temperature_right"] = [right[name] for name in names]
    if wide := tuning.variance_ratios(averages, settings):
        names = [_owner(label, wide) or max(wide, key=lambda name: abs(wide[name].mean - 1)) for label in labels]
        columns |= _band("variance_ratio", "variance_ratio", [wide[name] for name in names])
    if expected := settings.get("expected"):
        ratios = {
            label(name, index): float(ratio)
            for name, values in expected["sdRatio"].items()
            for index, ratio in np.ndenumerate(np.asarray(values))
        }
        columns["expected_sd_ratio"] = [ratios.get(row, np.nan) for row in labels]
    return columns


def _band(column: str, stem: str, bands: list[tuning.Band]) -> dict[str, list[float]]:
    return {
        column: [band.mean for band in bands],
        f"{stem}_0.5%": [band.low for band in bands],
        f"{stem}_99.5%": [band.high for band in bands],
    }


def _owner(label: str, of_parameters: Mapping[str, tuning.Band]) -> str | None:
    """The parameter of an element, by its label such as theta[0, 1]; None for what `collect` made."""
    name = label if label in of_parameters else label.rpartition("[")[0]
    return name if name in of_parameters else None
