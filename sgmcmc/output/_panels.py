"""How the plots look: panels, colours, labels. Nothing global is set, and axes that are given keep their style."""

from __future__ import annotations

import textwrap
from types import ModuleType
from typing import Any

import numpy as np

COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#66ccee", "#ccbb44")  # P. Tol's, for all kinds of colour vision


def require_matplotlib(function: str) -> ModuleType:
    """matplotlib.pyplot, or a word on how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f'{function} needs matplotlib: pip install "sgmcmc[plots]"') from error
    return plt


def panels(plt: ModuleType, axes: Any, function: str, n: int, shape: tuple[int, int], **figure: Any) -> np.ndarray:
    """The first `n` axes of a new figure with rows and columns, or those that were given."""
    if axes is not None:
        given = np.array(axes, dtype=object).ravel()
        usable = all(hasattr(ax, "plot") for ax in given)
        if not usable or len(given) != n:
            got = str(len(given)) if usable else repr(axes)
            if function == "plotRunning":
                raise ValueError(f"ax of plotRunning must be a single Axes; got {got}.")
            raise ValueError(f"axes of {function} must be {n} Axes, one for each panel; got {got}.")
        return given
    _, grid = plt.subplots(*shape, squeeze=False, layout="constrained", **figure)
    for i, ax in enumerate(grid.flat):
        if i >= n:
            ax.remove()
            continue
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize="small", length=3)
    return grid.ravel()[:n]


def colours(plt: ModuleType, n: int) -> list[Any]:
    """One for each chain."""
    if n <= len(COLOURS):
        return list(COLOURS[:n])
    return list(plt.colormaps["viridis"](np.linspace(0, 0.9, n)))


def chain_label(chain: int, n_chains: int) -> str | None:
    """For the legend."""
    return f"chain {chain + 1}" if n_chains > 1 else None


def legend(axes: np.ndarray, given: Any) -> None:
    """One for all panels of our own figure, above them; many chains are not told apart in it."""
    if given is not None:
        return
    entries = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries.update({label: handle for handle, label in zip(handles, labels, strict=True) if label not in entries})
    chains = [label for label in entries if label.startswith("chain ")]
    if len(chains) > len(COLOURS):
        entries = {label: handle for label, handle in entries.items() if label not in chains}
    if entries:
        names, handles = list(entries), list(entries.values())
        figure = axes[0].figure
        columns = max(1, min(len(names), int(figure.get_figwidth() / 1.05)))
        style = {"ncols": columns, "frameon": False, "fontsize": "small", "handlelength": 1.6, "columnspacing": 1.2}
        made = figure.legend(handles, names, loc="outside upper center", **style)
        for line in made.get_lines():
            line.set(linewidth=max(1.5, line.get_linewidth()), alpha=1)


def note(ax: Any, shown: int, total: int, where: str = "left") -> None:
    """Say so if not all is shown."""
    if shown < total:
        ax.set_title(f"{shown:,} of {total:,} elements", loc=where, fontsize="small", color="0.4")


def wrapped(label: str, width: int) -> str:
    """In lines that fit beside a panel."""
    return "\n".join(textwrap.wrap(label, width)) or label


def iteration_axis(plt: ModuleType, ax: Any, iterations: np.ndarray) -> None:
    """From the iteration after which the first draw was begun to that of the last."""
    ax.set(xlabel="iteration", xlim=(begin(iterations), iterations[-1]))
    ax.xaxis.set_major_locator(plt.MaxNLocator(5, integer=True))
    ax.xaxis.set_major_formatter("{x:,.0f}")


def begin(iterations: np.ndarray) -> float:
    """The iteration after which the first draw was begun."""
    return max(0, iterations[0] - (iterations[1] - iterations[0] if len(iterations) > 1 else iterations[0]))


def shade(ax: Any, iterations: np.ndarray, burn_in: int) -> None:
    """Mark the burn-in, if any of it is shown."""
    if burn_in > begin(iterations):
        ax.axvspan(begin(iterations), burn_in, color="0.92", linewidth=0, zorder=0, label="burn-in")
