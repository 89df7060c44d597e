"""The rows of a summary: each number of each parameter, with its moments, quantiles and diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.output._diagnostics import diagnostics
from sgmcmc.output._elements import Chains
from sgmcmc.output.arviz import require_arviz
from sgmcmc.output.labels import label

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.output.draws import Draws

QUANTILES = {"5%": 0.05, "50%": 0.5, "95%": 0.95}
BLOCK = 2**20  # numbers times draws in one block


def table(
    draws: Draws, names: str | Sequence[str] | None, diagnosed: bool, weights: Mapping[str, np.ndarray] | None = None
) -> pd.DataFrame:
    """A row for each number that the names stand for.

    Given weights [C, T] of the draws, without diagnostics.
    """
    require_arviz("summary")
    import pandas as pd

    chains, labels, rows = Chains(draws, "summary"), [], []
    for base, index in chains.places(names):
        shape = chains.shape(base)[len(index) :]
        labels += [label(base, index + place) for place in np.ndindex(*shape)]
        lead = (slice(None),) * (1 if draws.nChains is None else 2)
        values = np.asarray(draws[base][(*lead, *index)])
        values = values[None] if draws.nChains is None else values
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
