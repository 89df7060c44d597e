"""Tuned: the result of a search for the settings of a sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sgmcmc.draws.arviz import require_arviz
from sgmcmc.draws.panels import COLOURS, legend, panels, require_matplotlib

if TYPE_CHECKING:
    import pandas as pd


class Scored(NamedTuple):
    """A candidate after a rung."""

    candidate: int
    rung: int
    gradients: int  # of single observations, evaluated for it in this rung
    ksd: float  # infinite if it diverged
    kept: bool


def best(judged: Sequence[Scored]) -> int | None:
    """The candidate with the smallest discrepancy of those that never diverged and got furthest; None if all did."""
    lost = {row.candidate for row in judged if not np.isfinite(row.ksd)}
    passed = [row for row in judged if row.candidate not in lost]
    return min(passed, key=lambda row: (-row.rung, row.ksd)).candidate if passed else None


class Tuned:
    """The settings that a search chose, and the candidates that it tried.

    Parameters
    ----------
    sampler : str
        The name of the sampler. Only `tune` makes these objects.
    candidates : sequence of dict
    judged : sequence
    seed : int
    scale : dict, optional
        The preconditioner to which the stepsizes are relative, if `tune` was given one.

    Attributes
    ----------
    settings : dict
        The best settings, as arguments of the sampler:
        ``sgld(logLik, dataset, params, **tuned.settings)``.
    seed : int
        The seed in use; the same seed and arguments give the same choice.
    table : pandas.DataFrame
        A row for each candidate in each rung: the number of the candidate, its
        settings, the `rung` (from 1), the number of `gradients` of single observations
        that it used there, its `ksd` (infinite if it diverged), and whether it was
        `kept` for the next rung.

    Examples
    --------
    See `tune`.
    """

    def __init__(
        self,
        sampler: str,
        candidates: Sequence[Mapping[str, Any]],
        judged: Sequence[Scored],
        seed: int,
        scale: Mapping[str, Any] | None = None,
    ) -> None:
        self._sampler, self._candidates, self._judged = sampler, [dict(c) for c in candidates], list(judged)
        self.seed = seed
        chosen = best(self._judged)
        assert chosen is not None
        self._best, self.settings = chosen, {**self._candidates[chosen], **(scale or {})}

    @property
    def table(self) -> pd.DataFrame:
        """A row for each candidate in each rung; see the class."""
        require_arviz("table")
        import pandas as pd

        return pd.DataFrame(
            [
                {"candidate": row.candidate, **self._candidates[row.candidate]}
                | {"rung": row.rung, "gradients": row.gradients, "ksd": row.ksd, "kept": row.kept}
                for row in self._judged
            ]
        )

    def plot(self, axes: Any = None) -> np.ndarray:
        """Plot the kernel Stein discrepancy against the stepsize, with a line for each rung.

        There is a panel for each combination of the other settings. Crosses at the top
        are candidates that diverged, and a ring marks the choice. For a dict of
        stepsizes, the geometric mean is shown.

        Parameters
        ----------
        axes : Axes or array of Axes, optional
            The axes to draw into, one for each panel. By default those of a new figure.

        Returns
        -------
        numpy.ndarray of matplotlib.axes.Axes
            One for each panel.
        """
        plt = require_matplotlib("plot")
        first, *rest = self._candidates
        varied = [name for name in first if name != "stepsize" and any(c[name] != first[name] for c in rest)]
        others = [{name: candidate[name] for name in varied} for candidate in self._candidates]
        shown = [other for k, other in enumerate(others) if other not in others[:k]]
        n_columns = min(len(shown), 3)
        shape = (-(-len(shown) // n_columns), n_columns)
        size = (1.2 + 3.2 * n_columns, 0.8 + 2.6 * shape[0])
        grid = panels(plt, axes, "plot", len(shown), shape, figsize=size, sharey=True)
        for ax, other in zip(grid, shown, strict=True):
            self._draw(ax, {k for k, mine in enumerate(others) if mine == other})
            ax.set(xscale="log", yscale="log", xlabel="stepsize")
            ax.set_title(", ".join(f"{name}={value}" for name, value in other.items()), loc="left", fontsize="small")
        grid[0].set_ylabel("kernel Stein discrepancy")
        legend(grid, axes)
        return grid

    def _draw(self, ax: Any, candidates: set[int]) -> None:
        for rung in sorted({row.rung for row in self._judged}):
            rows = [row for row in self._judged if row.rung == rung and row.candidate in candidates]
            rows.sort(key=lambda row: self._stepsize(row.candidate))
            finite = [row for row in rows if np.isfinite(row.ksd)]
            style = {"color": COLOURS[(rung - 1) % len(COLOURS)]}
            x, y = [self._stepsize(row.candidate) for row in finite], [row.ksd for row in finite]
            ax.plot(x, y, marker="o", markersize=4, linewidth=1, label=f"rung {rung}", **style)
            lost = [self._stepsize(row.candidate) for row in rows if not np.isfinite(row.ksd)]
            if lost:
                at_top = {"transform": ax.get_xaxis_transform(), "linestyle": "none"}
                ax.plot(lost, [0.97] * len(lost), marker="x", label="diverged", **at_top, **style)
        if self._best in candidates:
            last = max((row for row in self._judged if row.candidate == self._best), key=lambda row: row.rung)
            ring = {"markerfacecolor": "none", "markersize": 10, "linestyle": "none", "color": "black"}
            ax.plot(self._stepsize(self._best), last.ksd, marker="o", label="chosen", **ring)

    def _stepsize(self, candidate: int) -> float:
        value = self._candidates[candidate]["stepsize"]
        return float(np.exp(np.mean(np.log(list(value.values()) if isinstance(value, Mapping) else value))))

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.table.to_html(border=0, max_rows=60)}"

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        total = sum(row.gradients for row in self._judged)
        rungs = max(row.rung for row in self._judged)
        return (
            f"<tuned {self._sampler}: {chosen}; {len(self._candidates)} candidates, {rungs} rungs, {total} gradients>"
        )
