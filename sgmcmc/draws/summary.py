"""Tables that summarise draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.core.errors import require_flag
from sgmcmc.draws import elements as labels
from sgmcmc.draws import temperature
from sgmcmc.draws.arviz import require_arviz
from sgmcmc.draws.convergence import diagnostics
from sgmcmc.draws.elements import Chains, label, refused, require_stored

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.draws.draws import Draws


QUANTILES = {"5%": 0.05, "50%": 0.5, "95%": 0.95}
BLOCK = 2**20  # numbers times draws in one block
TIME = "time"  # the statistic of a dynamics whose draws stand for different times
UNKNOWN = temperature.Band(np.nan, np.nan, np.nan)  # for a parameter whose dynamics records no statistic


def table(
    draws: Draws, names: str | Sequence[str] | None, diagnosed: bool, weights: Mapping[str, np.ndarray] | None = None
) -> pd.DataFrame:
    """A row for each number that the names stand for; without diagnostics given `weights` [C, T] of the draws."""
    require_arviz("summary")
    import pandas as pd

    chains, labels, rows = Chains(draws, "summary"), [], []
    for base, index in chains.places(names):
        shape = chains.shape(base)[len(index) :]
        labels += [label(base, index + place) for place in np.ndindex(*shape)]
        values = np.asarray(chains.arrays[base][(slice(None), slice(None), *index)])
        by_number = np.moveaxis(values.reshape(*values.shape[:2], -1), -1, 0)  # [D, C, T]
        step = max(1, BLOCK // (values.shape[0] * values.shape[1]))
        of_draws = None if weights is None else weights[base]
        rows += [_rows(by_number[at : at + step], diagnosed, of_draws) for at in range(0, len(by_number), step)]
    if not rows:
        raise ValueError(f"names of summary must stand for at least one number; got {names!r}.")
    return pd.DataFrame({name: np.concatenate([block[name] for block in rows]) for name in rows[0]}, index=labels)


def _rows(values: np.ndarray, diagnosed: bool, weights: np.ndarray | None) -> dict[str, np.ndarray]:
    x = np.ascontiguousarray(values, np.float64)
    flat = x.reshape(len(x), -1)
    if weights is not None:
        return _weighted(flat, weights.ravel())
    quantiles = np.quantile(flat, list(QUANTILES.values()), axis=1)
    with np.errstate(invalid="ignore"):
        moments = {"mean": flat.mean(axis=1), "sd": flat.std(axis=1)}
    moments |= dict(zip(QUANTILES, quantiles, strict=True))
    return moments | diagnostics(x) if diagnosed else moments


def _weighted(flat: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Mean, sd and quantiles of weighted draws [D, C T]."""
    w = weights / weights.sum()
    mean = flat @ w
    quantiles = np.quantile(flat, list(QUANTILES.values()), axis=1, weights=w, method="inverted_cdf")
    sd = np.sqrt((flat - mean[:, None]) ** 2 @ w)
    return {"mean": mean, "sd": sd} | dict(zip(QUANTILES, quantiles, strict=True))


def summary(
    draws: Draws, names: str | Sequence[str] | None = None, diagnosed: bool = True, weighted: bool | None = None
) -> pd.DataFrame:
    """The table described in `Draws.summary`."""
    weighted = TIME in draws.groups.get("sample_stats", {}) if weighted is None else weighted
    for argument, value in (("diagnostics", diagnosed), ("weighted", weighted)):
        require_flag(argument, "summary", value)
    require_stored(draws, "summary")
    if not len(draws.iterations):
        raise ValueError("summary needs draws; there are none.")
    from sgmcmc.draws.printing import Summary  # here, since it imports pandas

    words = labels.rows(draws)
    if weighted:
        return Summary(table(draws, names, False, weights_of(draws)).rename(index=words))
    result = table(draws, names, diagnosed)
    for column, values in _of_tuning(draws, list(result.index)).items():
        result[column] = values
    return Summary(result.rename(index=words))


def weights_of(draws: Draws) -> dict[str, np.ndarray]:
    """The weights of the draws of each array, [C, T]: their times, or else their stepsizes.

    See Teh, Thiery & Vollmer 2016, eq. 5.
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
            must = f"be False for {name!r}, which collect made of parameters with different stepsizes"
            raise refused("summary", "weighted", must, True)
        weights[name] = of_parameters.get(name, eps[..., 0])
        if not weights[name].any():
            raise refused("summary", "weighted", f"be False where all draws of {name!r} explore", True)
    return weights


def _of_tuning(draws: Draws, elements: list[str]) -> dict[str, list[float]]:
    """The columns on the tuning of the sampler, with a value for each of these rows."""
    averages, settings = temperature.of_draws(draws), draws.settings
    owners = [_owner(row, settings["parameters"]) for row in elements]
    columns: dict[str, list[float]] = {}
    if hot := temperature.temperatures(averages, settings):
        right = {name: temperature.right_temperature(settings, name) for name in hot}
        names = _with_farthest(owners, hot, right)
        columns |= _band("kinetic_temperature", "temperature", [hot.get(name, UNKNOWN) for name in names])
        columns["temperature_right"] = [right.get(name, np.nan) for name in names]
    if wide := temperature.variance_ratios(averages, settings):
        names = _with_farthest(owners, wide, dict.fromkeys(wide, 1.0))
        columns |= _band("variance_ratio", "variance_ratio", [wide.get(name, UNKNOWN) for name in names])
    if expected := settings.get("expected"):
        ratios = {
            label(name, index): float(ratio)
            for name, values in expected["sdRatio"].items()
            for index, ratio in np.ndenumerate(np.asarray(values))
        }
        for name in settings.get("transforms", {}):  # its elements are not those that the chain moves
            largest = float(np.max(expected["sdRatio"][name]))
            ratios |= {row: largest for row, owner in zip(elements, owners, strict=True) if owner == name}
        columns["expected_sd_ratio"] = [ratios.get(row, np.nan) for row in elements]
    return columns


def _with_farthest(
    owners: list[str | None], bands: dict[str, temperature.Band], right: Mapping[str, float]
) -> list[str]:
    """The parameter of each row; for a result of `collect` the one farthest from its right value."""
    farthest = max(bands, key=lambda name: abs(bands[name].mean - right[name]))
    return [owner or farthest for owner in owners]


def _band(column: str, stem: str, bands: list[temperature.Band]) -> dict[str, list[float]]:
    mean, low, high = map(list, zip(*bands, strict=True))
    return {column: mean, f"{stem}_0.5%": low, f"{stem}_99.5%": high}


def _owner(element: str, of_parameters: Sequence[str]) -> str | None:
    """The parameter of an element, by its name such as theta[0, 1]; None for a result of `collect`."""
    name = element if element in of_parameters else element.rpartition("[")[0]
    return name if name in of_parameters else None
