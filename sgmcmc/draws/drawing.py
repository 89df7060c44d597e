"""The contents of panels: lines along the chain, and densities."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.draws.elements import Reference
from sgmcmc.draws.panels import COLOURS, chain_label, colours

BINS, GRID = (512, 2**15), 256
REGIONS, SHARES = ("#d3e0ee", "#8fb2d3", "#4477aa"), (0.95, 0.8, 0.5)
REFERENCE: dict[str, Any] = {"color": "black", "linewidth": 1.2, "linestyle": (0, (4, 2)), "zorder": 4}
LINE_POINTS = 3000  # more than a printed page has pixels
CURVE_POINTS = 512
DOTS = 2000


class Density(NamedTuple):
    """Densities on G equally spaced points: of all chains together, and of each."""

    grid: np.ndarray  # [G]
    pooled: np.ndarray  # [G]
    chains: np.ndarray  # [C, G]


def density(values: np.ndarray) -> Density | None:
    """The densities of values [C, T]; None if all values are the same.

    The bandwidth follows Silverman's rule for the effective sample size. With T instead, the slow movements of an
    autocorrelated chain would appear as modes.
    """
    low, high = values.min(), values.max()
    if not low < high:
        return None
    sd = values.std(axis=1)
    quartiles = np.quantile(values, [0.25, 0.75], axis=1)
    spread = np.where(quartiles[1] > quartiles[0], np.minimum(sd, (quartiles[1] - quartiles[0]) / 1.349), sd).mean()
    if spread == 0:  # constant chains, each at its own value
        spread = values.std()
    sizes = effective_size(values)
    alone, together = (0.9 * spread * n**-0.2 for n in (sizes.mean(), sizes.sum()))
    low, high = low - 4 * alone, high + 4 * alone
    bins = int(np.clip(2 ** np.ceil(np.log2(8 * (high - low) / together)), *BINS))
    width = (high - low) / bins
    counts = np.stack(
        [np.bincount(((x - low) / width).astype(np.int64).clip(0, bins - 1), minlength=bins) for x in values]
    )
    grid = low + width * (np.arange(bins) + 0.5)
    return Density(grid, _smooth(counts.sum(axis=0), together / width) / width, _smooth(counts, alone / width) / width)


def _smooth(counts: np.ndarray, bandwidth: float) -> np.ndarray:
    """Shares per bin after convolution with a normal density; the bandwidth is in bins."""
    frequency = 2 * np.pi * np.fft.rfftfreq(counts.shape[-1])
    smooth = np.fft.irfft(np.fft.rfft(counts) * np.exp(-0.5 * (frequency * bandwidth) ** 2), counts.shape[-1]).clip(0)
    return smooth / smooth.sum(axis=-1, keepdims=True)


def effective_size(values: np.ndarray) -> np.ndarray:
    """The effective sample size of each chain, [C], from sqrt(T) to T, by sqrt(T) batch means of [C, T]."""
    n = values.shape[1]
    length = int(np.sqrt(n))
    batches = values[:, : n - n % length].reshape(len(values), -1, length).mean(axis=2)
    between, within = batches.var(axis=1), values.var(axis=1)
    ratio = np.divide(length * between, within, out=np.ones(len(values)), where=within > 0)
    return n / ratio.clip(1, length)


def joint_density(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The axes [G] and the density [G, G], rows along y, of two varying elements.

    The kernel has the shape of the covariance within chains, so that a narrow ridge stays narrow.
    """
    n = min(effective_size(x).sum(), effective_size(y).sum())
    deviations = np.stack([(z - z.mean(axis=1, keepdims=True)).ravel() for z in (x, y)])
    covariance = deviations @ deviations.T / x.size * n ** (-1 / 3)
    axes, codes, frequencies = [], [], []
    for z, variance in zip((x, y), np.diag(covariance), strict=True):
        low, high = z.min() - 4 * np.sqrt(variance), z.max() + 4 * np.sqrt(variance)
        width = (high - low) / GRID
        axes.append(low + width * (np.arange(GRID) + 0.5))
        codes.append(((z.ravel() - low) / width).astype(np.int64).clip(0, GRID - 1))
        frequencies.append(2 * np.pi * np.fft.fftfreq(GRID) / width)
    counts = np.bincount(codes[1] * GRID + codes[0], minlength=GRID**2).reshape(GRID, GRID)
    u, v = frequencies[0][None, :], frequencies[1][:, None]
    form = covariance[0, 0] * u**2 + 2 * covariance[0, 1] * u * v + covariance[1, 1] * v**2
    smooth = np.fft.ifft2(np.fft.fft2(counts) * np.exp(-0.5 * form)).real.clip(0)
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    return axes[0], axes[1], smooth / (smooth.sum() * cell)


def highest_density_levels(heights: np.ndarray, shares: tuple[float, ...]) -> list[float]:
    """The heights whose level sets hold these shares of the mass, ascending."""
    falling = np.sort(heights, axis=None)[::-1]
    mass = np.cumsum(falling)
    found = falling[np.searchsorted(mass, np.array(shares) * mass[-1]).clip(0, falling.size - 1)]
    return np.unique(found).tolist()


def line(ax: Any, x: np.ndarray, y: np.ndarray, **style: Any) -> None:
    """A line through the extremes of each short stretch, which looks like one through all points."""
    ax.plot(*_outline(x, y), marker="." if len(x) == 1 else None, **style)


def settling(ax: Any, x: np.ndarray, y: np.ndarray, skipped: int, **style: Any) -> None:
    """As `line`, but the first `skipped` points do not widen the limits."""
    from matplotlib.lines import Line2D

    marker = "." if len(x) == 1 else None
    ax.add_artist(Line2D(*_outline(x, y), marker=marker, **style))  # unlike add_line, it does not change the limits
    if skipped < len(x):
        ax.update_datalim([(x[skipped], y[skipped:].min()), (x[-1], y[skipped:].max())])
        ax.autoscale_view()


def _outline(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(x) <= LINE_POINTS:
        return x, y
    length = -(-len(x) // (LINE_POINTS // 2))
    rows = np.pad(y, (0, -len(y) % length), mode="edge").reshape(-1, length)
    extremes = np.stack([rows.argmin(axis=1), rows.argmax(axis=1)]) + length * np.arange(len(rows))
    kept = np.unique(np.append(extremes.clip(0, len(x) - 1), [0, len(x) - 1]))
    return x[kept], y[kept]


def marginal(plt: ModuleType, ax: Any, values: np.ndarray, reference: Reference | None, kind: str = "density") -> None:
    """The density of all draws as an area, and those of each chain and of the reference as lines."""
    found, n_chains = density(values), len(values)
    if found is None:
        ax.axvline(values.flat[0], color=COLOURS[0], linewidth=1.5)
        ax.set_xlim(extent(values, reference))
    elif kind == "histogram":
        _histogram(ax, values)
    elif kind == "pooled" or n_chains == 1:
        ax.fill_between(found.grid, found.pooled, color=REGIONS[0], linewidth=0)
        ax.plot(found.grid, found.pooled, color=COLOURS[0], linewidth=1.2)
    else:
        ax.fill_between(found.grid, found.pooled, color="0.88", linewidth=0, label="all chains")
        width = 1.2 if n_chains <= len(COLOURS) else 0.6
        for chain, colour in enumerate(colours(plt, n_chains)):
            label = chain_label(chain, n_chains)
            ax.plot(found.grid, found.chains[chain], color=colour, linewidth=width, label=label)
    if reference is not None:
        _reference_curve(ax, reference, found)
    ax.set_ylim(bottom=0)


def _histogram(ax: Any, values: np.ndarray) -> None:
    low, high = values.min(), values.max()
    q1, q3 = np.quantile(values, [0.25, 0.75])  # the rule of Freedman and Diaconis, within bounds
    bins = (high - low) * effective_size(values).sum() ** (1 / 3) / max(2 * (q3 - q1), 1e-9 * (high - low))
    heights, edges = np.histogram(values, int(np.clip(bins, 10, 200)), density=True)
    ax.stairs(heights, edges, fill=True, color=REGIONS[1])


def _reference_curve(ax: Any, reference: Reference, found: Density | None) -> None:
    style = REFERENCE | {"label": "reference"}
    if reference.values is None:
        low, high = (found.grid[0], found.grid[-1]) if found else ax.get_xlim()
        if reference.extent is not None:
            low, high = min(low, reference.extent[0]), max(high, reference.extent[1])
        x = np.linspace(low, high, CURVE_POINTS)
        ax.plot(x, reference.heights(x), **style)
        return
    other = density(reference.values)
    if other is None:
        ax.axvline(reference.values.flat[0], **style)
    else:
        ax.plot(other.grid, other.pooled, **style)


def regions(ax: Any, x: np.ndarray, y: np.ndarray) -> None:
    if np.ptp(x) == 0 or np.ptp(y) == 0:  # no area
        dots(ax, x, y, [COLOURS[0]] * len(x))
        return
    along, up, heights = joint_density(x, y)
    levels = highest_density_levels(heights, SHARES)
    ax.contourf(along, up, heights, levels=[*levels, heights.max() * 1.01], colors=REGIONS[-len(levels) :])


def reference_regions(ax: Any, across: Reference | None, upward: Reference | None) -> None:
    """The outlines of the largest and smallest regions of the reference's draws."""
    x, y = (None if reference is None else reference.values for reference in (across, upward))
    if x is None or y is None or x.shape != y.shape or np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    along, up, heights = joint_density(x, y)
    levels = highest_density_levels(heights, (SHARES[0], SHARES[-1]))
    ax.contour(along, up, heights, levels=levels, colors="black", linewidths=1, linestyles="dashed")


def dots(ax: Any, x: np.ndarray, y: np.ndarray, palette: list[Any]) -> None:
    """Up to DOTS draws of all chains together, evenly spaced."""
    step = -(-x.size // DOTS)
    for u, v, colour in zip(x, y, palette, strict=True):
        ax.plot(u[::step], v[::step], ".", color=colour, markersize=2.5, markeredgewidth=0, alpha=0.7)


def extent(values: np.ndarray, reference: Reference | None) -> tuple[float, float]:
    """The limits of an axis: the central 99.9% of the draws, and a margin."""
    shown = [values] if reference is None or reference.values is None else [values, reference.values]
    ends = [np.quantile(part, [0.0005, 0.9995]) for part in shown]
    low, high = min(e[0] for e in ends), max(e[1] for e in ends)
    margin = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin
