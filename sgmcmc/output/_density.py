"""Densities of draws: Gaussian kernel estimates from all draws, in bins, so that millions take little time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BINS = (512, 2**15)
GRID = 256


class Density(NamedTuple):
    """Densities on G equally spaced points: of all chains together, and of each."""

    grid: np.ndarray  # [G]
    pooled: np.ndarray  # [G]
    chains: np.ndarray  # [C, G]


def density(values: np.ndarray) -> Density | None:
    """The densities of values [C, T], which integrate to 1; None if all values are the same.

    The bandwidth follows Silverman's rule for the effective sample size. With T in its
    place, the slow movements of an autocorrelated chain would appear as modes.
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
    smooth = np.fft.irfft(np.fft.rfft(counts) * np.exp(-0.5 * (frequency * bandwidth) ** 2), counts.shape[-1])
    smooth = smooth.clip(0)
    return smooth / smooth.sum(axis=-1, keepdims=True)


def effective_size(values: np.ndarray) -> np.ndarray:
    """The effective sample size of each chain, [C], by sqrt(T) batch means of [C, T].

    It lies between sqrt(T) and T.
    """
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
