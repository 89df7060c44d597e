"""Effective sample sizes, Monte Carlo errors and R-hat of many chains of numbers at once.

The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021, Bayesian Analysis 16), and the
numbers those of ArviZ, which goes through one number after another. Arrays are [D, C, T]: D numbers along C chains of T
draws.
"""

from __future__ import annotations

import numpy as np

SHORTEST = 4  # draws: fewer have no diagnostics
TAILS = (0.05, 0.95)
SAME = 1e-15  # numbers that differ by less are one


def diagnostics(x: np.ndarray) -> dict[str, np.ndarray]:
    """mcse_mean, mcse_sd, ess_bulk, ess_tail and r_hat, each [D]; NaN of too few draws, and of what is not finite."""
    names = ("mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat")
    if x.shape[-1] < SHORTEST:
        return {name: np.full(len(x), np.nan) for name in names}
    with np.errstate(invalid="ignore", divide="ignore"):
        n = effective_sample_size(halves(x))
        flat = x.reshape(len(x), -1)
        squares = (flat - flat.mean(axis=1, keepdims=True)) ** 2
        variance = squares.mean(axis=1)
        mcse_mean = flat.std(axis=1, ddof=1) / np.sqrt(n)
        mcse_sd = np.sqrt(((squares**2).mean(axis=1) - variance**2) / n / variance / 4)
        tails = [
            effective_sample_size(halves((x <= np.quantile(flat, q, axis=1)[:, None, None]).astype(float)))
            for q in TAILS
        ]
        ranked = normal_scores(halves(x))
        values = (mcse_mean, mcse_sd, effective_sample_size(ranked), np.minimum(*tails), r_hat(x, ranked))
    finite = np.isfinite(flat).all(axis=1)
    return {name: np.where(finite, value, np.nan) for name, value in zip(names, values, strict=True)}


def halves(x: np.ndarray) -> np.ndarray:
    """Every chain as two, [D, 2 C, T // 2]; of an odd number of draws the middle one is left out."""
    half = x.shape[-1] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=1)


def normal_scores(x: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks among all draws of a number."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    flat = x.reshape(len(x), -1)
    return ndtri((rankdata(flat, axis=1) - 3 / 8) / (flat.shape[1] + 1 / 4)).reshape(x.shape)


def r_hat(x: np.ndarray, ranked: np.ndarray) -> np.ndarray:
    """The larger one of the location's and the scale's; NaN of a single chain."""
    if x.shape[1] < 2:
        return np.full(len(x), np.nan)
    parts = halves(x)
    folded = normal_scores(abs(parts - np.median(parts, axis=(1, 2), keepdims=True)))
    of_location, of_scale = _r_hat(ranked), _r_hat(folded)
    return np.where(of_scale > of_location, of_scale, of_location)  # the scale of two values has none


def _r_hat(x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    between, within = n * x.mean(axis=2).var(axis=1, ddof=1), x.var(axis=2, ddof=1).mean(axis=1)
    return np.sqrt((between / within + n - 1) / n)


def effective_sample_size(x: np.ndarray) -> np.ndarray:
    """By Geyer's initial monotone sequence of the autocorrelations, taken over all chains."""
    _, n_chains, n = x.shape
    covariance = _autocovariance(x).mean(axis=1)  # [D, T]
    within = covariance[:, :1] * n / (n - 1)
    total = covariance[:, :1] + (x.mean(axis=2).var(axis=1, ddof=1)[:, None] if n_chains > 1 else 0.0)
    rho = 1.0 - (within - covariance) / total
    rho[:, 0] = 1.0
    pairs = rho[:, : n // 2 * 2].reshape(len(x), n // 2, 2).sum(axis=2)
    # The sum ends with the first pair that is not positive, or the last one but for the ends; of it counts one half.
    last = max((n - 3) // 2, 0)
    ended = pairs[:, : last + 1] <= 0
    end = np.where(ended.any(axis=1), ended.argmax(axis=1), last)
    monotone = np.minimum.accumulate(pairs, axis=1)
    summed = np.where(np.arange(pairs.shape[1]) < end[:, None], monotone, 0.0).sum(axis=1)
    each = np.arange(len(x))
    half = rho[each, 2 * end]
    half = np.where((half > 0) | (pairs[each, end] >= 0), half, 0.0)
    size = n_chains * n
    tau = np.maximum(-1.0 + 2.0 * summed + half, 1.0 / np.log10(size))
    return np.where(np.ptp(x, axis=(1, 2)) < SAME, size, size / tau)


def _autocovariance(x: np.ndarray) -> np.ndarray:
    from scipy.fft import irfft, next_fast_len, rfft

    n = x.shape[-1]
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(x - x.mean(axis=-1, keepdims=True), size)
    return irfft(spectrum * spectrum.conj(), size)[..., :n] / n
