"""gaussianKL: the divergence of draws from a known normal posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sgmcmc.core.errors import refused
from sgmcmc.dataset.arrays import first_non_finite, numeric
from sgmcmc.diagnostics._per_draw import PerDraw, read_finite

NAME = "gaussianKL"


def gaussianKL(draws: Any, mean: Any, covariance: Any, *, nChains: int | None = None) -> float:
    """The Kullback-Leibler divergence of the draws from a known normal posterior.

    It is KL(q || posterior), where q is the normal distribution with the mean and the
    covariance of the draws.

    Parameters
    ----------
    draws : Draws, dict of str to array_like, or array_like
        The result of a sampler; or your own draws, of shape (T, *shape) for T draws.
    mean : dict of str to array_like, or array_like
        The mean of the posterior: D numbers for the elements of the parameters, in
        order of name and in C order; or a dict by name, of all parameters or of those
        to compare.
    covariance : array_like
        The covariance of the posterior, (D, D), in the same order.
    nChains : int, optional
        The number of chains, if your arrays have the shape (nChains, T, *shape). A
        `Draws` has its own.

    Returns
    -------
    float
        The divergence in nats, for the draws of all chains together. It is above 0 even
        for draws from the posterior itself: about D (D + 3) / (4 T) for T independent
        draws.

    Raises
    ------
    ValueError
        If shapes do not match, if a number is NaN or infinite, if `covariance` is not
        symmetric and positive definite, or if there are D draws or fewer, or they do
        not vary in all directions.

    Notes
    -----
    With m and S the mean and the covariance (divisor T - 1) of the draws, mu and Sigma those of the posterior::

        KL = (tr(Sigma^-1 S) - D + (m - mu)^T Sigma^-1 (m - mu) - log det S + log det Sigma) / 2

    [1]_ uses this measure for its bivariate normal example (section 5.2.1).

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> from sgmcmc.diagnostics import gaussianKL
    >>> round(gaussianKL([-1.0, 0.0, 1.0], mean=0.0, covariance=1.0), 6)
    0.0
    >>> gaussianKL([1.0, 2.0, 3.0], mean=0.0, covariance=1.0)
    2.0
    """
    named = isinstance(draws, Mapping) and isinstance(mean, Mapping)
    points = read_finite(NAME, "draws", draws, nChains, mean if named else None)
    x = points.flat()
    n, size = x.shape
    mu, root = _mean(mean, points, size), _root(covariance, size)
    if n <= size:
        raise refused(NAME, "draws", f"outnumber the {size} elements of a draw", n)
    # Moments in whitened coordinates of the posterior, where they do not cancel.
    white = np.linalg.solve(root, (x - mu).T)
    shift = white.mean(axis=1)
    deviations = white - shift[:, None]
    values = np.linalg.svd(deviations, compute_uv=False) ** 2 / (n - 1)
    if values[-1] <= n * (np.finfo(np.float64).eps * np.abs(white).max()) ** 2:
        raise ValueError(
            f"draws of {NAME} must vary in all directions; got {n} draws whose covariance, relative to `covariance`, "
            f"has the eigenvalues {values[-1]:.3g} to {values[0]:.3g}."
        )
    return float((values - 1 - np.log(values)).sum() + shift @ shift) / 2


def _mean(mean: Any, points: PerDraw, size: int) -> np.ndarray:
    if isinstance(mean, Mapping):
        found = {name: np.shape(value) for name, value in mean.items()}
        if found != points.shapes:
            raise refused(NAME, "mean", f"have the names and shapes of a draw, {points.shapes}", found)
        array = np.concatenate([numeric(f"mean[{name!r}]", NAME, mean[name]).reshape(-1) for name in sorted(mean)])
    else:
        array = numeric("mean", NAME, mean)
        if array.shape not in {(size,), *points.shapes.values()} or array.size != size:
            raise refused(NAME, "mean", f"have the shape ({size},), or be a dict", f"shape {array.shape}")
    return _finite("mean", array.reshape(-1))


def _root(covariance: Any, size: int) -> np.ndarray:
    """The Cholesky factor of the covariance."""
    array = numeric("covariance", NAME, covariance)
    if size == 1 and array.size == 1:
        array = array.reshape(1, 1)
    if array.shape != (size, size):
        must = f"have the shape ({size}, {size}), for the {size} elements of a draw"
        raise refused(NAME, "covariance", must, f"shape {array.shape}")
    array = _finite("covariance", array)
    sd, difference = np.sqrt(np.abs(np.diag(array))), np.abs(array - array.T)
    if (difference > 1e-6 * np.outer(sd, sd)).any():
        raise refused(NAME, "covariance", "be symmetric", f"entries that differ by {difference.max():.3g}")
    symmetric = (array + array.T) / 2
    try:
        return np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError as error:
        got = f"a smallest eigenvalue of {np.linalg.eigvalsh(symmetric)[0]:.3g}"
        raise refused(NAME, "covariance", "be positive definite", got) from error


def _finite(argument: str, array: np.ndarray) -> np.ndarray:
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise refused(NAME, argument, "be finite", first_non_finite(array))
    return array
