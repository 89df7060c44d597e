"""The curvature of a posterior with many elements, from products of its Hessian with vectors.

With S = diag(-H)^(-1/2), R = S (-H) S has a unit diagonal. Where the posterior is wide but regular, as that of a
generalised linear model with very many coefficients, nearly all of its eigenvalues are near 1: all but those of few
directions, such as what an intercept and the effects of all categories share. These are found, by Lanczos iterations at
both ends of the spectrum, and the rest is taken as 1.

The diagonal is that of products with random signs z, the mean of z_i (H z)_i (Bekas, Kokiopoulou & Saad 2007).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sgmcmc.core.progress import Progress
from sgmcmc.dataset.some import most_of, some_of
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening

OBSERVATIONS = 10**7  # of a pass, at most
PROBES = (16, 16, 64)  # products for the diagonal, in rounds; each has the scale that the one before found
SHRINKS = 16.0  # times that a round may change an element of the diagonal
NEAR_ONE = 2.0  # eigenvalues of R between its inverse and it count as 1
RANKS = (16, 64)  # directions that are looked for, half of them at each end, until the innermost are near 1
PRECISE, RESTARTS = 1e-2, 100  # the relative error of an eigenvalue
FLAT = 100  # machine epsilons: eigenvalues of R below count as 0
SOLVES, SOLVED = 32, 1e-2  # systems for the sds, and their relative error

Product = Callable[[np.ndarray], np.ndarray]


class Wide(NamedTuple):
    """What is known of -H = S^-1 R S^-1."""

    scale: np.ndarray  # the diagonal of S, [D]
    vectors: np.ndarray  # the eigenvectors of R that were found, [D, K]
    values: np.ndarray  # their eigenvalues, [K]
    low: float  # bounds of the other eigenvalues
    high: float
    sds: np.ndarray  # of the elements, if the posterior is normal, [D]

    @property
    def whitening(self) -> Whitening:
        """The coordinates in which these directions are white, and the others nearly."""
        return _whitening(self.scale, self.values, self.vectors)


def wide(posterior: Posterior, theta: np.ndarray, diagonal: np.ndarray, seed: int, verbose: bool) -> Wide:
    """The curvature at theta, from a rough diagonal, [D].

    The sds are NaN if it is not positive in all directions.
    """
    some = part_of(posterior, seed)
    rng = np.random.default_rng(seed)
    expected = sum(PROBES) + 8 * RANKS[0] + 8 * SOLVES
    with Progress(expected, "Finding the curvature", "product", verbose) as progress:
        done = 0

        def product(vector: np.ndarray) -> np.ndarray:
            nonlocal done
            done += 1
            progress.reached(min(done, expected))
            return -some.hessian_product(theta, np.ravel(vector))

        scale = _scale(product, 1 / np.sqrt(np.maximum(diagonal, np.finfo(float).tiny)), rng)
        values, vectors, low, high = _ends(lambda x: scale * product(scale * np.ravel(x)), rng.normal(size=scale.size))
        white, flat = _whitening(scale, values, vectors), FLAT * np.finfo(posterior.model.dtype.as_numpy_dtype).eps
        is_peak = min(low, *values) > flat
        sds = _sds(white, product, rng) if is_peak else np.full_like(scale, np.nan)
    return Wide(scale, vectors, values, low, high, sds)


def part_of(posterior: Posterior, seed: int) -> Posterior:
    """The posterior from the observations of such passes."""
    return posterior.of(some_of(posterior.data, min(OBSERVATIONS, most_of(posterior.data)), seed))


def _scale(product: Product, scale: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    for probes in PROBES:
        of_r = np.zeros_like(scale)
        for _ in range(probes):
            z = rng.choice([-1.0, 1.0], size=scale.size)
            of_r += z * scale * product(scale * z) / probes
        scale = scale / np.sqrt(np.clip(of_r, 1 / SHRINKS, SHRINKS))
    return scale


def _ends(of_r: Product, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The eigenvalues of R that are not near 1, with their eigenvectors, and the bounds of all others."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    d = start.size
    operator = LinearOperator((d, d), matvec=of_r, dtype=np.float64)
    for rank in RANKS:
        try:
            values, vectors = eigsh(operator, k=min(rank, d - 1), which="BE", tol=PRECISE, maxiter=RESTARTS, v0=start)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
        lows, highs = values[values < 1], values[values >= 1]
        low, high = lows.max(initial=-np.inf), highs.min(initial=np.inf)
        if low >= 1 / NEAR_ONE and high <= NEAR_ONE:
            break
    far = (values < 1 / NEAR_ONE) | (values > NEAR_ONE)
    near = values[~far]
    return values[far], vectors[:, far], float(min([low, *near])), float(max([high, *near]))


def _whitening(scale: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> Whitening:
    with np.errstate(divide="ignore"):
        return Whitening(scale, int((values <= 0).sum()), vectors, np.abs(values) ** -0.5 - 1)


def _sds(white: Whitening, product: Product, rng: np.random.Generator) -> np.ndarray:
    """The roots of the diagonal of (-H)^-1 = A A^T + A (P^-1 - 1) A^T, with P = A^T (-H) A near 1.

    The second part is from random signs z, for which P x = z is solved.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    d = white.root.size
    operator = LinearOperator((d, d), matvec=lambda x: white.of_gradient(product(white.to_theta(np.ravel(x)))))
    assert white.vectors is not None
    assert white.stretch is not None
    variances = white.root**2 * (1 + white.vectors**2 @ ((1 + white.stretch) ** 2 - 1))
    rest = np.zeros(d)
    for _ in range(SOLVES):
        z = rng.choice([-1.0, 1.0], size=d)
        x, _ = cg(operator, z, rtol=SOLVED, maxiter=RESTARTS)
        rest += white.to_theta(x - z) * white.to_theta(z) / SOLVES
    return np.sqrt(np.maximum(variances + rest, variances / SHRINKS))
