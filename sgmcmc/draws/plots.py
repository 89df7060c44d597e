"""Plots of draws along the chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.core.errors import require_iterations
from sgmcmc.draws.drawing import REFERENCE, line, settling
from sgmcmc.draws.draws import Draws
from sgmcmc.draws.elements import Element, refused
from sgmcmc.draws.panels import (
    COLOURS,
    Chosen,
    chain_label,
    colours,
    iteration_axis,
    legend,
    note,
    numbers,
    one_quantity,
    panels,
    require_matplotlib,
    shade,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plotTrace(
    draws: Draws | Mapping[str, Any],
    names: str | Sequence[str] | None = None,
    *,
    burnIn: int = 0,
    logPosterior: bool = True,
    maxPanels: int = 8,
    axes: Any = None,
) -> np.ndarray:
    """Trace plots of the draws, with the estimated log posterior above them.

    For a long chain, only the smallest and the largest value of each short stretch are
    drawn. The plot looks the same.

    Parameters
    ----------
    draws : Draws or dict of array
        What a sampler returned, or a dict of arrays (T, ...) with T draws of any other
        chain.
    names : str or sequence of str, optional
        Names of parameters or of their elements: "theta", "theta[0]", "theta[0, 1]". By
        default all parameters.
    burnIn : int, default 0
        Number of iterations to shade.
    logPosterior : bool, default True
        Whether to show ``draws.logPosterior`` in the first panel. A plain dict has none.
    maxPanels : int, default 8
        The largest number of elements to show, shared evenly by the parameters.
        Elements that are named one by one are all shown.
    axes : Axes or array of Axes, optional
        The axes to draw into, one for each panel. By default those of a new figure.

    Returns
    -------
    numpy.ndarray of matplotlib.axes.Axes
        One for each panel, from top to bottom.

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it, what it got and what would work.

    See Also
    --------
    plotRunning, plotMarginals, plotPairs

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import plotTrace
    >>> chain = np.random.default_rng(0).normal(size=(1000, 3))
    >>> axes = plotTrace({"theta": chain}, ["theta[0]", "theta[2]"], burnIn=100)
    >>> [ax.get_title("left") for ax in axes]
    ['theta[0]', 'theta[2]']
    """
    require_iterations("burnIn", "plotTrace", burnIn)
    plt, chains, shown, total = Chosen.by("plotTrace", draws, names, maxPanels)
    if logPosterior and isinstance(draws, Draws) and "lp" in draws.sampleStats:
        estimate = np.atleast_2d(np.asarray(draws.logPosterior)).astype(np.float64)
        shown = [Element("log posterior", estimate, "", ()), *shown]
    n = len(shown)
    grid = panels(plt, axes, "plotTrace", n, (n, 1), figsize=(5, 0.6 + 1.15 * n), sharex=True)
    for ax, element in zip(grid, shown, strict=True):
        n_chains = len(element.values)
        shade(ax, chains.iterations, burnIn)
        for chain, colour in enumerate(colours(plt, n_chains)):
            label = chain_label(chain, n_chains)
            line(ax, chains.iterations, element.values[chain], color=colour, linewidth=0.5, alpha=0.7, label=label)
        power = numbers(plt, ax.yaxis, 4)
        ax.set_title(wrapped(element.label, power), loc="left", fontsize="medium")
        iteration_axis(plt, ax, chains.iterations)
        if axes is None:
            ax.label_outer()
    note(grid[0], n - (shown[0].base == ""), total, "right")
    legend(grid, axes)
    return grid


def plotRunning(
    values: Draws | Mapping[str, Any] | np.ndarray,
    name: str | None = None,
    *,
    burnIn: int = 0,
    iterations: np.ndarray | None = None,
    reference: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The running mean of a quantity, to see whether it has settled.

    At each draw the plot shows the mean of all draws since the end of the burn-in.
    Within the burn-in it shows the mean since the start, in a paler colour. A typical
    quantity is a log loss that `collect` returned.

    Parameters
    ----------
    values : Draws or dict of array or array
        What a sampler returned, a dict of arrays (T, ...), or the quantity itself, (T,) or (nChains, T).
    name : str, optional
        The name of one number in the draws: "logLoss", "theta[0]". Not needed if it is
        the only one.
    burnIn : int, default 0
        Number of iterations that are left out of the mean and shaded.
    iterations : array, optional
        The iteration after which each value of an array was computed, by default 1, 2,
        ... A `Draws` has its own.
    reference : float, optional
        The true value, drawn as a horizontal line.
    label : str, optional
        The entry of the legend. All chains then have one colour, so that one `ax` can
        compare several samplers.
    ax : Axes, optional
        The axes to draw into. By default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If an argument is invalid; the message names it, what it got and what would work.

    See Also
    --------
    plotTrace

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import plotRunning
    >>> losses = np.random.default_rng(0).normal(0.3, 0.1, size=(4, 1000))
    >>> ax = plotRunning(losses, burnIn=200, label="sgld")
    >>> ax = plotRunning(losses[:, ::2], burnIn=200, iterations=np.arange(1, 1001, 2), label="thinned", ax=ax)
    >>> bool(np.isclose(ax.lines[-1].get_ydata()[-1], losses[3, 200::2].mean()))
    True
    """
    plt = require_matplotlib("plotRunning")
    quantity, at = one_quantity(values, name, iterations)
    require_iterations("burnIn", "plotRunning", burnIn)
    if isinstance(reference, bool) or not isinstance(reference, float | int | np.number | None):
        raise refused("plotRunning", "reference", "be a number", repr(reference))
    if burnIn >= at[-1]:
        raise refused("plotRunning", "burnIn", f"be below the last iteration, {at[-1]}", burnIn)
    given = ax
    (ax,) = panels(plt, ax, "plotRunning", 1, (1, 1), figsize=(5, 3))
    n_chains = len(quantity.values)
    first = int(np.searchsorted(at, burnIn, side="right")) if burnIn else 0  # iteration 0 may be the start
    known = ax.get_legend_handles_labels()[1]
    palette, called = colours(plt, n_chains), [chain_label(chain, n_chains) for chain in range(n_chains)]
    if label is not None:
        n_others = sum(text not in ("burn-in", "reference") for text in known)
        palette, called = [COLOURS[n_others % len(COLOURS)]] * n_chains, [label] + [None] * (n_chains - 1)
    if "burn-in" not in known:
        shade(ax, at, burnIn)
    for chain, colour in enumerate(palette):
        before, after = quantity.values[chain, :first], quantity.values[chain, first:]
        if first:
            settling(ax, at[:first], _running(before), first, color=colour, linewidth=0.8, alpha=0.5)
        settling(ax, at[first:], _running(after), len(after) // 100, color=colour, linewidth=1.2, label=called[chain])
    if reference is not None:
        ax.axhline(reference, **REFERENCE, label="reference")
    iteration_axis(plt, ax, at)
    power = numbers(plt, ax.yaxis, 5)
    ax.set_ylabel(wrapped(f"running mean of {quantity.label}" if quantity.label else "running mean", power, 36))
    if label is None:
        legend(np.array([ax]), given)
    else:
        ax.legend(frameon=False, fontsize="small")
    return ax


def _running(values: np.ndarray) -> np.ndarray:
    return np.cumsum(values) / np.arange(1, len(values) + 1)
