"""The curvature of a posterior with many elements, from products of its Hessian with vectors.

With S = diag(-H)^(-1/2), R = S (-H) S has a unit diagonal. Where the posterior is wide but regular, as that of a
generalised linear model with very many coefficients, nearly all of its eigenvalues are near 1: all but those of few
directions, such as what an intercept and the effects of all categories share. These are found, by Lanczos iterations at
both ends of the spectrum, and the rest is taken as 1.

The diagonal is that of products with random signs z, the mean of z_i (H z)_i, after the largest directions of H are
taken out (Meyer, Musco, Musco & Woodruff 2021).
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
PROBES = ((16, 0), (16, 16), (64, 16))  # for the diagonal in rounds: random signs, and directions that are taken out
POWERS = 2  # products for each of these directions, and one more
SHRINKS = 16.0  # times that a round may change an element of the diagonal
NEAR_ONE = 2.0  # eigenvalues of R between its inverse and it count as 1
RANK, MOST = 16, 64  # directions that are looked for at once, half of them at each end; those that are kept
PRECISE, STEPS = 1e-2, 100  # the relative error of an eigenvalue; restarts of Lanczos, and steps of a solution
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
    expected = sum(signs + (POWERS + 1) * taken for signs, taken in PROBES) + 16 * RANK + 8 * SOLVES
    with Progress(expected, "Finding the curvature", "product", verbose) as progress:
        done = 0

        def product(vector: np.ndarray) -> np.ndarray:
            nonlocal done
            done += 1
            progress.reached(min(done, expected))
            return -some.hessian_product(theta, np.ravel(vector))

        scale = _scale(product, 1 / np.sqrt(np.maximum(diagonal, np.finfo(float).tiny)), rng)
        values, vectors, low, high = _ends(lambda x: scale * product(scale * x), scale.size, rng)
        white, flat = _whitening(scale, values, vectors), FLAT * np.finfo(posterior.model.dtype.as_numpy_dtype).eps
        is_peak = min([low, *values]) > flat
        sds = _sds(white, product, rng) if is_peak else np.full_like(scale, np.nan)
    return Wide(scale, vectors, values, low, high, sds)


def part_of(posterior: Posterior, seed: int) -> Posterior:
    """The posterior from the observations of such passes."""
    return posterior.of(some_of(posterior.data, min(OBSERVATIONS, most_of(posterior.data)), seed))


def _scale(product: Product, scale: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The roots of 1 / diag(-H), from rough ones; each round has the scale that the one before found."""
    for signs, taken in PROBES:

        def of_r(x: np.ndarray, scale: np.ndarray = scale) -> np.ndarray:
            return scale * product(scale * x)

        largest = rng.normal(size=(scale.size, taken))
        for _ in range(POWERS if taken else 0):
            largest = np.linalg.qr(np.stack([of_r(x) for x in largest.T], axis=1))[0]
        diagonal = sum((x * of_r(x) for x in largest.T), np.zeros_like(scale))
        for _ in range(signs):
            z = rng.choice([-1.0, 1.0], size=scale.size)
            diagonal += z * of_r(z - largest @ (largest.T @ z)) / signs
        scale = scale / np.sqrt(np.clip(diagonal, 1 / SHRINKS, SHRINKS))
    return scale


def _ends(of_r: Product, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The eigenvalues of R that are not near 1, with their eigenvectors, and the bounds of all others.

    Lanczos iterations may miss eigenvalues that are nearly equal to others. So those that are found are taken as 1, and
    others are looked for, until there are none.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    values, vectors = np.empty(0), np.empty((d, 0))

    def of_rest(x: np.ndarray) -> np.ndarray:
        along = vectors @ (vectors.T @ x)
        rest = of_r(x - along)
        return rest - vectors @ (vectors.T @ rest) + along

    while True:
        operator = LinearOperator((d, d), matvec=lambda x: of_rest(np.ravel(x)), dtype=np.float64)
        given = {"k": min(RANK, d - 1), "tol": PRECISE, "maxiter": STEPS, "v0": rng.normal(size=d)}
        try:
            found, of_found = eigsh(operator, which="BE", **given)
        except ArpackNoConvergence as error:
            found, of_found = error.eigenvalues, error.eigenvectors
        far = (found < 1 / NEAR_ONE) | (found > NEAR_ONE)
        if not far.any() or len(values) + far.sum() > min(MOST, d - 2):
            return values, vectors, float(found.min(initial=1.0)), float(found.max(initial=1.0))
        values = np.append(values, found[far])
        vectors = np.linalg.qr(np.column_stack([vectors, of_found[:, far]]))[0]


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
        x, _ = cg(operator, z, rtol=SOLVED, maxiter=STEPS)
        rest += white.to_theta(x - z) * white.to_theta(z) / SOLVES
    return np.sqrt(np.maximum(variances + rest, variances / SHRINKS))
