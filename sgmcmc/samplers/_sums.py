"""Whether a log likelihood is a sum over the observations, by a trial on a few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.dataset.data import Data
from sgmcmc.dataset.remote import Remotes
from sgmcmc.dataset.some import some_rows
from sgmcmc.samplers._trial import HALF, WHOLE, Trial

ADDITIVE = 1e-3  # relative
# Distances from the start: a log likelihood with a prior in it, say, may look like a sum at the start itself.
AROUND = (0.0, 0.1, 1.0)
Gradient = Callable[[Tree, Tree], Tree]
NOT_A_SUM = (
    "whose gradient for some observations is not the sum of those for their halves. A prior belongs in logPrior; data "
    "are taken from the argument dataset alone; and entries of shapes (n, 1) and (n,) together make a matrix [n, n]. "
    "Nor may the term of an observation use other observations: give lags of a series as further columns of dataset. A "
    "Cox partial likelihood uses them too; a parametric or piecewise constant hazard does not."
)
A_MEAN = (
    f"looks like a mean over the observations: its gradient does not change if each of {HALF} observations comes "
    "twice. It must be their sum, as of tf.reduce_sum, or a vector with a term for each"
)


class Sums:
    """Gradients of the log likelihood for some observations, at points around the start.

    Parameters
    ----------
    whole, half : callable
        ``(params, data) -> gradient`` for `WHOLE` and for `HALF` observations.
    data : Data
    start : mapping of str to numpy.ndarray
    """

    def __init__(self, whole: Gradient, half: Gradient, data: Data, start: Mapping[str, np.ndarray]) -> None:
        self._whole, self._half, self._points = whole, half, list(_around(start))
        rows = some_rows(data, WHOLE)
        some = {name: x.numpy()[_in_halves(len(x))] for name, x in rows.items()}
        self._some = {name: tf.constant(x) for name, x in some.items()}
        self._halves = [{name: x[part] for name, x in self._some.items()} for part in (slice(HALF), slice(HALF, None))]

    def add_up(self) -> bool:
        """Whether each gradient is the sum of those for the halves of the observations."""
        for params in self._points:
            whole = _flat(self._whole(params, self._some))
            first, second = (_flat(self._half(params, half)) for half in self._halves)
            if _differ(whole, first + second, first, second):
                return False
        return True

    def are_means(self) -> bool:
        """Whether repeating all observations changes nothing, and leaving out half of them does."""
        twice = {name: tf.concat([x, x], axis=0) for name, x in self._halves[0].items()}
        for params in self._points:
            once, again = _flat(self._half(params, self._halves[0])), _flat(self._whole(params, twice))
            both = _flat(self._whole(params, self._some))
            if not np.isfinite(once).all() or _differ(once, again) or not _differ(once, both):
                return False
        return True


class Told(NamedTuple):
    """The same, as the worker of a shard found it."""

    adds_up: bool
    is_mean: bool

    def add_up(self) -> bool:
        """Whether each gradient is the sum of those for the halves of the observations."""
        return self.adds_up

    def are_means(self) -> bool:
        """Whether repeating all observations changes nothing, and leaving out half of them does."""
        return self.is_mean


def sums_of(trial: Trial, start: Mapping[str, np.ndarray]) -> Sums | Told:
    """Those of the functions of a trial, where the observations are."""
    if isinstance(trial.data, Remotes):
        return trial.data.parts[0].asked(_tested, (replace(trial), start))  # without what was traced here
    return Sums(trial.whole.gradient, trial.half.gradient, trial.data, start)


def _tested(data: Data, given: tuple[Trial, Mapping[str, np.ndarray]]) -> Told:
    trial, start = given
    sums = sums_of(replace(trial, data=data), start)
    adds_up = sums.add_up()
    return Told(adds_up, not adds_up and sums.are_means())


def require_sum(name: str, sums: Sums | Told, of: str) -> None:
    """Refuse a log likelihood that is not a sum, which `of` needs.

    Raises
    ------
    ValueError
        If the gradient of some observations is not the sum of those of their halves.
    """
    if sums.add_up():
        return
    if sums.are_means():
        raise ValueError(f"logLik of {name} {A_MEAN}.")
    raise ValueError(f"logLik of {name} must be a sum over the observations, for {of}; got one {NOT_A_SUM}")


def warn_unless_sum(name: str, sums: Sums | Told) -> None:
    """Warn if the log likelihood is not a sum over the observations, and if it looks like a mean, say so."""
    if sums.add_up():
        return
    if sums.are_means():
        warn_user(
            f"logLik of {name} {A_MEAN}; otherwise the posterior is that of only N/n observations, with n those of a "
            "minibatch, and its standard deviations are about sqrt(n) times too large."
        )
    else:
        warn_user(f"logLik of {name} should be a sum over the observations; got one {NOT_A_SUM}")


def _around(start: Mapping[str, np.ndarray]) -> Iterator[Tree]:
    rng = np.random.default_rng(0)
    for scale in AROUND:
        yield {
            name: tf.constant((theta + scale * rng.normal(size=theta.shape)).astype(theta.dtype))
            for name, theta in start.items()
        }


def _flat(gradient: Tree) -> np.ndarray:
    return np.concatenate([np.ravel(gradient[name]) for name in sorted(gradient)])


def _differ(x: np.ndarray, y: np.ndarray, *terms: np.ndarray) -> bool:
    """Whether x and y differ by more than rounding, that of their terms included."""
    size = max(np.abs(one).max() for one in (x, y, *terms))
    return bool(np.isfinite(size) and np.abs(x - y).max() > ADDITIVE * size)


def _in_halves(n: int) -> np.ndarray:
    """`WHOLE` indices of n observations, of the first half of them and then of the second.

    Fewer come several times, since a sum adds up for them too, but none in both halves.
    """
    steps = np.arange(HALF)
    return np.concatenate([steps * max(n // 2, 1) // HALF, n // 2 + steps * (n - n // 2) // HALF])
