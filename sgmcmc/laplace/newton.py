"""Newton steps with a curvature that is known before, each of them checked.

They need no further curvature and only one gradient each, so a curvature from a part of
the observations, or from a point nearby, saves most passes over the data. What is not
good enough shows in the gradient: it does not become shorter as it should.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening

SHRINKS = 0.5  # a step must bring the point this many times as near to the mode, or nearer
ROUNDING = 16  # machine epsilons of the log posterior that a step may lose


class Point(NamedTuple):
    """A point, with the log posterior and its gradient there."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray

    @classmethod
    def of(cls, posterior: Posterior, theta: np.ndarray) -> Point:
        """The point at theta, by one pass."""
        return cls(theta, *posterior.value_and_gradient(theta))

    def distance(self, white: Whitening) -> float:
        """The length of the Newton step from here, in posterior standard deviations."""
        return distance(white, self.gradient)


def distance(white: Whitening, gradient: np.ndarray) -> float:
    """The length of the Newton step where the gradient is this one, in posterior standard deviations."""
    return float(np.linalg.norm(white.of_gradient(gradient)))


def newton(posterior: Posterior, at: Point, white: Whitening, near: float, most: int) -> Point:
    """The point after Newton steps, up to a distance of `near` or the first step that does not help."""
    for _ in range(most):
        if at.distance(white) <= near:
            break
        there = Point.of(posterior, at.theta + white.to_theta(white.of_gradient(at.gradient)))
        lost = ROUNDING * np.finfo(posterior.model.dtype.as_numpy_dtype).eps * abs(at.value)
        if not (there.distance(white) <= SHRINKS * at.distance(white) and there.value >= at.value - lost):
            break
        at = there
    return at
