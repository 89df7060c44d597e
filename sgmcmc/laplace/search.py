"""The automatic search for the mode, in few passes over the observations.

The first stage climbs on about a thousand observations. Each further stage has ten times as many, and needs few Newton
steps, since the one before ended within its sampling error. The last stage has all N, and first uses the curvature of
the one before. Where Newton steps do not help, a stage climbs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sgmcmc.core.progress import Progress
from sgmcmc.dataset.subset import largest_subset, random_subset
from sgmcmc.laplace.mode_diagnostics import far_from
from sgmcmc.laplace.newton import Point, climbed, distance, newton, require_density
from sgmcmc.laplace.posterior import Posterior, fewest_to_locate
from sgmcmc.laplace.whitening import ROUGH, Whitening, curvature, diagonal_of, whitening

GROWTH = 10  # the factor from each stage to the next
MOST = 10**6  # observations of a stage: they give the curvature within sqrt(D) 0.1%
WORTHWHILE = 3  # a stage on part of the observations saves time if there are more than this many times as many
ENOUGH = 0.2  # of the sampling error of a stage's observations
CLOSE, NEAR = 0.5, 0.02  # sds from the mode: in each direction, for the last curvature; in all together, at the end
ROUNDS = 4  # climbs, each with the curvature where the one before ended
NEWTON = 4  # steps with one curvature
OF_PART, OF_ALL, OF_CLIMB = 5, 4, 20  # passes that stages are expected to make, for the display


class SearchResult(NamedTuple):
    theta: np.ndarray  # the mode, [D]
    gradient: np.ndarray
    precision: np.ndarray  # near the mode, [D, D] or [D]
    first_precision: np.ndarray  # at the start of the search


def find_mode(posterior: Posterior, start: np.ndarray, seed: int, verbose: bool) -> SearchResult:
    theta, sizes = start, sizes_of_stages(posterior)
    expected = sum(OF_PART * size for size in sizes[1:]) / posterior.data.size + OF_ALL
    expected = expected + OF_CLIMB * sizes[0] / posterior.data.size if sizes else float(OF_CLIMB)
    with (
        Progress(expected, "Finding the mode", "pass", verbose) as progress,
        np.errstate(over="ignore", invalid="ignore", divide="ignore"),  # from steps that go too far, which are rejected
    ):
        posterior.passes.watch = lambda done: progress.reached(round(min(done, 0.99 * expected), 1))
        precision = first = white = None
        for stage, size in enumerate(sizes):
            part = posterior.of(random_subset(posterior.data, size, seed + stage))
            if stage == 0:
                require_density(part, theta)
            precision = _with_scale(part, theta, curvature(part, theta, seed, ROUGH))
            first = precision if first is None else first
            white = whitening(precision, posterior.model.dtype)
            error = np.sqrt(posterior.data.size / size * posterior.size)
            theta = _in_part(part, theta, white, ENOUGH * error, climbs=stage == 0)
        found = _in_all(posterior, theta, white, seed)
        progress.reached(expected)
        posterior.passes.watch = None
    return found if first is None else found._replace(first_precision=first)


def sizes_of_stages(posterior: Posterior) -> list[int]:
    """The observations of the stages before the last, in multiples of a block."""
    block, n_data, sizes = posterior.block, posterior.data.size, list[int]()
    first, size = -(-fewest_to_locate(posterior.size) // block) * block, n_data // GROWTH
    most = min(MOST, largest_subset(posterior.data))
    while size > 2 * first:
        if size <= most:
            sizes.insert(0, size - size % block)
        size //= GROWTH
    return [first, *sizes] if WORTHWHILE * first < n_data else []


def _in_part(posterior: Posterior, theta: np.ndarray, white: Whitening, near: float, climbs: bool) -> np.ndarray:
    if not climbs and white.root.ndim == 2:
        at = newton(posterior, Point.of(posterior, theta), white, near, NEWTON)
        if at.distance(white) <= near:
            return at.theta
        theta = at.theta
    return climbed(posterior, theta, white, near)


def _in_all(posterior: Posterior, theta: np.ndarray, rough: Whitening | None, seed: int) -> SearchResult:
    """The end of the search, with the curvature at a point within a fraction of a standard deviation from it."""
    if rough is None or rough.root.ndim == 1:
        require_density(posterior, theta)
        first = _with_scale(posterior, theta, curvature(posterior, theta, seed, ROUGH))
        found = _climbed_to(posterior, theta, whitening(first, posterior.model.dtype), seed)
        return found._replace(first_precision=first)
    at = newton(posterior, Point.of(posterior, theta), rough, CLOSE * np.sqrt(posterior.size), NEWTON)
    found, white = _polished(posterior, at, seed)
    if white.not_concave or distance(white, found.gradient) > far_from(found.precision):
        found = _climbed_to(posterior, found.theta, white, seed)
    return found


def _climbed_to(posterior: Posterior, theta: np.ndarray, white: Whitening, seed: int) -> SearchResult:
    found, far = None, np.inf
    for _ in range(ROUNDS):
        theta = climbed(posterior, theta, white, NEAR * np.sqrt(posterior.size))
        there, white = _polished(posterior, Point.of(posterior, theta), seed)
        left = distance(white, there.gradient)
        if found is not None and not left < far:
            break
        found, far, theta = there, left, there.theta
        if far <= far_from(there.precision):
            break
    assert found is not None
    return found


def _with_scale(posterior: Posterior, theta: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The curvature, with squared gradients where it is 0, so that steps have some scale there."""
    flat = diagonal_of(precision) == 0
    if not flat.any():
        return precision
    squares = posterior.of(random_subset(posterior.data, posterior.block, 0)).scores(theta)
    scale = np.where(flat, np.where(squares > 0, squares, 1.0), 0.0)
    return precision + (np.diag(scale) if precision.ndim == 2 else scale)


def _polished(posterior: Posterior, at: Point, seed: int) -> tuple[SearchResult, Whitening]:
    """The point after Newton steps with the curvature at their start."""
    precision = curvature(posterior, at.theta, seed)
    white = whitening(precision, posterior.model.dtype)
    if not white.not_concave and precision.ndim == 2:
        at = newton(posterior, at, white, NEAR, NEWTON)
    return SearchResult(at.theta, at.gradient, precision, precision), white
