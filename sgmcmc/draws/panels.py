"""The style of plots, and the checks of their arguments; the caller's axes keep their style."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.errors import require_count
from sgmcmc.draws.elements import Chains, Element, refused

COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#66ccee", "#ccbb44")  # P. Tol's, for all kinds of colour vision

LEGEND = {"frameon": False, "fontsize": "small", "handlelength": 1.4, "handletextpad": 0.5, "columnspacing": 1.0}


def require_matplotlib(function: str) -> ModuleType:
    """matplotlib.pyplot, or an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{function} needs matplotlib: pip install matplotlib") from error
    return plt


class Chosen(NamedTuple):
    """The draws that a plot shows."""

    plt: ModuleType
    chains: Chains
    elements: list[Element]
    total: int  # number of elements without `maxPanels`

    @classmethod
    def by(cls, function: str, draws: Any, names: Any, limit: Any) -> Chosen:
        plt, chains = require_matplotlib(function), Chains(draws, function)
        return cls(plt, chains, *chains.elements(names, require_count("maxPanels", function, limit, at_least=1)))


def panels(plt: ModuleType, axes: Any, function: str, n: int, shape: tuple[int, int], **figure: Any) -> np.ndarray:
    """The first `n` axes of a new figure of this shape, or the caller's axes."""
    if axes is not None:
        given = np.array(axes, dtype=object).ravel()
        usable = all(hasattr(ax, "plot") for ax in given)
        if not usable or len(given) != n:
            got = str(len(given)) if usable else repr(axes)
            if function == "plotRunning":
                raise refused(function, "ax", "be a single Axes", got)
            raise refused(function, "axes", f"be {n} Axes, one for each panel", got)
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
    """A colour for each chain."""
    return list(COLOURS[:n] if n <= len(COLOURS) else plt.colormaps["viridis"](np.linspace(0, 0.9, n)))


def chain_label(chain: int, n_chains: int) -> str | None:
    """The name of a chain in the legend; None for a single chain."""
    return f"chain {chain + 1}" if n_chains > 1 else None


def legend(axes: np.ndarray, given: Any) -> None:
    """One legend above all panels of our own figure, without the chains if they are many."""
    if given is not None:
        return
    entries: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True)) | entries
    chains = sorted((text for text in entries if text.startswith("chain ")), key=len)
    others = [text for text in entries if text not in chains]
    names = others if len(chains) > len(COLOURS) else chains + others
    if not names:
        return
    figure = axes[0].figure
    rows = -(-len(names) // max(1, int(figure.get_figwidth() / 0.9)))
    handles = [entries[text] for text in names]
    made = figure.legend(handles, names, loc="outside upper center", ncols=-(-len(names) // rows), **LEGEND)
    for handle in made.get_lines():
        handle.set(linewidth=max(1.5, handle.get_linewidth()), alpha=1)


def note(ax: Any, shown: int, total: int, where: str = "left") -> None:
    """Write above the panel how many elements are shown, if it is not all of them."""
    if shown < total:
        ax.set_title(f"{shown:,} of {total:,} elements", loc=where, fontsize="small", color="0.4")


def numbers(plt: ModuleType, axis: Any, ticks: int, room: int | None = None) -> str:
    """Set few, even ticks, and return the power of ten that their labels leave out.

    `room` is the number of characters that fit along a horizontal axis.
    """
    size = max(abs(end) for end in axis.get_view_interval())
    power = int(np.floor(np.log10(size))) if size > 0 else 0
    power = power if power >= 5 or power <= -3 else 0

    def text(x: float, position: int | None = None) -> str:
        low, high = sorted(axis.get_view_interval())
        shown = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
        step = (shown[1] - shown[0] if len(shown) > 1 else high - low) / 10.0**power
        digits = max(0, -int(np.floor(np.log10(step) + 1e-6)))
        words = [f"{tick / 10.0**power:.{digits}f}".replace("-", "\N{MINUS SIGN}") for tick in shown]
        if x not in shown:
            return f"{x / 10.0**power:.{digits}f}"
        every = -(-sum(len(word) + 2 for word in words) // room) if room else 1
        place = shown.index(x)
        return words[place] if place % every == (len(shown) - 1) % every // 2 else ""

    axis.set_major_locator(plt.MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(text)
    return f"($\\times 10^{{{power}}}$)" if power else ""


def wrapped(label: str, power: str = "", width: int = 60) -> str:
    """A name, broken into lines where its parts begin, and a power of ten."""
    lines = [""]
    for part in re.findall(r"\[.*|[^_ .\[]*[_ .]+|[^_ .\[]+", label):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    if power:
        lines[-1:] = [f"{lines[-1]} {power}"] if len(lines[-1]) + 7 <= width else [lines[-1], power]
    return "\n".join(lines)


def iteration_axis(plt: ModuleType, ax: Any, iterations: np.ndarray) -> None:
    ax.set(xlabel="iteration", xlim=(begin(iterations), iterations[-1]))
    ax.xaxis.set_major_locator(plt.MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter("{x:,.0f}")


def begin(iterations: np.ndarray) -> float:
    """The iteration one draw before the first, at least 0."""
    return max(0, iterations[0] - (iterations[1] - iterations[0] if len(iterations) > 1 else iterations[0]))


def shade(ax: Any, iterations: np.ndarray, burn_in: int) -> None:
    """Shade the burn-in, if any of it is shown."""
    if burn_in > begin(iterations):
        ax.axvspan(begin(iterations), burn_in, color="0.92", linewidth=0, zorder=0, label="burn-in")


def one_quantity(values: Any, name: str | None, iterations: Any) -> tuple[Element, np.ndarray]:
    """The quantity that `plotRunning` shows, and the iterations of its values."""
    quantity, default = _named(values, name) if isinstance(values, Mapping) else _plain(values, name)
    if iterations is None:
        return quantity, default
    at = np.asarray(iterations)
    if at.shape != default.shape or at.dtype.kind not in "iu" or at[0] < 0 or (np.diff(at) <= 0).any():
        must = f"be {len(default)} increasing integers, one for each draw"
        raise refused("plotRunning", "iterations", must, repr(iterations))
    return quantity, at


def _named(draws: Mapping[str, Any], name: str | None) -> tuple[Element, np.ndarray]:
    chains = Chains(draws, "plotRunning", "values")
    if name is not None and not isinstance(name, str):
        raise chains.refused("name", "be one such as 'logLoss' or 'theta[0]'", repr(name))
    found, total = chains.elements(name, 1)
    if total > 1:
        must = f"stand for one of {total:,} numbers, as {found[0].label!r} does"
        raise chains.refused("name", must, "none" if name is None else repr(name))
    return found[0], chains.iterations


def _plain(values: Any, name: str | None) -> tuple[Element, np.ndarray]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub" or array.ndim not in (1, 2) or array.size == 0:
        must = "be the result of a sampler, a dict of arrays, or an array (T,) or (nChains, T)"
        raise refused("plotRunning", "values", must, f"{array.dtype.name} of shape {array.shape}")
    if name is not None:
        raise refused("plotRunning", "name", "be left out if values is an array", repr(name))
    chains = Chains({"values": array.T}, "plotRunning", "values")
    of_chains, _ = chains.elements(None, array.size)
    return Element("", np.concatenate([one.values for one in of_chains]), "", ()), chains.iterations


def require_kind(function: str, kind: Any, known: tuple[str, str]) -> None:
    if kind not in known:
        raise refused(function, "kind", f"be {known[0]!r} or {known[1]!r}", repr(kind))
