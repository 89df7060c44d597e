"""Checks of draws: a table and a verdict."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sgmcmc.draws import temperature
from sgmcmc.draws.convergence import RHAT
from sgmcmc.draws.elements import Chains
from sgmcmc.draws.panels import COLOURS, legend, panels, require_matplotlib
from sgmcmc.draws.summary import summary

if TYPE_CHECKING:
    import pandas as pd

    from sgmcmc.draws.draws import Draws


WANTED = 400.0  # effective draws, unless the run asks for another number
FAR = 0.7  # Pareto k
SHOWN = 3  # elements that are named
MISFIT = 0.2  # relative difference of an sd of the sandwich


class Compared(NamedTuple):
    """The comparison of the posterior with the Laplace approximation and the sandwich."""

    pareto_k: float = np.nan  # of the weights of draws from the normal distribution; NaN if it is unknown
    sd_sandwich: Any = MappingProxyType({})  # {name: [*shape]}; empty if there are too many elements for matrices
    by_data: bool = False  # whether data have most of the precision in all directions, so that the two should agree


class Check:
    """The result of `Draws.check`.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each element: `r_hat`; the effective draws `ess_bulk` and `ess_tail`;
        `mcse`, the Monte Carlo standard error of the mean in standard deviations of the
        posterior; for ``stepsize="auto"`` the standard deviation of the chain over that
        of the posterior, as predicted before the run, `expected_sd_ratio`, and as found,
        `found_sd_ratio`, relative to the normal distribution at the mode; and
        `sd_sandwich`, the standard deviation of the sandwich, for at most 2000 elements.
    paretoK : float
        The distance of the posterior from that normal distribution. Below 0.5 it is
        near, above 0.7 far. NaN if it is unknown, or for more than 2000 elements.
    tolerance : float
        The share of `tolerance` that the expected error of the standard deviations
        uses; NaN if the stepsize was given.
    problems : list of str
        The problems, each in a sentence.
    verdict : str
        The result in one sentence.
    note : str
        Where the sandwich ``J^-1 I J^-1`` differs from the posterior's covariance by more than 20% of a standard
        deviation: then the model is misspecified, and intervals need not have their
        nominal coverage (see `target` of `sgld`). Empty otherwise, and also if the prior
        has more of the precision than the data in some direction. It does not change the verdict.
    isGood : bool
        Whether there are no problems.
    """

    def __init__(self, draws: Draws, compared: Compared) -> None:
        self._sampler, settings = draws.settings["sampler"], draws.settings
        self.paretoK, expected = compared.pareto_k, settings.get("expected")
        normal_sds = _normal_sds(draws)
        self.table = _table(draws, compared, normal_sds)
        self.tolerance = float(expected["error"]) / settings["tolerance"] if expected else np.nan
        self._mcse, self._wanted = settings.get("mcse"), settings.get("ess") or WANTED
        self.problems = [*self._of_chains(), *self._of_law()]
        self.note = _of_model(draws, self.table["sd_sandwich"] / normal_sds) if compared.by_data else ""

    @property
    def isGood(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.problems:
            return f"Not good enough yet: {'; '.join(self.problems)}."
        least = self.table[["ess_bulk", "ess_tail"]].min(axis=None)
        error = self.table["mcse"].max()
        return (
            f"Good: the chains agree, every element has at least {least:.0f} effective draws, and means have Monte "
            f"Carlo errors of at most {error:.2g} posterior standard deviations."
        )

    def _of_chains(self) -> list[str]:
        table, problems = self.table, []
        if table["r_hat"].isna().all():
            problems.append("there is one chain, or too few draws, so R-hat cannot show whether chains agree")
        elif (apart := table["r_hat"][table["r_hat"] >= RHAT].sort_values(ascending=False)).size:
            problems.append(f"R-hat is {apart.iloc[0]:.3g} {_of(apart)}, where it should be below {RHAT}")
        if self._mcse is not None:
            if (wide := table["mcse"][~(table["mcse"] <= self._mcse)].sort_values(ascending=False)).size:
                problems.append(f"the Monte Carlo error is {wide.iloc[0]:.2g}, not {self._mcse:.2g}, {_of(wide)}")
            return problems
        ess = table[["ess_bulk", "ess_tail"]].min(axis=1)
        if (few := ess[~(ess >= self._wanted)].sort_values()).size:
            found = f"{few.iloc[0]:.0f} effective draws of {self._wanted:.0f}"
            unknown = "too few draws to estimate how many are effective"
            problems.append(f"there are {unknown if few.isna().all() else found} {_of(few)}")
        return problems

    def _of_law(self) -> list[str]:
        problems = []
        if self.tolerance > 1:
            problems.append("no stepsize meets the tolerance")
        distance = np.abs(np.log(self.table["found_sd_ratio"] / self.table["expected_sd_ratio"]))
        if (unlike := distance[distance > np.log1p(temperature.UNLIKE)].sort_values(ascending=False)).size:
            ratio = float(self.table["found_sd_ratio"][unlike.index[0]])
            problems.append(f"the sd is {ratio:.2g} times that of the normal distribution at the mode {_of(unlike)}")
        if self.paretoK > FAR:
            problems.append(
                f"the posterior is far from normal (Pareto k {self.paretoK:.2g}), so the error due to the stepsize is "
                "unknown: see checkStepsize"
            )
        return problems

    def plot(self, axes: Any = None) -> np.ndarray:
        """R-hat, effective draws and standard deviations of all elements, in three panels.

        Parameters
        ----------
        axes : array of Axes, optional
            Three axes to draw into. By default those of a new figure.

        Returns
        -------
        numpy.ndarray of matplotlib.axes.Axes
        """
        plt = require_matplotlib("plot")
        grid = panels(plt, axes, "plot", 3, (1, 3), figsize=(10, 3))
        at = np.arange(len(self.table))
        dots: dict[str, Any] = {"linestyle": "none", "marker": ".", "markersize": 4}
        limit: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": ":"}
        grid[0].plot(at, self.table["r_hat"], color=COLOURS[0], **dots)
        grid[0].axhline(RHAT, **limit)
        columns = ((1, "ess_bulk"), (1, "ess_tail"), (2, "expected_sd_ratio"), (2, "found_sd_ratio"))
        for colour, (panel, column) in zip(COLOURS, columns, strict=False):
            grid[panel].plot(at, self.table[column], color=colour, label=column, **dots)
        grid[1].axhline(self._wanted if self._mcse is None else self._mcse**-2.0, **limit)
        grid[1].set_ylim(bottom=0)
        grid[2].axhline(1.0, **limit)
        for ax, title in zip(grid, ("R-hat", "effective draws", "sd over that of the posterior"), strict=True):
            ax.set_title(title, loc="left", fontsize="small")
            ax.set_xlabel("element", fontsize="small")
            ax.xaxis.get_major_locator().set_params(integer=True)
        legend(grid, axes)
        return grid

    def __str__(self) -> str:
        from sgmcmc.draws.printing import lines

        width = shutil.get_terminal_size().columns
        return "\n".join([*(textwrap.fill(sentence, width) for sentence in self._sentences()), lines(self.table)])

    def _repr_html_(self) -> str:
        from sgmcmc.draws.printing import rounded

        text = "".join(f"<p>{sentence}</p>" for sentence in self._sentences())
        return text + rounded(self.table).to_html(border=0)

    def __repr__(self) -> str:
        return f"<check of {self._sampler}: {' '.join(self._sentences())}>"

    def _sentences(self) -> list[str]:
        return [self.verdict, self.note] if self.note else [self.verdict]


def _table(draws: Draws, compared: Compared, normal_sds: np.ndarray) -> pd.DataFrame:
    of_all = summary(draws)
    table = of_all[["r_hat", "ess_bulk", "ess_tail"]].copy()
    table["mcse"] = of_all["mcse_mean"] / of_all["sd"]
    table["expected_sd_ratio"] = of_all.get("expected_sd_ratio", np.nan)
    table["found_sd_ratio"] = of_all["sd"] / normal_sds
    table["sd_sandwich"] = _of_rows(draws, compared.sd_sandwich)
    return table


def _normal_sds(draws: Draws) -> np.ndarray:
    """The sds of the normal distribution for which the stepsize was found, for each row."""
    expected = draws.settings.get("expected") or {"sd": {}}
    return _of_rows(draws, {name: np.divide(sd, expected["sdRatio"][name]) for name, sd in expected["sd"].items()})


def _of_rows(draws: Draws, values: Mapping[str, Any]) -> np.ndarray:
    """Values of the parameters, for each row; NaN where the chain moves other numbers."""
    chains, of_rows = Chains(draws, "check"), []
    known = set(draws.settings["parameters"]) - set(draws.settings.get("transforms", {}) or {})
    for base, _ in chains.places(None):
        shape = chains.shape(base)
        has = base in known and base in values and np.shape(values[base]) == shape
        of_rows.append(np.ravel(values[base]) if has else np.full(int(np.prod(shape)), np.nan))
    return np.concatenate(of_rows)


def _of_model(draws: Draws, ratios: pd.Series) -> str:
    """A note on misspecification, from the sandwich's sds over those of the normal distribution."""
    if not temperature.of_posterior(draws.settings) or draws.settings["temperature"] != 1:
        return ""
    distance = np.abs(np.log(ratios))
    unlike = distance[distance > np.log1p(MISFIT)].sort_values(ascending=False)
    if not unlike.size:
        return ""
    return (
        f"The sandwich sd is {ratios[unlike.index[0]]:.2g} times the posterior's sd {_of(unlike)}: the model is "
        "misspecified, and intervals need not have their nominal coverage; see target of sgld."
    )


def _of(elements: pd.Series) -> str:
    """The names of these elements, as part of a sentence."""
    more = f" and {len(elements) - SHOWN} more" if len(elements) > SHOWN else ""
    return f"for {', '.join(map(repr, elements.index[:SHOWN]))}{more}"
