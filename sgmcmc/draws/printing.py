"""Printing of tables and draws: in 80 columns, with as many digits as the Monte Carlo error allows."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from sgmcmc.draws.draws import Draws


DIGITS = {"ess_bulk": 0, "ess_tail": 0, "r_hat": 3, "mcse": 3, "expected_sd_ratio": 2, "found_sd_ratio": 2}
COLUMNS = ("mean", "sd", "5%", "95%", *DIGITS, "sd_sandwich")  # of a summary, and of a check
ROWS = 10  # of draws; their summary shows all
SHORTEST, LONG = 12, 1e7  # the least width of names that are cut; numbers from here on are in scientific notation


class Summary(pd.DataFrame):
    """A table with more columns than it prints; parts of it are ordinary data frames."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return "\n".join(filter(None, (lines(self), self._more())))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return f"{rounded(self).to_html(border=0)}<p>{self._more()}</p>"

    def _more(self) -> str:
        more = [name for name in self.columns if name not in COLUMNS]
        return f"{len(more)} more columns, which list(table) names." if more else ""


def draws_as_text(draws: Draws) -> str:
    table, more = _of_first(draws)
    return "\n".join(filter(None, (_title(draws), "" if table is None else lines(table), more)))


def draws_as_html(draws: Draws) -> str:
    table, more = _of_first(draws)
    return f"<p>{_title(draws)}</p>{'' if table is None else rounded(table).to_html(border=0)}<p>{more}</p>"


def _of_first(draws: Draws) -> tuple[pd.DataFrame | None, str]:
    """The summary of the first elements, and a sentence on the others."""
    from sgmcmc.draws.elements import Chains, label

    if not draws or not len(draws.iterations):
        return None, f"No draws are stored{f'; reduced: {list(draws.reduced)}' if draws.reduced else ''}."
    chains = Chains(draws, "print")
    shapes = {name: chains.shape(name) for name in draws}
    names = [label(name, place) for name, shape in shapes.items() for place in islice(np.ndindex(*shape), ROWS)]
    more = sum(int(np.prod(shape)) for shape in shapes.values()) - ROWS
    return draws.summary(names[:ROWS], weighted=False), f"{more} more elements: see summary()." if more > 0 else ""


def _title(draws: Draws) -> str:
    chains = f"{draws.nChains} chains of " if draws.nChains else ""
    return f"{chains}{len(draws.iterations)} draws of {draws.settings['sampler']}, seed {draws.seed}"


def facts_as_html(title: str, facts: Mapping[str, Any]) -> str:
    return f"<p>{escape(title)}</p>{pd.Series(facts, dtype=object).to_frame('').to_html(border=0, header=False)}"


def lines(table: pd.DataFrame) -> str:
    """A table in the width of the terminal, with headings in two lines, as in Stan."""
    words = rounded(table)
    heads = [(name, "") if name == "r_hat" else name.partition("_")[::2] for name in words]
    above = [("", *(head[k] for head in heads)) for k in (0, 1)]
    rows = [*above, *((str(name), *row) for name, row in zip(words.index, words.to_numpy(), strict=True))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads) + 1)]
    over = sum(widths) + 2 * len(heads) - shutil.get_terminal_size().columns
    widths[0] = min(widths[0], max(widths[0] - over, SHORTEST))
    of_rows = (
        f"{_cut(name, widths[0]):<{widths[0]}}" + "".join(f"  {x:>{w}}" for x, w in zip(row, widths[1:], strict=True))
        for name, *row in rows
    )
    return "\n".join(filter(None, map(str.rstrip, of_rows)))


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """The main columns of the first and last rows as text, moments to the first digit of their Monte Carlo error."""
    most = pd.get_option("display.max_rows") or len(table)
    if len(table) > most:
        ends = [rounded(table.iloc[: most // 2]), rounded(table.iloc[-(most // 2) :])]
        return pd.concat([ends[0], pd.DataFrame("", index=["..."], columns=ends[0].columns), ends[1]])
    columns = {name: np.asarray(table[name], np.float64) for name in COLUMNS if name in table}
    unknown = np.full(len(table), np.nan)
    sd, of_mean = columns.get("sd", unknown), table.get("mcse_mean", unknown)
    errors = {"sd": table.get("mcse_sd", unknown), "mean": of_mean, "5%": of_mean, "95%": of_mean}
    places = {
        name: [DIGITS[name]] * len(table) if name in DIGITS else _places(np.asarray(errors.get(name, unknown)), x, sd)
        for name, x in columns.items()
    }
    return pd.DataFrame(
        {name: [_number(*one) for one in zip(x, places[name], strict=True)] for name, x in columns.items()},
        index=table.index,
    )


def _places(error: np.ndarray, x: np.ndarray, sd: np.ndarray) -> list[int]:
    """Decimal places up to the first digit of the error; where it is not known, of a hundredth of the sd, or of x."""
    size = np.ones(len(x))
    for scale in (np.abs(x) / 100, sd / 100, error):
        size = np.where(np.isfinite(scale) & (scale > 0), scale, size)
    return np.clip(-np.floor(np.log10(size)), 0, 12).astype(int).tolist()


def _number(x: float, places: int) -> str:
    if not np.isfinite(x):
        return "-" if np.isnan(x) else str(x)
    return f"{x:.{places}f}" if abs(x) < LONG else f"{x:.4g}"


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 2]}.."
