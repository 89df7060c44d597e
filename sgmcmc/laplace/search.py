"""The search for the mode without settings, by SciPy's trust-region method.

Each stage uses ten times the observations of the stage before. It whitens the
coordinates by the curvature at its start, and ends when the steps are short relative to
the error from using a subset. The last stage uses all N observations. Full Newton steps
follow. They need only the gradient: the rounding of the log posterior hides the last
hundredths of a standard deviation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sgmcmc.core.progress import Progress
from sgmcmc.dataset.some import some_of
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import ROUGH, Whitening, curvature, whitening

FIRST, GROWTH = 1000, 10  # the fewest observations of the first stage, and the factor from each stage to the next
NEAR = 0.02  # posterior standard deviations
STEPS, STUCK = 200, 4  # most steps of a stage; and rejected steps in a row that end it
NEWTON = 4  # steps at the end


def find_mode(posterior: Posterior, start: np.ndarray, seed: int, verbose: bool) -> tuple[np.ndarray, np.ndarray]:
    """The mode and the curvature there, [D] and [D, D] or [D].

    Raises
    ------
    ValueError
        If the log posterior is not finite at the start.
    """
    theta, sizes = start, _sizes(posterior)
    with Progress(len(sizes), "Finding the mode", "stage", verbose) as progress:
        for stage, size in enumerate(sizes):
            part = (
                posterior.of(some_of(posterior.data, size, seed + stage)) if size < posterior.data.size else posterior
            )
            white = whitening(curvature(part, theta, seed, ROUGH), posterior.model.dtype)
            theta = _climbed(part, theta, white, NEAR * np.sqrt(posterior.data.size / size * posterior.size))
            progress.reached(stage + 1)
    return _polished(posterior, theta, seed)


def distance(white: Whitening, gradient: np.ndarray) -> float:
    """The length of a Newton step to the mode, in posterior standard deviations."""
    return float(np.linalg.norm(white.of_gradient(gradient)))


def _sizes(posterior: Posterior) -> list[int]:
    sizes, size = [], max(FIRST, 20 * min(posterior.size, FIRST))
    while size * GROWTH < posterior.data.size:
        sizes.append(size)
        size *= GROWTH
    return [*sizes, posterior.data.size]


def _climbed(posterior: Posterior, theta: np.ndarray, white: Whitening, near: float) -> np.ndarray:
    """The end of the search, where the gradient by phi is below `near`."""

    def value_and_gradient(phi: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = posterior.value_and_gradient(theta + white.to_theta(phi))
        gradient = -white.of_gradient(gradient)
        # The trust region rejects a step to infinity; it would accept one to NaN.
        return (-value, gradient) if np.isfinite(value) and np.isfinite(gradient).all() else (np.inf, gradient)

    def product(phi: np.ndarray, vector: np.ndarray) -> np.ndarray:
        along = posterior.hessian_product(theta + white.to_theta(phi), white.to_theta(vector))
        return -white.of_gradient(along)

    if not np.isfinite(value_and_gradient(np.zeros_like(theta))[0]):
        raise ValueError(
            "params must be a point with a finite log posterior, for an automatic search for the mode; there it is "
            f"{posterior.value_and_gradient(theta)[0]}."
        )
    from scipy import optimize  # here, since the import is slow and not always needed

    stuck = _Stuck(np.zeros_like(theta))
    found = optimize.minimize(
        value_and_gradient,
        np.zeros_like(theta),
        jac=True,
        hessp=product,
        method="trust-ncg",
        callback=stuck,
        options={"gtol": near, "maxiter": STEPS, "initial_trust_radius": np.sqrt(theta.size), "max_trust_radius": 1e6},
    )
    return theta + white.to_theta(found.x)


class _Stuck:
    """Ends a search after rejected steps: rounding then hides their progress."""

    def __init__(self, start: np.ndarray) -> None:
        self._last, self._count = start, 0

    def __call__(self, intermediate_result: Any) -> None:
        self._count = self._count + 1 if np.array_equal(intermediate_result.x, self._last) else 0
        self._last = intermediate_result.x.copy()
        if self._count >= STUCK:
            raise StopIteration


def _polished(posterior: Posterior, theta: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The point after some short Newton steps, with the curvature at their start."""
    precision = curvature(posterior, theta, seed)
    white = whitening(precision, posterior.model.dtype)
    gradient = posterior.value_and_gradient(theta)[1]
    for _ in range(NEWTON):
        if distance(white, gradient) <= NEAR or white.not_concave or precision.ndim == 1:
            break
        candidate = theta + white.to_theta(white.of_gradient(gradient))
        there = posterior.value_and_gradient(candidate)[1]
        if not distance(white, there) < distance(white, gradient):
            break
        theta, gradient = candidate, there
    return theta, precision
