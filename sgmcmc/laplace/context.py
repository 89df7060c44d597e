"""The error that windows of a series have because they see only the steps shortly before them.

With B steps before a window, the gradient g_B of the log posterior differs from its limit for large B by about c rho^B.
So with r = rho^B and differences of gradients at the mode,

    |g_4B - g_2B| / |g_2B - g_B| = r (1 + r),    g_oo - g_B = (g_2B - g_B) + (g_4B - g_2B) / (1 - r^2),

which gives r and the limit. Without the last factor a series that forgets slowly would seem to have forgotten: for r
near 1, two lengths give nearly the same gradient. Norms are those of the posterior, |g|^2 = g' H^-1 g, and the limit's
mode is H^-1 (g_oo - g_B) away. Logarithms of standard deviations have limits in the same way, from B and 4B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sgmcmc.core.errors import warn_user
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.subset import random_subset
from sgmcmc.dataset.windows import Windows
from sgmcmc.laplace.high_dimensional import LowRankCurvature
from sgmcmc.laplace.newton import distance
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.search import find_mode
from sgmcmc.laplace.whitening import Whitening, curvature, for_matrices, whitening
from sgmcmc.model import Mode, Model

LARGE, SUFFICIENT = 0.05, 0.02  # of a posterior sd: the shift that is warned of, and that of before="auto"
ROUNDING = 1e-3  # of a posterior sd: smaller differences of gradients tell nothing of the rate
SLOWEST = 0.99  # the largest r that is believed
MOST = 500  # elements of the parameters, for a second Hessian
WINDOWS = 2**16  # at most, for gradients
FIRST, SEARCHED, LAST = 4, 16, 4096  # the steps that before="auto" tries first, searches the mode with, and tries last

Shapes = Mapping[str, tuple[int, ...]]


def rate(here: np.ndarray, there: np.ndarray, white: Whitening) -> float:
    """The r of the differences g_2B - g_B and g_4B - g_2B."""
    near, far = distance(white, here), distance(white, there)
    return min((np.sqrt(1 + 4 * far / near) - 1) / 2, SLOWEST) if near > ROUNDING else 0.0


def shift(gradients: Sequence[np.ndarray], white: Whitening) -> np.ndarray:
    """How far the limit's mode is from that for B, in posterior sds, [D], by the gradients for B, 2B and 4B."""
    here, there = np.diff(gradients, axis=0)
    sds = np.sqrt((white.root**2).sum(axis=1)) if white.root.ndim == 2 else white.root
    return white.newton_step(here + there / (1 - rate(here, there, white) ** 2)) / sds


class _Lengths:
    """The posterior of some of the windows, the same ones for any number of steps before them."""

    def __init__(self, model: Model, shapes: Shapes, seed: int) -> None:
        assert isinstance(model.data, Windows)
        self._model, self._shapes, self._seed, self._data = model, shapes, seed, model.data
        self._posteriors: dict[int, Posterior] = {}

    def posterior(self, before: int) -> Posterior:
        if before not in self._posteriors:
            model = self._model.over(self._data.with_before(before))
            some = random_subset(model.data, WINDOWS, self._seed)
            one = self._posteriors[before] = Posterior(model, self._shapes, some)
            one.share_prior(next(iter(self._posteriors.values())))
        return self._posteriors[before]

    def gradient(self, before: int, theta: np.ndarray) -> np.ndarray:
        return self.posterior(before).value_and_gradient(theta)[1]


def with_context_error(of: str, model: Model, shapes: Shapes, mode: Mode, tuning: Tree, seed: int) -> Tree:
    """The tuning with the error of the steps before the windows, after a warning if it is large."""
    data = model.data
    assert isinstance(data, Windows)
    if data.sees_all:
        return tuning
    before, whole = max(data.before, 1), Posterior(model, shapes)
    theta, precision = whole.flat(mode.params), mode.precision
    if precision is None:
        precision = curvature(whole, theta, seed)
    white = precision.whitening if isinstance(precision, LowRankCurvature) else whitening(precision, model.dtype)
    lengths = _Lengths(model, shapes, seed)
    gradients = [lengths.gradient(n, theta) for n in (data.before, 2 * before, 4 * before)]
    shifts = shift(gradients, white)
    if np.abs(shifts).max() > LARGE:
        _warn(of, whole, data.before, shifts)
    if not tuning:
        return tuning
    found = {"contextShift": whole.arrays(shifts)}
    if isinstance(precision, np.ndarray) and precision.ndim == 2 and whole.size <= MOST:
        here, there = np.diff(gradients, axis=0)
        near, far = (
            np.diag(np.linalg.inv(-for_matrices(lengths.posterior(n), seed).hessian(theta)))
            for n in (data.before, 4 * before)
        )
        found["contextSdRatio"] = whole.arrays((far / near) ** (0.5 / (1 - rate(here, there, white) ** 3)))
    return tuning | found


def _warn(of: str, posterior: Posterior, before: int, shifts: np.ndarray) -> None:
    size = np.abs(shifts)
    named = posterior.names(size == size.max())
    warn_user(
        f"before={before} of windows of {of} is too few steps: with more, the posterior mean of {named} is expected to "
        f"move by {size.max():.2g} posterior standard deviations, since the series remembers its past for longer. "
        'before="auto" takes as many as needed.'
    )


def sufficient_before(of: str, model: Model, shapes: Shapes, start: Mapping[str, np.ndarray], seed: int) -> int:
    """The first of 4, 8, 16, ... steps whose error is small."""
    lengths, data = _Lengths(model, shapes, seed), model.data
    assert isinstance(data, Windows)
    posterior = lengths.posterior(SEARCHED)
    found = find_mode(posterior, posterior.flat(dict(start)), seed, verbose=False)
    white = whitening(found.precision, model.dtype)
    tried, gradients = FIRST, list[np.ndarray]()
    while not data.with_before(tried).sees_all:
        gradients.append(lengths.gradient(tried, found.theta))
        if len(gradients) >= 3 and np.abs(shift(gradients[-3:], white)).max() <= SUFFICIENT:
            return tried // 4
        if tried > 4 * LAST:
            raise ValueError(
                f"before of windows of {of} must be a number, since the error of {LAST} steps before each window is "
                f"still {np.abs(shift(gradients[-3:], white)).max():.2g} posterior standard deviations: the series "
                "hardly forgets its past. Add the slow state to params or to the columns, or give a number."
            )
        tried *= 2
    return tried
