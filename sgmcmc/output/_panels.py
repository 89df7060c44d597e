"""How the plots look: panels, colours, labels.

Nothing global is set, and the caller's axes keep their style.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np

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
