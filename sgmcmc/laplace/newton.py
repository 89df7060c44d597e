"""The climb to the mode: SciPy's trust region from any start, Newton steps near the mode.

Newton steps with one curvature, from part of the observations or from a nearby point, save most passes over the data.
If the curvature is not accurate enough, the gradient does not shrink as it should.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sgmcmc.core.trees import Elements
from sgmcmc.laplace.posterior import Posterior, is_finite
from sgmcmc.laplace.whitening import Whitening

SHRINKS = 0.5  # a step must reduce the distance to the mode at least by this factor
ROUNDING = 16  # machine epsilons of the log posterior that a step may lose


class Point(NamedTuple):
    theta: np.ndarray
    value: float
    gradient: np.ndarray

    @classmethod
    def of(cls, posterior: Posterior, theta: np.ndarray) -> Point:
        return cls(theta, *posterior.value_and_gradient(theta))

    def distance(self, white: Whitening) -> float:
        return distance(white, self.gradient)


def distance(white: Whitening, gradient: np.ndarray) -> float:
    """The length of the Newton step for this gradient, in posterior standard deviations."""
    return float(np.linalg.norm(white.of_gradient(gradient)))


def newton(posterior: Posterior, at: Point, white: Whitening, near: float, most: int) -> Point:
    """The point after Newton steps, which end at a distance of `near` or before the first step that does not help."""
    for _ in range(most):
        if at.distance(white) <= near:
            break
        there = Point.of(posterior, at.theta + white.newton_step(at.gradient))
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
        return (-value if is_finite(value, gradient) else np.inf), gradient

    def product(phi: np.ndarray, vector: np.ndarray) -> np.ndarray:
        along = posterior.hessian_product(theta + white.to_theta(phi), white.to_theta(vector))
        # Where the product is not finite, use the curvature at the start.
        return -white.of_gradient(along) if np.isfinite(along).all() else vector

    last, n_rejected = np.zeros_like(theta), 0

    def stop_if_stuck(intermediate_result: Any) -> None:  # when rounding hides the progress
        nonlocal last, n_rejected
        n_rejected = n_rejected + 1 if np.array_equal(intermediate_result.x, last) else 0
        last = intermediate_result.x.copy()
        if n_rejected >= STUCK:
            raise StopIteration

    from scipy.optimize import minimize  # here, since the import is slow and not always needed

    options = {"gtol": near, "maxiter": STEPS, "initial_trust_radius": np.sqrt(theta.size), "max_trust_radius": 1e6}
    found = minimize(
        value_and_gradient, last, jac=True, hessp=product, method="trust-ncg", callback=stop_if_stuck, options=options
    )
    return theta + white.to_theta(found.x)


def require_density(posterior: Posterior, theta: np.ndarray) -> None:
    value, gradient = posterior.value_and_gradient(theta)
    if is_finite(value, gradient):
        return
    what = "its gradient is not finite" if np.isfinite(value) else f"it is {value}"
    nearby, because = _nearby(posterior, theta), posterior.explained(theta)
    detail = f"{'. In detail, ' if nearby else ': '}{because}" if because else "."
    raise ValueError(
        "params must be a point with a finite log posterior for an automatic search for the mode; there "
        f"{what}{nearby}{detail}"
    )


def _nearby(posterior: Posterior, theta: np.ndarray) -> str:
    """Names the parameters at the edge of their domain: a little further on the log posterior is finite."""

    def is_inside(e: Elements, nudge: float) -> bool:
        nudged = theta.copy()
        nudged[e.start : e.stop] += nudge * (1 + np.abs(nudged[e.start : e.stop]))
        return is_finite(*posterior.value_and_gradient(nudged))

    names = [name for name, e in posterior.elements.items() if is_inside(e, NUDGE) or is_inside(e, -NUDGE)]
    if not names:
        return ""
    return f", but it is finite nearby, at another {' or '.join(map(repr, names))}: begin inside the domain"
