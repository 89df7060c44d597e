"""The rows of a summary: each number of each parameter, with its moments, quantiles and diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sgmcmc.output._diagnostics import diagnostics
from sgmcmc.output._elements import Chains, label
from sgmcmc.output.arviz import require_arviz

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.output.draws import Draws

QUANTILES = {"5%": 0.05, "50%": 0.5, "95%": 0.95}
BLOCK = 2**20  # draws of all numbers that are looked at together


def table(draws: Draws, names: str | Sequence[str] | None, diagnosed: bool) -> pd.DataFrame:
    """A row for each number that the names stand for."""
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
        rows += [_rows(by_number[at : at + step], diagnosed) for at in range(0, len(by_number), step)]
    if not rows:
        raise ValueError(f"names of summary must stand for at least one number; got {names!r}.")
    return pd.DataFrame({name: np.concatenate([block[name] for block in rows]) for name in rows[0]}, index=labels)


def _rows(values: np.ndarray, diagnosed: bool) -> dict[str, np.ndarray]:
    x = np.ascontiguousarray(values, np.float64)
    flat = x.reshape(len(x), -1)
    quantiles = np.quantile(flat, list(QUANTILES.values()), axis=1)
    with np.errstate(invalid="ignore"):
        moments = {"mean": flat.mean(axis=1), "sd": flat.std(axis=1)}
    moments |= dict(zip(QUANTILES, quantiles, strict=True))
    return moments | diagnostics(x) if diagnosed else moments
