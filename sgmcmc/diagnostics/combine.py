"""combine: draws of the full posterior, from runs on disjoint parts of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sgmcmc.arguments import require_seed
from sgmcmc.core.errors import refused
from sgmcmc.core.random import fresh_seed
from sgmcmc.diagnostics._per_draw import PLAIN, PerDraw, read_finite
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
        raise refused(NAME, "method", f"be one of {sorted(METHODS)}", repr(method))
    if not isinstance(parts, Sequence) or isinstance(parts, str) or len(parts) < 2:
        got = f"{len(parts)} in a " if isinstance(parts, Sequence) else ""
        raise refused(NAME, "parts", "be a list of the draws of two or more parts", got + type(parts).__name__)
    read_parts = [_read(k, part, nChains) for k, part in enumerate(parts)]
    first = read_parts[0]
    for k, part in enumerate(read_parts[1:], 1):
        if part.shapes != first.shapes or type(parts[k]) is not type(parts[0]):
            forms = [one.shapes.get(PLAIN, one.shapes) for one in (first, part)]
            got = f"{forms[0]} in parts[0] and {forms[1]} in parts[{k}]"
            raise refused(NAME, "parts", "have draws of the same parameters", got)
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
    combined = METHODS[method](draws, moments, np.random.default_rng(seed))
    lead = (len(combined) // len(draws[0]) * first.lead[0], *first.lead[1:])
    arrays = first.restored(combined * units, lead)
    return _as_draws(arrays, lead, method, seed) if isinstance(parts[0], Draws) else arrays


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
            raise refused(NAME, f"parts[{k}]", f"have more draws than the {size} elements of a draw", len(x))
    units = np.sqrt(np.mean([x.var(axis=0) for x in draws], axis=0))
    return np.where(units > 0, units, 1.0)


def _consensus(draws: list[np.ndarray], moments: list[Moments], rng: np.random.Generator) -> np.ndarray:
    _, covariance = _product(moments)
    weighted = [x @ part.precision for x, part in zip(draws, moments, strict=True)]
    return np.sum(weighted, axis=0) @ covariance


def _gaussian(draws: list[np.ndarray], moments: list[Moments], rng: np.random.Generator) -> np.ndarray:
    mean, covariance = _product(moments)
    return mean + rng.normal(size=draws[0].shape) @ np.linalg.cholesky(covariance).T


def _swiss(draws: list[np.ndarray], moments: list[Moments], rng: np.random.Generator) -> np.ndarray:
    mean, covariance = _product(moments)
    root = _root(len(draws) * covariance)
    maps = [np.linalg.inv(_root(part.covariance)) for part in moments]
    return np.concatenate([mean + (x - part.mean) @ a @ root for x, part, a in zip(draws, moments, maps, strict=True)])


METHODS = {"consensus": _consensus, "gaussian": _gaussian, "swiss": _swiss}


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
        must = "be runs with different seeds for method='consensus', which needs independent draws"
        raise refused(NAME, "parts", must, f"{twice[0]} more than once")


def _read(k: int, part: Any, n_chains: int | None) -> PerDraw:
    if isinstance(part, Draws) and (transforms := part.settings.get("transforms")):
        got = f"a run with transforms of {sorted(transforms)}"
        raise refused(NAME, f"parts[{k}]", "be draws of unconstrained parameters", got)
    return read_finite(NAME, f"parts[{k}]", part, n_chains)


def _as_draws(arrays: dict[str, np.ndarray], lead: tuple[int, ...], method: str, seed: int) -> Draws:
    n_chains = lead[0] if len(lead) == 2 else None
    groups = {"posterior": arrays if n_chains else {name: array[None] for name, array in arrays.items()}}
    settings = {"sampler": NAME, "method": method, "nChains": n_chains, "seed": seed}
    return Draws(groups, nChains=n_chains, iterations=range(1, lead[-1] + 1), settings=settings)
