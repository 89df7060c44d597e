"""Tables that summarise draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.core.checks import require_flag
from sgmcmc.output import labels, tuning
from sgmcmc.output._table import table
from sgmcmc.output.labels import label

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.output.draws import Draws


TIME = "time"  # the statistic of a dynamics whose draws stand for different times
UNKNOWN = tuning.Band(np.nan, np.nan, np.nan)  # for a parameter whose dynamics records no statistic


def summary(
    draws: Draws, names: str | Sequence[str] | None = None, diagnosed: bool = True, weighted: bool | None = None
) -> pd.DataFrame:
    """The table described in `Draws.summary`."""
    weighted = TIME in draws.groups.get("sample_stats", {}) if weighted is None else weighted
    for argument, value in (("diagnostics", diagnosed), ("weighted", weighted)):
        require_flag(argument, "summary", value)
    if not draws:
        raise ValueError(
            "summary needs draws, but none are stored: reduce= keeps only sums, in out.reduced. Add collect= to store "
            "draws."
        )
    if not len(draws.iterations):
        raise ValueError("summary needs draws; there are none.")
    from sgmcmc.output.shown import Summary  # here, since it imports pandas

    words = labels.rows(draws)
    if weighted:
        return Summary(table(draws, names, False, weights_of(draws)).rename(index=words))
    result = table(draws, names, diagnosed)
    for column, values in _of_tuning(draws, list(result.index)).items():
        result[column] = values
    return Summary(result.rename(index=words))


def weights_of(draws: Draws) -> dict[str, np.ndarray]:
    """The weights of the draws of each array, [C, T], which are their times, or else their stepsizes.

    See Teh, Thiery & Vollmer 2016, eq. 5.

    Raises
    ------
    ValueError
        If `collect` made draws from parameters with different stepsizes, or if all
        weights are 0.
    """
    stats, parameters = draws.groups.get("sample_stats", {}), draws.settings["parameters"]
    lead = next(iter(draws.groups["posterior"].values())).shape[:2]
    given = next((stats[key] for key in (TIME, "step_size") if key in stats), np.ones((*lead, len(parameters))))
    eps = np.asarray(given, np.float64)
    if "exploring" in stats:
        explores = np.nan_to_num(np.asarray(stats["exploring"], np.float64)).any(axis=-1, keepdims=True)
        eps = eps * ~explores  # while one parameter explores, the joint draw is not from the posterior
    of_parameters = {name: eps[..., k] for k, name in enumerate(parameters)}
    weights = {}
    for name in draws:
        if name not in of_parameters and (eps != eps[..., :1]).any():
            raise ValueError(
                f"weighted of summary must be False for {name!r}, which collect made of parameters with different "
                "stepsizes; got True."
            )
        weights[name] = of_parameters.get(name, eps[..., 0])
        if not weights[name].any():
            raise ValueError(f"weighted of summary must be False where all draws of {name!r} explore; got True.")
    return weights


def _of_tuning(draws: Draws, elements: list[str]) -> dict[str, list[float]]:
    """The columns on the tuning of the sampler, with a value for each of these rows."""
    averages, settings = tuning.of_draws(draws), draws.settings
    columns: dict[str, list[float]] = {}
    if hot := tuning.temperatures(averages, settings):
        right = {name: tuning.right_temperature(settings, name) for name in hot}
        worst = max(hot, key=lambda name: abs(hot[name].mean - right[name]))
        names = [_owner(row, settings["parameters"]) or worst for row in elements]
        columns |= _band("kinetic_temperature", "temperature", [hot.get(name, UNKNOWN) for name in names])
        columns["temperature_right"] = [right.get(name, np.nan) for name in names]
    if wide := tuning.variance_ratios(averages, settings):
        worst = max(wide, key=lambda name: abs(wide[name].mean - 1))
        names = [_owner(row, settings["parameters"]) or worst for row in elements]
        columns |= _band("variance_ratio", "variance_ratio", [wide.get(name, UNKNOWN) for name in names])
    if expected := settings.get("expected"):
        ratios = {
            label(name, index): float(ratio)
            for name, values in expected["sdRatio"].items()
            for index, ratio in np.ndenumerate(np.asarray(values))
        }
        for name in settings.get("transforms", {}):  # its elements are not those that the chain moves
            largest = float(np.max(expected["sdRatio"][name]))
            ratios |= {row: largest for row in elements if _owner(row, settings["parameters"]) == name}
        columns["expected_sd_ratio"] = [ratios.get(row, np.nan) for row in elements]
    return columns


def _band(column: str, stem: str, bands: list[tuning.Band]) -> dict[str, list[float]]:
    return {
        column: [band.mean for band in bands],
        f"{stem}_0.5%": [band.low for band in bands],
        f"{stem}_99.5%": [band.high for band in bands],
    }


def _owner(element: str, of_parameters: Sequence[str]) -> str | None:
    """The parameter of an element, by its name such as theta[0, 1]; None for what `collect` made."""
    name = element if element in of_parameters else element.rpartition("[")[0]
    return name if name in of_parameters else None
