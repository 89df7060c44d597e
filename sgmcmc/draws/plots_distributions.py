"""Plots of the distribution of draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sgmcmc.draws.drawing import dots, extent, marginal, reference_regions, regions
from sgmcmc.draws.draws import Draws
from sgmcmc.draws.elements import references, refused
from sgmcmc.draws.panels import Chosen, colours, legend, note, numbers, panels, require_kind, wrapped


def plotMarginals(
    draws: Draws | Mapping[str, Any],
    names: str | Sequence[str] | None = None,
    reference: Mapping[str, Any] | None = None,
    *,
    kind: str = "density",
    maxPanels: int = 12,
    axes: Any = None,
) -> np.ndarray:
    """The distribution of single elements, for each chain and for all chains together.

    Densities are kernel estimates from all draws. Their bandwidth follows Silverman's
    rule for the effective sample size, so that it allows for autocorrelation.

    Parameters
    ----------
    draws : Draws or dict of array
        What a sampler returned, without its burn-in, or a dict of arrays (T, ...) with
        T draws.
    names : str or sequence of str, optional
        Names of parameters or of their elements: "theta", "theta[0]", "theta[0, 1]". By
        default all parameters.
    reference : Draws or dict, optional
        What to compare with, by names of parameters or elements: draws of another
        sampler, an array (T, ...); or a tuple (mean, sd) of a normal distribution; or a
        function that returns the density at an array of points.
    kind : {"density", "histogram"}, default "density"
        A histogram shows all chains together.
    maxPanels : int, default 12
        The largest number of elements to show, shared evenly by the parameters.
        Elements that are named one by one are all shown.
    axes : Axes or array of Axes, optional
        The axes to draw into, one for each panel. By default those of a new figure.

    Returns
    -------
    numpy.ndarray of matplotlib.axes.Axes
        One for each panel.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it, what it got and what would work.

    See Also
    --------
    plotPairs

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import plotMarginals
    >>> chain = np.random.default_rng(0).normal([0.0, 5.0], 1.0, size=(1000, 2))
    >>> axes = plotMarginals({"theta": chain}, reference={"theta": ([0.0, 5.0], 1.0)})
    >>> [ax.get_xlabel() for ax in axes]
    ['theta[0]', 'theta[1]']
    """
    require_kind("plotMarginals", kind, ("density", "histogram"))
    plt, chains, shown, total = Chosen.by("plotMarginals", draws, names, maxPanels)
    others = references(reference, chains, shown, "plotMarginals")
    n = len(shown)
    columns = {1: 1, 2: 2, 4: 2}.get(n, 3)
    rows = -(-n // columns)
    size = (3.4, 2.4) if n == 1 else (2.1 * columns, 0.4 + 1.6 * rows)
    grid = panels(plt, axes, "plotMarginals", n, (rows, columns), figsize=size)
    for ax, element, other in zip(grid, shown, others, strict=True):
        marginal(plt, ax, element.values, other, kind)
        power = numbers(plt, ax.xaxis, 4, 26)
        ax.set_xlabel(wrapped(element.label, power, 24 if n > 1 else 40))
        _only_abscissa(ax, axes is None)
    note(grid[0], n, total)
    legend(grid, axes)
    return grid


def plotPairs(
    draws: Draws | Mapping[str, Any],
    names: str | Sequence[str] | None = None,
    reference: Mapping[str, Any] | None = None,
    *,
    kind: str = "contours",
    maxPanels: int = 5,
    axes: Any = None,
) -> np.ndarray:
    """The joint distribution of pairs of elements, and their marginals on the diagonal.

    The areas are the regions of highest density that hold 50%, 80% and 95% of the draws of all chains.

    Parameters
    ----------
    draws : Draws or dict of array
        What a sampler returned, without its burn-in, or a dict of arrays (T, ...) with
        T draws.
    names : str or sequence of str, optional
        Names of parameters or of their elements: "theta", "theta[0]", "theta[0, 1]". By
        default all parameters.
    reference : Draws or dict, optional
        What to compare with, as for `plotMarginals`. For pairs, draws of another
        sampler appear as lines around the regions of highest density that hold 50% and
        95% of them.
    kind : {"contours", "scatter"}, default "contours"
        "scatter" shows up to 2000 draws, evenly spaced, in the colours of their chains.
    maxPanels : int, default 5
        The largest number of elements to show, shared evenly by the parameters.
        Elements that are named one by one are all shown.
    axes : array of Axes, optional
        The axes to draw into, a square with a row and a column for each element. By
        default those of a new figure.

    Returns
    -------
    numpy.ndarray of matplotlib.axes.Axes
        A square array; the axes above the diagonal are invisible.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it, what it got and what would work.

    See Also
    --------
    plotMarginals

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import plotPairs
    >>> chain = np.random.default_rng(0).normal(size=(1000, 3))
    >>> axes = plotPairs({"theta": chain}, reference={"theta": chain[::-1]})
    >>> axes.shape
    (3, 3)
    """
    require_kind("plotPairs", kind, ("contours", "scatter"))
    plt, chains, shown, total = Chosen.by("plotPairs", draws, names, maxPanels)
    n = len(shown)
    if n < 2:
        raise refused("plotPairs", "names", "stand for at least two numbers", f"{shown[0].label!r} only")
    others = references(reference, chains, shown, "plotPairs")
    size = 0.6 + 1.35 * n
    grid = panels(plt, axes, "plotPairs", n * n, (n, n), figsize=(size, size)).reshape(n, n)
    limits = [extent(element.values, other) for element, other in zip(shown, others, strict=True)]
    for (i, j), ax in np.ndenumerate(grid):
        x, y = shown[j], shown[i]
        if j > i:
            ax.set_visible(False)
            continue
        if i == j:
            marginal(plt, ax, x.values, others[i], "density" if kind == "scatter" else "pooled")
            _only_abscissa(ax, axes is None)
        else:
            if kind == "scatter":
                dots(ax, x.values, y.values, colours(plt, len(x.values)))
            else:
                regions(ax, x.values, y.values)
            reference_regions(ax, others[j], others[i])
        ax.set_xlim(limits[j])
        power = numbers(plt, ax.xaxis, 3, 18)
        if i == n - 1:
            ax.set_xlabel(wrapped(x.label, power, 14))
        else:
            ax.tick_params(labelbottom=False)
        if i == j:
            continue
        ax.set_ylim(limits[i])
        power = numbers(plt, ax.yaxis, 3)
        if j == 0:
            ax.set_ylabel(wrapped(y.label, power, 14))
        else:
            ax.tick_params(labelleft=False)
    if axes is None:
        grid[0, 0].figure.align_labels()
    note(grid[0, 0], n, total)
    legend(grid.ravel(), axes)
    return grid


def _only_abscissa(ax: Any, own: bool) -> None:
    if own:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
