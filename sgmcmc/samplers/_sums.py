"""Whether a log likelihood is a sum over the observations, by a trial on a few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.dataset.some import some_rows
from sgmcmc.model import Model

SOME = 8  # observations
ADDITIVE = 1e-3  # relative
# Distances from the start: a log likelihood with a prior in it, say, may look like a sum at the start itself.
AROUND = (0.0, 0.1, 1.0)
NOT_A_SUM = (
    "whose gradient for some observations is not the sum of those for their halves. A prior belongs in logPrior; data "
    "are taken from the argument dataset alone; and entries of shapes (n, 1) and (n,) together make a matrix [n, n]."
)


def require_sum(name: str, model: Model, start: Mapping[str, np.ndarray], of: str) -> None:
    """Refuse a log likelihood that is not a sum, which `of` needs.

    Raises
    ------
    ValueError
        If the gradient of some observations is not the sum of those of their halves.
    """
    if not _Trial(model, start).adds_up():
        raise ValueError(f"logLik of {name} must be a sum over the observations, for {of}; got one {NOT_A_SUM}")


def warn_unless_sum(name: str, model: Model, start: Mapping[str, np.ndarray]) -> None:
    """Warn if the log likelihood is not a sum over the observations, and if it looks like a mean, say so."""
    trial = _Trial(model, start)
    if trial.adds_up():
        return
    if trial.is_mean():
        warn_user(
            f"logLik of {name} looks like a mean over the observations: its gradient does not change if "
            f"each of {SOME} observations comes twice. It must be their sum; otherwise the posterior is that of only "
            "N/n observations, with n those of a minibatch, and its standard deviations are about sqrt(n) times too "
            "large."
        )
    else:
        warn_user(f"logLik of {name} should be a sum over the observations; got one {NOT_A_SUM}")


class _Trial:
    """Gradients of the log likelihood for some observations, at points around the start."""

    def __init__(self, model: Model, start: Mapping[str, np.ndarray]) -> None:
        self._points, self._some = list(_around(start)), some_rows(model.data, SOME)
        self._half = min(model.data.size, SOME) // 2
        self._specs = {name: tf.TensorSpec(theta.shape, theta.dtype) for name, theta in start.items()}
        self._model = model
        self._traced: dict[int, Callable[[Tree, Tree], Tree]] = {}  # by the number of observations

    def adds_up(self) -> bool:
        """Whether each gradient is the sum of those for the halves of the observations; one has no halves."""
        if not self._half:
            return True
        halves = [_cut(self._some, part) for part in (slice(self._half), slice(self._half, None))]
        for params in self._points:
            whole, first, second = (self._gradient(params, data) for data in (self._some, *halves))
            if _differ(whole, first + second, first, second):
                return False
        return True

    def is_mean(self) -> bool:
        """Whether repeating all observations changes nothing, and leaving out half of them does."""
        half = _cut(self._some, slice(self._half))
        twice = {name: tf.concat([entry, entry], axis=0) for name, entry in self._some.items()}
        for params in self._points:
            once, again, of_half = (self._gradient(params, data) for data in (self._some, twice, half))
            if not np.isfinite(once).all() or _differ(once, again) or not _differ(once, of_half):
                return False
        return True

    def _gradient(self, params: Tree, data: Tree) -> np.ndarray:
        n = next(iter(data.values())).shape[0]
        if n not in self._traced:
            self._traced[n] = trace(self._model.log_lik_gradient, self._specs, data)
        found = self._traced[n](params, data)
        return np.concatenate([np.ravel(found[name]) for name in sorted(found)])


def _around(start: Mapping[str, np.ndarray]) -> Iterator[Tree]:
    rng = np.random.default_rng(0)
    for scale in AROUND:
        yield {
            name: tf.constant((theta + scale * rng.normal(size=theta.shape)).astype(theta.dtype))
            for name, theta in start.items()
        }


def _cut(data: Tree, part: slice) -> Tree:
    return {name: entry[part] for name, entry in data.items()}


def _differ(x: np.ndarray, y: np.ndarray, *terms: np.ndarray) -> bool:
    """Whether x and y differ by more than rounding, that of their terms included."""
    size = max(np.abs(one).max() for one in (x, y, *terms))
    return bool(np.isfinite(size) and np.abs(x - y).max() > ADDITIVE * size)
