"""combine: draws of the full posterior, from runs on disjoint parts of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.arguments import require_seed
from sgmcmc.core.random import fresh_seed
from sgmcmc.diagnostics._per_draw import PLAIN, PerDraw, read, require_finite
from sgmcmc.draws.draws import Draws

NAME = "combine"


def combine(
    parts: Sequence[Any], method: str = "consensus", *, nChains: int | None = None, seed: int | None = None
) -> Any:
    """Combine draws from runs on disjoint parts of the data into draws of one posterior.

    All methods are exact if the posteriors of the parts are normal, and approximate
    otherwise. None is valid for a posterior with several modes: means of draws lie
    between the modes, and an affine map shifts the modes of parts that visited them in
    different proportions.

    Parameters
    ----------
    parts : sequence of Draws, dict of str to array_like, or array_like
        The draws of each of S >= 2 parts without their burn-in, of shape (T, *shape) or
        (nChains, T, *shape). Parameters must be unconstrained; combine the logarithm of
        a scale.
    method : {"consensus", "gaussian", "swiss"}, default "consensus"
        How to combine the draws, and the target that each part must have:

        - "consensus": the weighted mean of the parts' draws with the same index. These
          must be independent, so each run needs a different seed. Each part has 1/S of
          the log prior, ``logPrior(params) / S``.
        - "gaussian": draws from the normalised product of the normal densities with the
          parts' means and covariances. Log priors as for "consensus".
        - "swiss": all draws, each moved by an affine map that gives every part the same
          mean and covariance. Each part has the whole log prior and S times its log
          likelihood.
    nChains : int, optional
        The number of chains, if your arrays have the shape (nChains, T, *shape). A
        `Draws` has its own.
    seed : int, optional
        The seed for "gaussian". By default a fresh one in each call.

    Returns
    -------
    Draws, dict of str to numpy.ndarray, or numpy.ndarray
        In the same form as the parts. "consensus" and "gaussian" return as many draws
        as one part has, "swiss" those of all: (S T, *shape), or with chains
        (S nChains, T, *shape).

    Raises
    ------
    ValueError
        If there are fewer than two parts, if they differ in parameters, shapes or, for
        "consensus" and "swiss", numbers of draws, if a number is NaN or infinite, if
        there are D draws or fewer for D elements of the parameters, or they do not vary
        in all directions, if a run has transforms, or if runs for "consensus" have the
        same seed.

    Notes
    -----
    With m_s and V_s the mean and the covariance of part s, "consensus" [1]_ returns
    ``V sum_s V_s^-1 theta_s`` with ``V^-1 = sum_s V_s^-1``, and "gaussian" draws of
    ``N(V sum_s V_s^-1 m_s, V)``. "swiss" [2]_ returns
    ``V^(1/2) V_s^(-1/2) (theta_s - m_s) + m`` with ``V^-1 = (1/S) sum_s V_s^-1`` and
    ``m = V (1/S) sum_s V_s^-1 m_s``; the roots are symmetric in coordinates where each
    element is in units of its sd in the parts.

    References
    ----------
    .. [1] Scott, S. L., Blocker, A. W., Bonassi, F. V., Chipman, H. A., George, E. I. and McCulloch, R. E. (2016).
       Bayes and big data: the consensus Monte Carlo algorithm. International Journal of Management Science and
       Engineering Management 11, 78-88.
    .. [2] Vyner, C., Nemeth, C. and Sherlock, C. (2023). SwISS: a scalable Markov chain Monte Carlo divide-and-conquer
       strategy. Stat 12, e523.

    Examples
    --------
    The mean of 1,000 numbers with variance 1, under a uniform prior, from two halves:

    >>> import numpy as np
    >>> from sgmcmc.diagnostics import combine
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(3.0, 1.0, size=1000)
    >>> halves = [half.mean() + rng.normal(size=5000) / 500**0.5 for half in (x[:500], x[500:])]
    >>> theta = combine(halves)
    >>> bool(abs(theta.mean() - x.mean()) < 0.003), round(1000 * float(theta.var()), 1)
    (True, 1.0)
    """
    if method not in METHODS:
        raise ValueError(f"method of {NAME} must be one of {sorted(METHODS)}; got {method!r}.")
    if not isinstance(parts, Sequence) or isinstance(parts, str) or len(parts) < 2:
        raise ValueError(f"parts of {NAME} must be a list of the draws of two or more parts; got {_what(parts)}.")
    read_parts = [_read(k, part, nChains) for k, part in enumerate(parts)]
    first = read_parts[0]
    for k, part in enumerate(read_parts[1:], 1):
        if part.shapes != first.shapes or type(parts[k]) is not type(parts[0]):
            raise ValueError(
                f"parts of {NAME} must have draws of the same parameters; got {_form(first)} in parts[0] and "
                f"{_form(part)} in parts[{k}]."
            )
        if part.lead != first.lead and method != "gaussian":
            raise ValueError(
                f"parts of {NAME} must have the same number of draws for method={method!r}; got {first.lead} in "
                f"parts[0] and {part.lead} in parts[{k}]. method='gaussian' accepts any numbers."
            )
    if method == "consensus":
        _require_independent(parts)
    draws = [part.flat() for part in read_parts]
    units = _units(draws)
    draws = [x / units for x in draws]  # so that the result does not depend on the user's units
    moments = [Moments.of(k, x) for k, x in enumerate(draws)]
    seed = fresh_seed() if seed is None else require_seed(NAME, seed)
    combined, times = METHODS[method](draws, moments, np.random.default_rng(seed))
    lead = (times * first.lead[0], *first.lead[1:])
    arrays = first.restored(combined * units, lead)
    return _as_draws(arrays, lead, parts[0].nChains, method, seed) if isinstance(parts[0], Draws) else arrays


class Moments(NamedTuple):
    """The mean of a part's draws, [D], and their covariance and precision, [D, D]."""

    mean: np.ndarray
    covariance: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, k: int, x: np.ndarray) -> Moments:
        """The moments of the draws [n, D] of parts[k], which must vary in all directions."""
        mean, covariance = x.mean(axis=0), np.atleast_2d(np.cov(x, rowvar=False))
        values, vectors = np.linalg.eigh(covariance)
        if not values[0] > len(x) * np.finfo(np.float64).eps * values[-1]:
            raise ValueError(
                f"parts[{k}] of {NAME} must vary in all directions; got {len(x)} draws whose covariance, relative to "
                f"that of all parts, has the eigenvalues {values[0]:.3g} to {values[-1]:.3g}."
            )
        return cls(mean, covariance, (vectors / values) @ vectors.T)


def _units(draws: list[np.ndarray]) -> np.ndarray:
    """The root mean square over the parts of each element's sd, [D]; 1 where nothing varies."""
    size = draws[0].shape[1]
    for k, x in enumerate(draws):
        if len(x) <= size:
            raise ValueError(
                f"parts[{k}] of {NAME} must have more draws than the {size} elements of a draw; got {len(x)}."
            )
    units = np.sqrt(np.mean([x.var(axis=0) for x in draws], axis=0))
    return np.where(units > 0, units, 1.0)


Combined = tuple[np.ndarray, int]
"""Draws [n, D], and their number as a multiple of that of one part."""


def _consensus(draws: list[np.ndarray], moments: list[Moments], rng: np.random.Generator) -> Combined:
    _, covariance = _product(moments)
    weighted = [x @ part.precision for x, part in zip(draws, moments, strict=True)]
    return np.sum(weighted, axis=0) @ covariance, 1


def _gaussian(draws: list[np.ndarray], moments: list[Moments], rng: np.random.Generator) -> Combined:
    mean, covariance = _product(moments)
    return mean + rng.normal(size=draws[0].shape) @ np.linalg.cholesky(covariance).T, 1


def _swiss(draws: list[np.ndarray], moments: list[Moments], rng: np.random.Generator) -> Combined:
    mean, covariance = _product(moments)
    root = _root(len(draws) * covariance)
    moved = [
        mean + (x - part.mean) @ np.linalg.inv(_root(part.covariance)) @ root
        for x, part in zip(draws, moments, strict=True)
    ]
    return np.concatenate(moved), len(draws)


METHODS: dict[str, Callable[[list[np.ndarray], list[Moments], np.random.Generator], Combined]] = {
    "consensus": _consensus,
    "gaussian": _gaussian,
    "swiss": _swiss,
}


def _product(moments: list[Moments]) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the covariance of the product of the parts' normal densities."""
    covariance = np.linalg.inv(np.sum([part.precision for part in moments], axis=0))
    mean = covariance @ np.sum([part.precision @ part.mean for part in moments], axis=0)
    return mean, (covariance + covariance.T) / 2


def _root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(values)) @ vectors.T


def _require_independent(parts: Sequence[Any]) -> None:
    """Reject runs with the same seed: their noise is identical and does not average out."""
    seeds = [part.seed for part in parts if isinstance(part, Draws)]
    if twice := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        raise ValueError(
            f"parts of {NAME} must be runs with different seeds for method='consensus', which needs independent "
            f"draws; got {twice[0]} more than once."
        )


def _read(k: int, part: Any, n_chains: int | None) -> PerDraw:
    if isinstance(part, Draws) and (transforms := part.settings.get("transforms")):
        raise ValueError(
            f"parts[{k}] of {NAME} must be draws of unconstrained parameters; got a run with transforms of "
            f"{sorted(transforms)}."
        )
    found = read(NAME, f"parts[{k}]", part, n_chains)
    require_finite(NAME, f"parts[{k}]", found)
    return found


def _as_draws(
    arrays: dict[str, np.ndarray], lead: tuple[int, ...], n_chains: int | None, method: str, seed: int
) -> Draws:
    if n_chains is None:
        arrays = {name: array[None] for name, array in arrays.items()}
    else:
        n_chains = lead[0]
    return Draws(
        {"posterior": arrays},
        nChains=n_chains,
        iterations=range(1, lead[-1] + 1),
        settings={"sampler": NAME, "method": method, "nChains": n_chains, "seed": seed},
    )


def _form(part: PerDraw) -> str:
    return str(part.shapes[PLAIN]) if PLAIN in part.shapes else str(part.shapes)


def _what(parts: Any) -> str:
    return f"{len(parts)} in a {type(parts).__name__}" if isinstance(parts, Sequence) else type(parts).__name__
