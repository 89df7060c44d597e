"""The style of plots, and the checks of their arguments.

No global settings change, and the caller's axes keep their style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from sgmcmc.core.errors import is_integer
from sgmcmc.draws.elements import Chains, Element

COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#66ccee", "#ccbb44")  # P. Tol's, for all kinds of colour vision


def require_matplotlib(function: str) -> ModuleType:
    """matplotlib.pyplot, or an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{function} needs matplotlib: pip install matplotlib") from error
    return plt


def panels(plt: ModuleType, axes: Any, function: str, n: int, shape: tuple[int, int], **figure: Any) -> np.ndarray:
    """The first `n` axes of a new figure of this shape, or the caller's axes."""
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
    """A colour for each chain."""
    if n <= len(COLOURS):
        return list(COLOURS[:n])
    return list(plt.colormaps["viridis"](np.linspace(0, 0.9, n)))


def chain_label(chain: int, n_chains: int) -> str | None:
    """The name of a chain in the legend; None for a single chain."""
    return f"chain {chain + 1}" if n_chains > 1 else None


def legend(axes: np.ndarray, given: Any) -> None:
    """One legend above all panels of our own figure.

    It leaves out the chains if they are many.
    """
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
    made = figure.legend(
        [entries[text] for text in names],
        names,
        loc="outside upper center",
        ncols=-(-len(names) // rows),
        frameon=False,
        fontsize="small",
        handlelength=1.4,
        handletextpad=0.5,
        columnspacing=1.0,
    )
    for handle in made.get_lines():
        handle.set(linewidth=max(1.5, handle.get_linewidth()), alpha=1)


def note(ax: Any, shown: int, total: int, where: str = "left") -> None:
    """Write above the panel how many elements are shown, if it is not all of them."""
    if shown < total:
        ax.set_title(f"{shown:,} of {total:,} elements", loc=where, fontsize="small", color="0.4")


def numbers(plt: ModuleType, axis: Any, ticks: int, room: int | None = None) -> str:
    """Set few, even ticks with labels that fit.

    Return the power of ten that the labels leave out.

    `room` is the number of characters that fit along the axis; None for a vertical
    axis.
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
    """Let the axis run from `begin` to the iteration of the last draw."""
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
    if isinstance(values, Mapping):
        chains = Chains(values, "plotRunning", "values")
        if name is not None and not isinstance(name, str):
            raise ValueError(f"name of plotRunning must be one such as 'logLoss' or 'theta[0]'; got {name!r}.")
        found, total = chains.elements(name, 1)
        if total > 1:
            got = repr(name) if name is not None else "none"
            raise ValueError(
                f"name of plotRunning must stand for one of {total:,} numbers, as {found[0].label!r} does; got {got}."
            )
        quantity, default = found[0], chains.iterations
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub" or array.ndim not in (1, 2) or array.size == 0:
            raise ValueError(
                "values of plotRunning must be the result of a sampler, a dict of arrays, or an array (T,) or "
                f"(nChains, T); got {array.dtype.name} of shape {array.shape}."
            )
        if name is not None:
            raise ValueError(f"name of plotRunning must be left out if values is an array; got {name!r}.")
        chains = Chains({"values": array.T}, "plotRunning", "values")
        found, _ = chains.elements(None, array.size)
        stacked = np.concatenate([element.values for element in found])
        quantity, default = Element("", stacked, "", ()), chains.iterations
    if iterations is None:
        return quantity, default
    at = np.asarray(iterations)
    if at.shape != default.shape or at.dtype.kind not in "iu" or at[0] < 0 or (np.diff(at) <= 0).any():
        raise ValueError(
            f"iterations of plotRunning must be {len(default)} increasing integers, one for each draw; "
            f"got {iterations!r}."
        )
    return quantity, at


def require_limit(function: str, limit: Any) -> int:
    """`maxPanels`: the largest number of elements to show."""
    if not is_integer(limit) or limit < 1:
        raise ValueError(f"maxPanels of {function} must be an integer of at least 1; got {limit!r}.")
    return int(limit)


def require_kind(function: str, kind: Any, known: tuple[str, str]) -> None:
    """Refuse a `kind` that is not one of two words."""
    if kind not in known:
        raise ValueError(f"kind of {function} must be {known[0]!r} or {known[1]!r}; got {kind!r}.")
