"""Convergence diagnostics: whether chains agree, and their effective sample size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.draws.arviz import require_arviz
from sgmcmc.draws.elements import label

SHORTEST = 4  # draws: fewer have no diagnostics
TAILS = (0.05, 0.95)
AXES = {"chain_axis": 1, "draw_axis": 2}
NAMES = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")


def diagnostics(x: np.ndarray, names: Sequence[str] = NAMES) -> dict[str, np.ndarray]:
    """These diagnostics of x [D, C, T], each [D]; NaN for fewer than SHORTEST draws and where x is not finite.

    R-hat is also NaN for a single chain, and where all draws are equal.
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
    """The Monte Carlo standard errors of the means, [D]; NaN for fewer than SHORTEST draws."""
    from arviz_stats.base import array_stats

    if x.shape[-1] < SHORTEST:
        return np.full(len(x), np.nan)
    return np.asarray(array_stats.mcse(x, method="mean", **AXES), np.float64)


RHAT = 1.01  # as Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021) recommend
APART = 1.1  # beyond it chains are in different places
SHIFT = 1.5  # by chance its sd is a third of a standard error, so this happens once in 150,000 times
BLOCK = 64  # elements
BATCHES = 20
FEWEST, LEAST = 3, 5000  # draws that are examined first: for each independent draw that is wanted, and at least


class WorstElement(NamedTuple):
    """The worst diagnostics among some elements, and the names of these elements."""

    ess: float
    ess_of: str
    rhat: float
    rhat_of: str
    shift: float  # of the mean without the first tenth of the draws, in standard errors for the wanted number of draws
    shift_of: str

    def worse(self, other: WorstElement) -> WorstElement:
        return WorstElement(
            *min(self[:2], other[:2], key=lambda pair: pair[0]),
            *max(self[2:4], other[2:4], key=lambda pair: pair[0]),
            *max(self[4:], other[4:], key=lambda pair: pair[0]),
        )

    def suffices(self, wanted: float) -> bool:
        return self.ess >= wanted and self.rhat < RHAT and self.shift < SHIFT


def worst(draws: Mapping[str, Any], wanted: float, of_means: bool) -> WorstElement:
    """The worst elements of these arrays, [C, T, ...], if all suffice; else some that do not.

    Chains that are too short are recognised early: a thinned set of draws, if it has enough independent ones, is
    examined before all draws, and slowly moving elements before the others.
    """
    n_draws = max((x.shape[0] * x.shape[1] for x in draws.values()), default=0)
    if n_draws == 0:
        name = next(iter(draws), "")
        return WorstElement(0.0, name, np.inf, name, 0.0, name)
    # By chance the largest R-hat of thousands of elements is below RHAT only if there are thousands of draws.
    for step in sorted({max(1, int(n_draws / max(FEWEST * wanted, LEAST))), 1}, reverse=True):
        found = WorstElement(np.inf, "", 1.0, "", 0.0, "")
        for labels, x in _blocks({name: np.asarray(x[:, ::step]) for name, x in draws.items()}):
            found = found.worse(_of_block(labels, x, wanted, of_means))
            if not found.suffices(wanted):
                return found
    return found


def _of_block(labels: list[str], x: np.ndarray, wanted: float, of_means: bool) -> WorstElement:
    constant = np.ptp(x, axis=(1, 2)) == 0  # such as a zero that `collect` returns
    names = ("r_hat", "mcse_mean") if of_means else ("r_hat", "ess_bulk", "ess_tail")
    late = x[:, :, x.shape[2] // 10 :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values, mean, sd = diagnostics(x, names), x.mean(axis=(1, 2)), x.std(axis=(1, 2))
        ess = (sd / values["mcse_mean"]) ** 2 if of_means else np.minimum(values["ess_bulk"], values["ess_tail"])
        shift = np.abs(mean - late.mean(axis=(1, 2))) / late.std(axis=(1, 2)) * wanted**0.5
    ess = np.where(constant, np.inf, np.nan_to_num(ess, nan=0.0, posinf=np.inf))
    rhat = np.where(constant, 1.0, np.nan_to_num(values["r_hat"], nan=np.inf, posinf=np.inf))
    shift = np.where(constant, 0.0, np.nan_to_num(shift, nan=np.inf, posinf=np.inf))
    i, j, k = int(ess.argmin()), int(rhat.argmax()), int(shift.argmax())
    return WorstElement(float(ess[i]), labels[i], float(rhat[j]), labels[j], float(shift[k]), labels[k])


def _blocks(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[list[str], np.ndarray]]:
    """The elements in blocks: their names, and [D, C, T] of float64."""
    elements = [(name, place) for name, values in arrays.items() for place in np.ndindex(*values.shape[2:])]
    slowness = np.concatenate([_slowness(values) for values in arrays.values()])
    slowest_first = [elements[k] for k in np.argsort(-slowness, kind="stable")]
    for at in range(0, len(elements), BLOCK):
        block = slowest_first[at : at + BLOCK]
        x = np.stack([arrays[name][(..., *place)] for name, place in block])
        yield [label(name, place) for name, place in block], x.astype(np.float64)


def _slowness(values: np.ndarray) -> np.ndarray:
    """The variance of batch means over that of the draws, for each element, [D]."""
    n_chains, n_draws = values.shape[:2]
    length = max(n_draws // BATCHES, 1)
    x = values[:, : n_draws // length * length].reshape(n_chains, n_draws // length, length, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        spread = x.var(axis=(0, 1, 2), dtype=np.float64)
        ratio = x.mean(axis=2, dtype=np.float64).var(axis=(0, 1)) / spread
    return np.where(spread == 0, 0.0, np.nan_to_num(ratio, nan=np.inf))
