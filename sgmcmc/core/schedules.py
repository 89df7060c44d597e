"""Stepsizes that change with the iteration; one may stand wherever a stepsize may be a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

Schedule = Callable[[tf.Tensor], tf.Tensor]
"""From the iteration (a float scalar, 0 for the first) to the stepsize of that iteration."""


def first(stepsize: float | Schedule, dtype: tf.DType) -> float:
    """The stepsize of the first iteration."""
    return float(stepsize(tf.constant(0, dtype))) if callable(stepsize) else stepsize


@dataclass(frozen=True)
class polynomial:  # noqa: N801 - reads as a function where it is used
    """Polynomially decreasing stepsizes, h_k = h (1 + k/a)^(-b) for iterations k = 0, 1, 2, ...

    Parameters
    ----------
    h : float
        The first stepsize, positive, on the scale of `stepsize`.
    a : float
        Number of iterations after which the stepsize has fallen to h / 2^b. Positive.
    b : float
        Rate of the decrease, at least 0. Welling & Teh (2011) take b in (0.5, 1] for convergence without bias.

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
        for name, value, at_least in (("h", self.h, None), ("a", self.a, None), ("b", self.b, 0.0)):
            fits = value >= at_least if at_least is not None else value > 0
            if not (fits and value < float("inf")):
                range_ = "at least 0" if at_least is not None else "positive"
                raise ValueError(f"{name} of polynomial must be finite and {range_}; got {value!r}.")

    def __call__(self, iteration: tf.Tensor) -> tf.Tensor:
        """The stepsize of an iteration, counted from 0."""
        return self.h * (1.0 + iteration / self.a) ** (-self.b)
