"""The climb to the mode: SciPy's trust region from any start, Newton steps near the mode.

Newton steps reuse one curvature and need one gradient each, so a curvature from part of
the observations, or from a nearby point, saves most passes over the data. If it is not
accurate enough, the gradient does not shrink as it should.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening

SHRINKS = 0.5  # a step must reduce the distance to the mode at least by this factor
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
    """The length of the Newton step for this gradient, in posterior standard deviations."""
    return float(np.linalg.norm(white.of_gradient(gradient)))


def newton(posterior: Posterior, at: Point, white: Whitening, near: float, most: int) -> Point:
    """The point after Newton steps, which end at a distance of `near` or before the first step that does not help."""
    for _ in range(most):
        if at.distance(white) <= near:
            break
        there = Point.of(posterior, at.theta + white.to_theta(white.of_gradient(at.gradient)))
        lost = ROUNDING * np.finfo(posterior.model.dtype.as_numpy_dtype).eps * abs(at.value)
        if not (there.distance(white) <= SHRINKS * at.distance(white) and there.value >= at.value - lost):
            break
        at = there
    return at


STEPS, STUCK = 200, 4  # the most steps; consecutive rejected steps that end the climb
NUDGE = 1e-2


def climbed(posterior: Posterior, theta: np.ndarray, white: Whitening, near: float) -> np.ndarray:
    """The end of the climb from theta, where the gradient in the coordinates of `white` is below `near`."""

    def value_and_gradient(phi: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = posterior.value_and_gradient(theta + white.to_theta(phi))
        gradient = -white.of_gradient(gradient)
        # The trust region rejects a step to infinity; it would accept one to NaN.
        return (-value, gradient) if np.isfinite(value) and np.isfinite(gradient).all() else (np.inf, gradient)

    def product(phi: np.ndarray, vector: np.ndarray) -> np.ndarray:
        along = posterior.hessian_product(theta + white.to_theta(phi), white.to_theta(vector))
        # Where the product is not finite, use the curvature at the start.
        return -white.of_gradient(along) if np.isfinite(along).all() else vector

    from scipy import optimize  # here, since the import is slow and not always needed

    options = {"gtol": near, "maxiter": STEPS, "initial_trust_radius": np.sqrt(theta.size), "max_trust_radius": 1e6}
    found = optimize.minimize(
        value_and_gradient,
        np.zeros_like(theta),
        jac=True,
        hessp=product,
        method="trust-ncg",
        callback=_Stuck(np.zeros_like(theta)),
        options=options,
    )
    return theta + white.to_theta(found.x)


def require_density(posterior: Posterior, theta: np.ndarray) -> None:
    """Refuse a start at which the log posterior or its gradient is not finite."""
    value, gradient = posterior.value_and_gradient(theta)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        what = f"it is {value}" if not np.isfinite(value) else "its gradient is not finite"
        nearby, because = _nearby(posterior, theta), posterior.explained(theta)
        detail = f"{'. In detail, ' if nearby else ': '}{because}" if because else "."
        raise ValueError(
            "params must be a point with a finite log posterior for an automatic search for the mode; there "
            f"{what}{nearby}{detail}"
        )


def _nearby(posterior: Posterior, theta: np.ndarray) -> str:
    """Names the parameters at the edge of their domain: a little further on the log posterior is finite."""
    names = []
    for name, e in posterior.elements.items():
        for nudge in (NUDGE, -NUDGE):
            inside = theta.copy()
            inside[e.start : e.stop] += nudge * (1 + np.abs(inside[e.start : e.stop]))
            value, gradient = posterior.value_and_gradient(inside)
            if np.isfinite(value) and np.isfinite(gradient).all():
                names.append(name)
                break
    if not names:
        return ""
    return f", but it is finite nearby, at another {' or '.join(map(repr, names))}: begin inside the domain"


class _Stuck:
    """Ends a climb after several rejected steps, when rounding hides its progress."""

    def __init__(self, start: np.ndarray) -> None:
        self._last, self._count = start, 0

    def __call__(self, intermediate_result: Any) -> None:
        self._count = self._count + 1 if np.array_equal(intermediate_result.x, self._last) else 0
        self._last = intermediate_result.x.copy()
        if self._count >= STUCK:
            raise StopIteration
