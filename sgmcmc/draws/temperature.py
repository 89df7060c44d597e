"""The tuning of a chain: its temperature, and its variance over the posterior's.

Both are averages of statistics that are recorded with the draws, {name: [stretches of the chain, parameters]}. Their
bands assume that the averages of stretches are independent and normal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sgmcmc.core.errors import warn_user

if TYPE_CHECKING:
    from sgmcmc.draws.draws import Draws


Averages = Mapping[str, np.ndarray]
STATISTICS = ("kinetic_temperature", "thermostat", "variance_ratio")
# Properties of dynamics and minibatches in the settings of draws.
TEMPERATURE, VARIANCE = "kineticTemperature", "varianceOfTemperature"
INDEPENDENT = "independentMinibatches"
BATCHES = 20
TOO_HOT = 0.1  # the largest relative error of the kinetic temperature without a warning
SURE = 1.6  # half widths of the 99% band, which a correct average exceeds at most once in 10,000 times
TOO_NARROW, TOO_WIDE = 0.9, 1.4  # variance ratios; the guide's largest stepsizes with 5 leaps give 1.25
UNLIKE = 0.25  # relative error of an sd beyond which the posterior is not as expected
FEW = 100  # independent draws of all chains together, below which averages are too imprecise
STRETCH, LONGER = 5, 1.5  # of the iterations for a draw: the length of a stretch, and clearly more than expected
ELSEWHERE = 8  # expected sds between a chain and the mode, more than skewness explains
SURELY = 4.753  # the normal quantile of 1 - 1e-6
SHORT, LONG = 1000, 100_000  # fewer iterations give no warning; of more draws the last are used


class Band(NamedTuple):
    """An average, and the 99% band around it."""

    mean: float
    low: float
    high: float


def of_draws(draws: Draws) -> Averages:
    """The averages of BATCHES stretches of each chain, [C * BATCHES, P]; empty if there are fewer draws."""
    stats = draws.groups.get("sample_stats", {})
    if "exploring" in stats:  # an exploring chain has no noise, and so no temperature to judge
        return {}
    return {name: _stretches(stats[name]) for name in STATISTICS if name in stats and stats[name].shape[1] >= BATCHES}


def of_second_half(draws: Draws) -> Averages:
    """The averages of the last half of the draws, from BATCHES to LONG of them."""
    return of_draws(draws[-min(max(len(draws.iterations) // 2, BATCHES), LONG) :])


def _stretches(values: Any) -> np.ndarray:
    values = np.asarray(values, np.float64)  # [C, T, P]
    n_chains, n_draws, n_params = values.shape
    length = n_draws // BATCHES
    return values[:, n_draws - BATCHES * length :].reshape(n_chains * BATCHES, length, n_params).mean(axis=1)


def temperatures(averages: Averages, settings: Mapping[str, Any]) -> dict[str, Band]:
    """The mean of momentum^2 / stepsize for each parameter; empty without momentum."""
    return _bands(averages.get("kinetic_temperature"), settings)


def variance_ratios(averages: Averages, settings: Mapping[str, Any]) -> dict[str, Band]:
    """The chain's variance divided by the posterior's; exact for a Gaussian as the stepsize tends to 0.

    The dynamics records it, or gives it as a function of the temperature. It is not known for minibatches that are not
    independent, such as reshuffled ones: their noise depends on the earlier ones of the epoch, and most of it cancels.
    """
    temperature, linear = averages.get("kinetic_temperature"), settings.get(VARIANCE, {})
    independent = settings.get(INDEPENDENT, settings.get("subsampling") != "reshuffled")
    if not independent or not of_posterior(settings):
        return {}
    if "variance_ratio" in averages:
        return _bands(averages["variance_ratio"], settings)
    if temperature is not None and temperature.shape[1] == len(settings["parameters"]) and linear:
        a, b = np.transpose([linear.get(name, (np.nan, np.nan)) for name in settings["parameters"]])
        return _bands(a + b * temperature, settings)
    return {}


def of_posterior(settings: Mapping[str, Any]) -> bool:
    return settings.get("target", "posterior") == "posterior"


def right_temperature(settings: Mapping[str, Any], name: str) -> float:
    """The kinetic temperature of a parameter for a small stepsize and gradients without noise."""
    return settings.get(TEMPERATURE, {}).get(name, 1.0)


def _bands(values: np.ndarray | None, settings: Mapping[str, Any]) -> dict[str, Band]:
    """The bands of the parameters, from averages [stretches, parameters]."""
    from scipy.special import stdtrit  # `import sgmcmc` needs no SciPy

    names = settings["parameters"]
    if values is None or values.shape[1] != len(names):
        return {}
    mean = values.mean(axis=0)
    margin = stdtrit(len(values) - 1, 0.995) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    bands = {name: Band(m, m - d, m + d) for name, m, d in zip(names, mean.tolist(), margin.tolist(), strict=True)}
    return {name: band for name, band in bands.items() if np.isfinite(band.mean)}


def warn(averages: Averages, settings: Mapping[str, Any]) -> None:
    """Warn if the temperature of a parameter, or else its variance, is clearly wrong.

    A thermostat brings the temperature to 1 for any tuning, so with one the variance is the check.
    """
    hot, wide = temperatures(averages, settings), variance_ratios(averages, settings)
    for name in settings["parameters"]:
        message = _of_temperature(hot[name], name, "thermostat" in averages, settings) if name in hot else None
        if message is None and name in wide:
            message = _of_variance(wide[name], name, settings, "variance_ratio" in averages)
        if message is not None:
            warn_user(message)


def warn_of_length(settings: Mapping[str, Any]) -> None:
    """Warn if a run with stepsize="auto" is too short."""
    expected = settings.get("expected")
    if expected is None:
        return
    iterations = (settings["nIters"] - settings["burnIn"]) * (settings["nChains"] or 1)
    if iterations >= FEW * expected["iterations"]:
        return
    more = ""
    if expected["minibatchSize"] > settings["minibatchSize"]:
        more = f", or minibatchSize up to {expected['minibatchSize']}, with which a draw takes fewer iterations"
    n = round(iterations / expected["iterations"])
    worth = f"about {n} independent draw{'s' * (n > 1)}" if n else "less than one independent draw"
    warn_user(
        f"this run is worth {worth} in its slowest direction ({expected['iterations']:.0f} iterations for each); "
        f"it should have at least {FEW}. Increase nIters{more}."
    )


def warn_of_shape(draws: Draws) -> None:
    """Warn if a chain with stepsize="auto" is much wider or narrower than expected, and long."""
    expected, n_chains = draws.settings["expected"], draws.settings["nChains"] or 1
    if len(draws.iterations) * draws.settings["thin"] * n_chains < 2 * FEW * _shortest(draws.settings):
        return
    ratios = {}
    for name, values in draws[-LONG:].groups["posterior"].items():
        of_elements = np.asarray(values, np.float64).std(axis=(0, 1)) / np.asarray(expected["sd"][name])
        ratios[name] = float(np.ravel(of_elements)[np.argmax(np.abs(np.log(of_elements)))])
    name = max(ratios, key=lambda name: abs(np.log(ratios[name])))
    if abs(ratios[name] - 1) > UNLIKE:
        warn_user(
            f"an sd of {name!r} in this chain is {ratios[name]:.2g} times the sd expected before the run: the "
            "posterior is not close to the normal distribution with the curvature at its mode, or the chain has not "
            "settled. In both cases stepsize='auto' does not keep its tolerance: see checkStepsize and tune."
        )


def warn_of_autocorrelation(draws: Draws) -> None:
    """Warn if a chain with stepsize="auto" needs clearly more iterations for an independent draw than expected.

    The variance of averages of stretches, which are several times as long as expected for a draw, gives the number; its
    band is that of the chi-squared distribution, over all elements together.
    """
    expected, per_draw, shortest = draws.settings["expected"], draws.settings["thin"], _shortest(draws.settings)
    if "exploring" in draws.groups.get("sample_stats", {}):
        return
    late = draws[-LONG:]
    length = int(np.ceil(STRETCH * shortest / per_draw))
    n_stretches = len(late.iterations) // max(length, 1)
    if n_stretches < BATCHES:
        return
    needed = {}
    for name, values in late.groups["posterior"].items():
        flat = np.asarray(values, np.float64)
        flat = flat[:, -n_stretches * length :].reshape(len(flat), n_stretches, length, -1)
        centre = flat.mean(axis=(1, 2), keepdims=True)
        of_means = ((flat.mean(axis=2, keepdims=True) - centre) ** 2).sum(axis=(0, 1, 2)) / (n_stretches - 1)
        needed[name] = length * per_draw * of_means / ((flat - centre) ** 2).mean(axis=(1, 2)).sum(axis=0)
    degrees = (n_stretches - 1) * (draws.settings["nChains"] or 1)
    surely = {name: float(values.max()) / _chi_squared_bound(degrees) for name, values in needed.items()}
    name = max(surely, key=surely.__getitem__)
    if surely[name] > LONGER * shortest:
        about = float(needed[name].max())
        warn_user(
            f"{name!r} in this chain needs about {about:.0f} iterations for an independent draw, not the "
            f"{expected['iterations']:.0f} expected before the run: the posterior is not close to the normal "
            "distribution with the curvature at its mode, for instance skewed. So this run is worth fewer draws than "
            "it seems: see summary for the effective sample sizes, and run longer."
        )


def warn_of_places(draws: Draws, mode: Mapping[str, Any]) -> None:
    """Warn if a chain with stepsize="auto" stays far from the mode that was found."""
    expected = draws.settings["expected"]
    late = draws[-max(min(len(draws.iterations) // 2, LONG), 1) :]
    away, where = 0.0, (0, "")
    for name, values in late.groups["posterior"].items():
        means = np.asarray(values, np.float64).mean(axis=1)
        sds = np.maximum(np.asarray(expected["sd"][name]), np.finfo(np.float64).tiny)
        far = np.abs(means - np.asarray(mode[name], np.float64)) / sds
        of_chains = far.reshape(len(far), -1).max(axis=1, initial=0.0)
        if of_chains.max() > away:
            away, where = float(of_chains.max()), (int(of_chains.argmax()), name)
    if away > ELSEWHERE:
        chain, name = where
        warn_user(
            f"the mean of chain {chain} is {away:.0f} expected sds of {name!r} away from the mode that was found: the "
            "chain has not converged, or the posterior has several modes. stepsize='auto' uses only the curvature at "
            "the mode it found, and chains seldom move between modes."
        )


def _chi_squared_bound(degrees: int) -> float:
    """The 1 - 1e-6 quantile of chi-squared over its degrees, by Wilson and Hilferty."""
    part = 2 / (9 * degrees)
    return (1 - part + SURELY * np.sqrt(part)) ** 3


def _shortest(settings: Mapping[str, Any]) -> float:
    """The fewest iterations for an independent draw that stored draws can show."""
    return max(settings["expected"]["iterations"], settings["thin"])


def _of_temperature(band: Band, name: str, thermostat: bool, settings: Mapping[str, Any]) -> str | None:
    right = right_temperature(settings, name)
    off = abs(band.mean - right)
    # A tolerance of an sd is twice that of a variance, and the positions show half of the momentum's error.
    too_hot = max(TOO_HOT, 4 * settings["tolerance"]) if "expected" in settings else TOO_HOT
    if off <= too_hot * right or off <= SURE * (band.high - band.mean):
        return None
    if thermostat:
        remedy = "its thermostat has not settled: run longer"
        if band.mean > 1:
            remedy += ", or make the gradients less noisy: increase minibatchSize"
    elif band.mean > right:
        remedy = "gradient noise or a large stepsize heats it; decrease stepsize, or increase minibatchSize or alpha"
    else:
        remedy = "run longer, or decrease stepsize"
    return (
        f"the kinetic temperature of {name!r} is {band.mean:.3g} (99% band {band.low:.3g} to {band.high:.3g}), not "
        f"{right:.3g} as in a well-tuned {settings['sampler']}; {remedy}."
    )


def _of_variance(band: Band, name: str, settings: Mapping[str, Any], exactly: bool) -> str | None:
    # A ratio from the gradients is exact at any stepsize, so the tolerance of the run applies to it.
    too_wide = (1 + settings["tolerance"]) ** 2 if exactly and "expected" in settings else TOO_WIDE
    if band.high < TOO_NARROW:
        remedy = "the friction of its thermostat reduces it; decrease a or stepsize, or increase minibatchSize"
    elif band.low > too_wide and "L" in settings:
        remedy = "too few leaps inflate it; increase L"
    elif band.low > too_wide:
        remedy = "gradient noise or a large stepsize inflates it; decrease stepsize, or increase " + (
            "minibatchSize" if "optStepsize" in settings else "minibatchSize or use control variates"
        )
    else:
        return None
    return (
        f"the variance of {name!r} in this chain is about {band.mean:.3g} times the posterior's (99% band "
        f"{band.low:.3g} to {band.high:.3g}; for a normal posterior); {remedy}."
    )
