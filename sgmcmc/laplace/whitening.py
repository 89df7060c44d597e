"""Coordinates in which the posterior is white: theta = centre + A phi.

A A^T is near (-H)^-1, with H the Hessian of the log posterior at the centre, possibly from a subset of the data. With
S = diag(-H)^(-1/2) the matrix R = S (-H) S has a unit diagonal in any units of the parameters, and A = S R^(-1/2). For
many elements, R is taken as the unit matrix except along some eigenvectors U, and A = S (I + U f U^T).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.dataset.subset import largest_subset, random_subset
from sgmcmc.laplace.posterior import Posterior

MOST_DENSE = 2000  # the most elements of the parameters for which the whole matrix is computed
FLOPS = 1e11  # a Hessian from N observations costs N D^2; a subset is used beyond this
ROUGH = 1e8  # the same where the coordinates need to be right only up to a factor
FLATTEST = 4.0  # machine epsilons: smaller eigenvalues of R count as 0


class Whitening(NamedTuple):
    root: np.ndarray  # A, [D, D] or its diagonal [D]; S with `vectors`
    not_concave: int = 0  # the number of directions in which the posterior is flat or not concave
    vectors: np.ndarray | None = None  # U, [D, K]
    stretch: np.ndarray | None = None  # f, [K]

    @property
    def sds(self) -> np.ndarray:
        """The posterior standard deviations of theta, [D]; with `vectors`, those by the diagonal alone."""
        return np.sqrt((self.root**2).sum(axis=1)) if self.root.ndim == 2 else self.root

    def to_theta(self, phi: np.ndarray) -> np.ndarray:
        """A phi, for [..., D]."""
        return phi @ self.root.T if self.root.ndim == 2 else self._stretched(phi) * self.root

    def of_gradient(self, gradient: np.ndarray) -> np.ndarray:
        """A^T gradient, the gradient with respect to phi, for [..., D]."""
        return gradient @ self.root if self.root.ndim == 2 else self._stretched(gradient * self.root)

    def newton_step(self, gradient: np.ndarray) -> np.ndarray:
        return self.to_theta(self.of_gradient(gradient))

    def _stretched(self, x: np.ndarray) -> np.ndarray:
        return x if self.vectors is None else x + ((x @ self.vectors) * self.stretch) @ self.vectors.T


NOT_SMOOTH = (
    "declare a parameter that must be positive, such as a scale, in transforms, or begin further inside its domain."
)


def curvature(posterior: Posterior, theta: np.ndarray, seed: int, flops: float = FLOPS) -> np.ndarray:
    """-H at theta, [D, D]; for D > MOST_DENSE an estimate of its diagonal, [D], from squared gradients."""
    some = for_matrices(posterior, seed, flops)
    precision = -some.hessian(theta) if posterior.size <= MOST_DENSE else some.squared_gradients(theta)
    finite = np.isfinite(precision) if precision.ndim == 1 else np.isfinite(precision).all(axis=0)
    if not finite.all():
        bad = {name: theta[e.start : e.stop][~finite[e.start : e.stop]] for name, e in posterior.elements.items()}
        named = ", ".join(f"{name!r} (at {values[0]:.3g})" for name, values in bad.items() if len(values))
        raise ValueError(
            f"params must be where the log posterior has finite second derivatives; on the way to the mode those of "
            f"{named} were NaN or infinite: {some.explained(theta) or NOT_SMOOTH}"
        )
    return precision


def for_matrices(posterior: Posterior, seed: int, flops: float = FLOPS) -> Posterior:
    """The posterior from as many observations as a sum of [D, D] matrices can afford, or from all."""
    rows = n_rows(posterior.size, flops)
    if rows < posterior.data.size:
        rows = min(rows, largest_subset(posterior.data))
    return posterior.of(random_subset(posterior.data, max(rows - rows % posterior.block, posterior.block), seed))


def n_rows(d: int, flops: float) -> int:
    """The number of observations for a Hessian of this cost, with a lower bound."""
    return int(max(1000, 10 * min(d, MOST_DENSE), flops / min(d, MOST_DENSE) ** 2))


def diagonal_of(precision: np.ndarray) -> np.ndarray:
    """The diagonal, [D], of a curvature [D, D] or [D]."""
    return np.diag(precision) if precision.ndim == 2 else precision


def whitening(precision: np.ndarray, dtype: tf.DType, diagonal: bool = False) -> Whitening:
    """A for this curvature, [D, D] or [D], or for its diagonal, if the posterior is computed in `dtype`."""
    on_diagonal = diagonal_of(precision)
    largest = np.abs(on_diagonal).max() or 1.0
    scale = 1 / np.sqrt(np.maximum(np.abs(on_diagonal), 1e-12 * largest))
    if precision.ndim == 1 or diagonal:
        return Whitening(scale, int((on_diagonal <= 0).sum()))
    values, vectors = np.linalg.eigh(precision * scale[:, None] * scale)
    flat = FLATTEST * np.finfo(dtype.as_numpy_dtype).eps
    lifted = np.maximum(np.abs(values), flat)
    return Whitening(scale[:, None] * (vectors / np.sqrt(lifted)) @ vectors.T, int((values <= flat).sum()))
