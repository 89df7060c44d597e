"""The climb to the mode from anywhere, by SciPy's trust-region method."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening

STEPS, STUCK = 200, 4  # the most steps; and rejected steps in a row that end it
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
        # One that is not finite says nothing; then the curvature is taken as that at the start.
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
    """Refuse a start without a finite log posterior and gradient.

    Raises
    ------
    ValueError
        Saying what it is there.
    """
    value, gradient = posterior.value_and_gradient(theta)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        what = f"it is {value}" if not np.isfinite(value) else "its gradient is not finite"
        nearby, because = _nearby(posterior, theta), posterior.explained(theta)
        detail = f"{'. In detail, ' if nearby else ': '}{because}" if because else "."
        raise ValueError(
            "params must be a point with a finite log posterior, for an automatic search for the mode; there "
            f"{what}{nearby}{detail}"
        )


def _nearby(posterior: Posterior, theta: np.ndarray) -> str:
    """Which parameters are at an end of their domain: the log posterior is finite a bit further on."""
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
    return f", but not nearby, with another {' or '.join(map(repr, names))}: begin inside of the domain"


class _Stuck:
    """Ends a climb after rejected steps: rounding then hides its progress."""

    def __init__(self, start: np.ndarray) -> None:
        self._last, self._count = start, 0

    def __call__(self, intermediate_result: Any) -> None:
        self._count = self._count + 1 if np.array_equal(intermediate_result.x, self._last) else 0
        self._last = intermediate_result.x.copy()
        if self._count >= STUCK:
            raise StopIteration
