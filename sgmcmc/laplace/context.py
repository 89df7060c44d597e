"""The error that windows of a series have because they see only the steps shortly before them.

With B steps before a window, its log density v_B differs from the limit for large B by about c rho^B, and so do its
derivatives. With r = rho^B, root mean squares over the windows give

    rms(v_4B - v_2B) / rms(v_2B - v_B) = r (1 + r),

and for the gradients g of the log posterior at the mode, which have the same rate but may have any signs,

    g_oo - g_B = (g_2B - g_B) + (g_4B - g_2B) / (1 - r^2).

Without the last factor a series that forgets slowly would seem to have forgotten: for r near 1, two lengths give nearly
the same gradient. The limit's mode is H^-1 (g_oo - g_B) away. Precisions have limits in the same way, from B and 4B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.core.trees import Tree, joined
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.dataset.subset import random_subset
from sgmcmc.dataset.windows import Windows
from sgmcmc.laplace.high_dimensional import LowRankCurvature
from sgmcmc.laplace.newton import distance
from sgmcmc.laplace.posterior import Posterior, is_finite
from sgmcmc.laplace.search import find_mode
from sgmcmc.laplace.whitening import Whitening, curvature, whitening
from sgmcmc.model import Mode, Model

LARGE, SUFFICIENT = 0.05, 0.02  # of a posterior sd: the shift that is warned of, and that of before="auto"
ROUNDING = 1e-5  # of a window's log density: smaller differences say nothing about the rate
SLOWEST = 0.99  # the largest r that is believed
MOST, STEP = 100, 0.1  # elements of the parameters for a curvature by differences of gradients; posterior sds of a step
ITERATIONS, NEAR = 200, 1.0  # of the climb to the mode by gradients; posterior sds from it that are near enough
WINDOWS, OF_BLOCK = 2**16, 2**10  # the most windows in all, and in a block
FIRST, SEARCHED, LAST = 4, 16, 4096  # the steps that before="auto" tries first, searches the mode with, and tries last

Shapes = Mapping[str, tuple[int, ...]]


class _Look(NamedTuple):
    """The log likelihood of some windows with some steps before them."""

    gradient: np.ndarray  # [D], times N/n
    terms: np.ndarray  # [n]


class _Lengths:
    """The same windows with any number of steps before them."""

    def __init__(self, posterior: Posterior, seed: int) -> None:
        assert isinstance(posterior.model.data, Windows)
        self._posterior, self._data, self._seed = posterior, posterior.model.data, seed
        self._passes: dict[int, FullPass] = {}
        self.scale = self._data.size / min(self._data.size, WINDOWS)

    def look(self, before: int, theta: np.ndarray) -> _Look:
        if before not in self._passes:
            self._passes[before] = self._pass(before)
        full, at = self._passes[before], tf.constant(theta, self._posterior.model.dtype)
        blocks = [[x.numpy().astype(np.float64) for x in block] for block in full([at])]
        return _Look(self.scale * sum(block[0] for block in blocks), np.concatenate([terms for _, terms in blocks]))

    def _pass(self, before: int) -> FullPass:
        some, model = random_subset(self._data.with_before(before), WINDOWS, self._seed), self._posterior.model

        def of_block(words: tf.Tensor, theta: tf.Tensor) -> list[tf.Tensor]:
            params, data = self._posterior.split(theta), some.layout.unpack(words)
            gradient = {name: g[None] for name, g in model.log_lik_gradient(params, data).items()}
            return [joined(gradient)[0], model.log_lik_terms(params, data)]

        return FullPass(some, of_block, OF_BLOCK)

    def precision(self, before: int, theta: np.ndarray, white: Whitening) -> np.ndarray:
        """The precision of the log likelihood where the posterior is white, [D, D]."""
        return _precision(lambda theta: self.look(before, theta).gradient, theta, white.root)


def _precision(gradient: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Minus the Hessian by phi, with theta = root phi, [D, D], by differences of gradients."""
    columns = [gradient(theta - STEP * axis) - gradient(theta + STEP * axis) for axis in root.T]
    matrix = np.array(columns) @ root / (2 * STEP)
    return (matrix + matrix.T) / 2


class _Limit(NamedTuple):
    """The mode with all steps before the windows, relative to that with B of them."""

    shift: np.ndarray  # [D], in posterior sds
    shift_of_twice: np.ndarray  # from that with 2B
    rate: float  # r

    @property
    def size(self) -> np.ndarray:
        """The larger of the two for each element, since one of them may be small by chance, [D]."""
        return np.maximum(np.abs(self.shift), np.abs(self.shift_of_twice))


def _limit(looks: Sequence[_Look], white: Whitening) -> _Limit:
    """From B, 2B and 4B steps."""
    near, far = (np.sqrt(np.mean((b.terms - a.terms) ** 2)) for a, b in pairwise(looks))
    rate = min((np.sqrt(1 + 4 * far / near) - 1) / 2, SLOWEST) if near > ROUNDING else 0.0
    here, there = (b.gradient - a.gradient for a, b in pairwise(looks))
    first, rest = (white.newton_step(x) / white.sds for x in (here, there / (1 - rate**2)))
    return _Limit(first + rest, rest, float(rate))


def with_context_error(of: str, model: Model, shapes: Shapes, mode: Mode, tuning: Tree, seed: int) -> Tree:
    """The tuning with the error of the steps before the windows, after a warning if it is large."""
    data, posterior = model.data, Posterior(model, shapes)
    assert isinstance(data, Windows)
    if data.before >= data.most_before:
        return tuning
    theta, precision = posterior.flat(mode.params), mode.precision
    if precision is None:
        precision = curvature(posterior, theta, seed)
    white = precision.whitening if isinstance(precision, LowRankCurvature) else whitening(precision, model.dtype)
    lengths, before = _Lengths(posterior, seed), max(data.before, 1)
    limit = _limit([lengths.look(n, theta) for n in (data.before, 2 * before, 4 * before)], white)
    if limit.size.max() > LARGE:
        _warn(of, posterior, data.before, limit.size)
    if not tuning:
        return tuning
    tuning = tuning | {"contextShift": posterior.arrays(limit.shift)}
    if white.root.ndim == 2 and posterior.size <= MOST:
        near, far = (lengths.precision(n, theta, white) for n in (data.before, 4 * before))
        whole = np.eye(posterior.size) + (far - near) / (1 - limit.rate**3)
        variances = np.einsum("ij,jk,ik->i", white.root, np.linalg.inv(whole), white.root)
        tuning["contextSdRatio"] = posterior.arrays(np.sqrt(variances) / white.sds)
    return tuning


def _warn(of: str, posterior: Posterior, before: int, size: np.ndarray) -> None:
    named = posterior.names(size == size.max())
    warn_user(
        f"before={before} of windows of {of} is too few steps, since the series remembers its past for longer: with "
        f"more, the posterior mean of {named} is expected to move by up to {size.max():.2g} posterior standard "
        'deviations. before="auto" takes as many as needed.'
    )


def sufficient_before(of: str, model: Model, shapes: Shapes, start: Mapping[str, np.ndarray]) -> int:
    """The first of 4, 8, 16, ... steps whose error is small; the same for all seeds, so that runs can be resumed."""
    data, seed = model.data, 0
    assert isinstance(data, Windows)
    searched = model.over(data.with_before(SEARCHED))
    posterior = Posterior(searched, shapes, random_subset(searched.data, WINDOWS, seed))
    lengths = _Lengths(posterior, seed)
    theta, white = _mode(posterior, lengths, posterior.flat(dict(start)), seed)
    tried, looks = FIRST, list[_Look]()
    while tried < data.most_before:
        looks.append(lengths.look(tried, theta))
        error = _limit(looks[-3:], white).size.max() if len(looks) >= 3 else np.inf
        if error <= SUFFICIENT:
            return tried // 4
        if tried >= 4 * LAST:
            raise ValueError(
                f"before of windows of {of} must be a number, since the error of {LAST} steps before each window is "
                f"still {error:.2g} posterior standard deviations: the series hardly forgets its past. Add the slow "
                "state to params or to the columns, or give a number."
            )
        tried *= 2
    return tried


def _mode(posterior: Posterior, lengths: _Lengths, start: np.ndarray, seed: int) -> tuple[np.ndarray, Whitening]:
    """A point near the mode and the curvature there, if possible from gradients alone, which compile fastest."""

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        look, (value, gradient) = lengths.look(SEARCHED, theta), posterior.prior(theta)
        return lengths.scale * look.terms.sum() + value, look.gradient + gradient

    if posterior.size <= MOST and (found := _climbed_by_gradients(value_and_gradient, start)) is not None:
        return found
    there = find_mode(posterior, start, seed, verbose=False)
    return there.theta, whitening(there.precision, posterior.model.dtype)


def _climbed_by_gradients(
    value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray
) -> tuple[np.ndarray, Whitening] | None:
    from scipy.optimize import minimize  # here, since the import is slow and not always needed

    def minus(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(theta)
        return (-value, -gradient) if is_finite(value, gradient) else (np.inf, np.zeros_like(theta))

    with np.errstate(all="ignore"):
        found = minimize(minus, start, jac=True, method="BFGS", options={"maxiter": ITERATIONS})
        values, vectors = np.linalg.eigh(found.hess_inv)
        if not values[0] > 0:
            return None
        rough = vectors * np.sqrt(values)
        matrix = _precision(lambda theta: -minus(theta)[1], found.x, rough)
    values, vectors = np.linalg.eigh(matrix) if np.isfinite(matrix).all() else (np.zeros(1), rough)
    if not values[0] > 0:
        return None
    white = Whitening(rough @ (vectors / np.sqrt(values)))
    return (found.x, white) if distance(white, found.jac) < NEAR else None
