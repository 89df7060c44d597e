"""Coordinates in which a posterior looks alike in all directions: theta = centre + A phi, with M = A A^T near (-H)^-1.

H is the Hessian of the log posterior at the centre, from as many observations as pay. With S = diag(-H)^(-1/2) the
matrix R = S (-H) S has a unit diagonal whatever the units of the parameters, and A = S R^(-1/2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.dataset.some import some_of
from sgmcmc.laplace.posterior import Posterior

DENSE = 2000  # parameters of which the whole matrix is taken at most
FLOPS = 1e11  # a Hessian of N observations costs N D^2, and some are taken where that is more
ROUGH = 1e8  # the same where coordinates need be good to a factor only
FLATTEST = 4.0  # rounding errors: eigenvalues of R below count as none


class Whitening(NamedTuple):
    """A, [D, D] or the diagonal [D]; and how many directions are flat or not concave: the curvature's size counts."""

    root: np.ndarray
    not_concave: int = 0

    def to_theta(self, phi: np.ndarray) -> np.ndarray:
        """A phi, for [..., D]."""
        return phi @ self.root.T if self.root.ndim == 2 else phi * self.root

    def of_gradient(self, gradient: np.ndarray) -> np.ndarray:
        """A^T gradient: that of the log posterior by phi, for [..., D]."""
        return gradient @ self.root if self.root.ndim == 2 else gradient * self.root


def curvature(posterior: Posterior, theta: np.ndarray, seed: int, flops: float = FLOPS) -> np.ndarray:
    """-H at theta, [D, D]; from D > DENSE on an estimate of its diagonal, [D], by squared gradients."""
    d = posterior.size
    some = posterior.of(some_of(posterior.data, n_rows(d, flops), seed))
    return -some.hessian(theta) if d <= DENSE else some.squared_gradients(theta)


def n_rows(d: int, flops: float) -> int:
    """Observations of which a Hessian costs as much; at least what tells all directions."""
    return int(max(1000, 10 * min(d, DENSE), flops / min(d, DENSE) ** 2))


def whitening(precision: np.ndarray, dtype: tf.DType, diagonal: bool = False) -> Whitening:
    """A for this curvature, [D, D] or [D], computed in `dtype`; of a matrix by its diagonal alone, if `diagonal`."""
    on_diagonal = np.diag(precision) if precision.ndim == 2 else precision
    largest = np.abs(on_diagonal).max(initial=1e-30)
    scale = 1 / np.sqrt(np.maximum(np.abs(on_diagonal), 1e-12 * largest))
    if precision.ndim == 1 or diagonal:
        return Whitening(scale, int((on_diagonal <= 0).sum()))
    values, vectors = np.linalg.eigh(precision * scale[:, None] * scale)
    flat = FLATTEST * np.finfo(dtype.as_numpy_dtype).eps
    lifted = np.maximum(np.abs(values), flat)
    return Whitening(scale[:, None] * (vectors / np.sqrt(lifted)) @ vectors.T, int((values <= flat).sum()))
