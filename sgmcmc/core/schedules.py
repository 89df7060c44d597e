"""Stepsizes that change with the iteration, in place of a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeGuard

import numpy as np
import tensorflow as tf

Schedule = Callable[[tf.Tensor], tf.Tensor]
"""A function from the iteration (a float scalar, 0 for the first) to its stepsize."""


def _is_number(value: object) -> bool:
    return isinstance(value, Real | np.number) and not isinstance(value, bool)


def _require(schedule: object, name: str, must: str, fits: bool) -> None:
    if not fits:
        raise ValueError(f"{name} of {type(schedule).__name__} must be {must}; got {getattr(schedule, name)!r}.")


def first(stepsize: float | Schedule, dtype: tf.DType) -> float:
    """The stepsize of the first iteration."""
    return float(stepsize(tf.constant(0, dtype))) if callable(stepsize) else stepsize


def explores(stepsize: object) -> TypeGuard[cyclical]:
    """Whether the stepsize has iterations without noise."""
    return isinstance(stepsize, cyclical) and stepsize.explorationFraction > 0


def exploring(stepsizes: Mapping[str, float | Schedule]) -> dict[str, cyclical]:
    return {name: eps for name, eps in stepsizes.items() if explores(eps)}


def fixed_stepsizes(stepsizes: Mapping[str, float | Schedule], n_chains: int, dtype: tf.DType) -> tf.Tensor:
    """The stepsizes of all parameters in order of name, [P, C]; NaN for those that change."""
    fixed = [np.nan if callable(stepsizes[name]) else stepsizes[name] for name in sorted(stepsizes)]
    return tf.constant([[eps] * n_chains for eps in fixed], dtype)


def stepsizes_at(
    fixed: tf.Tensor, schedules: Mapping[str, Schedule], names: Sequence[str], iteration: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The stepsizes of an iteration, {name: [C]}: the fixed ones, and those of the schedules."""
    values = dict(zip(names, tf.unstack(fixed), strict=True))
    at = tf.cast(iteration, fixed.dtype)
    for name, schedule in schedules.items():
        # Without the hint, Python's numbers would become float32 first.
        eps = tf.cast(tf.convert_to_tensor(schedule(at), dtype_hint=fixed.dtype), fixed.dtype)
        values[name] = tf.fill([fixed.shape[1]], eps)
    return values


@dataclass(frozen=True)
class polynomial:  # noqa: N801 - reads as a function where it is used
    """Polynomially decreasing stepsizes, h_k = h (1 + k/a)^(-b) for iterations k = 0, 1, 2, ...

    Parameters
    ----------
    h : float
        The first stepsize, positive, on the scale of `stepsize`.
    a : float
        The number of iterations after which the stepsize is h / 2^b. Positive.
    b : float
        The rate of the decrease, at least 0. Welling & Teh (2011) use b in (0.5, 1],
        which removes the bias in the limit.

    Examples
    --------
    >>> from sgmcmc import polynomial
    >>> polynomial(1e-4, a=1000, b=0.6)
    polynomial(h=0.0001, a=1000, b=0.6)
    """

    h: float
    a: float
    b: float

    def __post_init__(self) -> None:
        _require(self, "h", "finite and positive", _is_number(self.h) and 0 < self.h < math.inf)
        _require(self, "a", "finite and positive", _is_number(self.a) and 0 < self.a < math.inf)
        _require(self, "b", "finite and at least 0", _is_number(self.b) and 0 <= self.b < math.inf)

    def __call__(self, iteration: tf.Tensor) -> tf.Tensor:
        """The stepsize of an iteration, counted from 0."""
        return self.h * (1.0 + iteration / self.a) ** (-self.b)


@dataclass(frozen=True)
class cyclical:  # noqa: N801
    """Stepsizes that fall along a cosine from h to nearly 0 in each cycle.

    h_k = h/2 (cos(pi r) + 1) (Zhang et al. 2020, eq. 1), where r = (k mod
    cycleLength)/cycleLength is the position of iteration k in its cycle. The large
    steps at the beginning of a cycle lead to other modes, and the small steps at its
    end sample there. Weight the draws by their stepsize, as
    ``out.summary(weighted=True)`` does. With ``dtype="float32"`` the cycles are exact
    up to iteration 2^24.

    Parameters
    ----------
    h : float
        The largest stepsize, positive, on the scale of `stepsize`.
    cycleLength : int
        The number of iterations in a cycle, at least 2.
    explorationFraction : float, default 0.0
        The fraction of each cycle, in [0, 1), in which no noise is added, so that the
        chain climbs and does not sample. Not for samplers with a thermostat, which
        would heat the chain. ``out.sampleStats["exploring"]`` is 1 for these draws. The
        weighted summary gives them the weight 0; all other functions include them.

    Examples
    --------
    >>> from sgmcmc import cyclical
    >>> cyclical(1e-4, cycleLength=5000, explorationFraction=0.8)
    cyclical(h=0.0001, cycleLength=5000, explorationFraction=0.8)
    """

    h: float
    cycleLength: int  # noqa: N815 - part of the public interface
    explorationFraction: float = 0.0  # noqa: N815

    def __post_init__(self) -> None:
        length, fraction = self.cycleLength, self.explorationFraction
        _require(self, "h", "finite and positive", _is_number(self.h) and 0 < self.h < math.inf)
        fits = _is_number(length) and length >= 2 and length % 1 == 0
        _require(self, "cycleLength", "an integer of at least 2", fits)
        _require(self, "explorationFraction", "from 0 to below 1", _is_number(fraction) and 0 <= fraction < 1)
        if self._n_exploring >= self.cycleLength:
            raise ValueError(
                f"explorationFraction of cyclical must leave an iteration of each cycle of {self.cycleLength} for "
                f"sampling; got {self.explorationFraction!r}."
            )

    def __call__(self, iteration: tf.Tensor) -> tf.Tensor:
        """The stepsize of an iteration, counted from 0."""
        left = self.cycleLength - tf.math.floormod(iteration, self.cycleLength)
        # Equal to the cosine form, but never rounded to 0.
        return self.h * tf.sin(0.5 * np.pi * left / self.cycleLength) ** 2

    def exploring(self, iteration: tf.Tensor) -> tf.Tensor:
        """Whether no noise is added in this iteration."""
        return tf.math.floormod(iteration, self.cycleLength) < self._n_exploring

    @property
    def _n_exploring(self) -> int:
        # The product is rounded, so that 0.55 * 100 does not count as more than 55.
        return math.ceil(round(self.explorationFraction * self.cycleLength, 9))
