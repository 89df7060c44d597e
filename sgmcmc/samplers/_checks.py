"""Checks of single arguments.

All errors have one shape: *argument* of *function* must be *what would work*; got *what came*.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import tensorflow as tf

LAST_STEP = 2**32

Rule = tuple[Callable[[float], bool], str]
"""Which numbers are allowed, and how to say it."""

POSITIVE: Rule = (lambda x: x > 0, "a positive number")
STEPSIZE: Rule = (lambda eps: eps > 0, "a positive number or a schedule such as polynomial(h, a, b)")
FRICTION: Rule = (lambda alpha: 0 < alpha <= 1, "a number in (0, 1]")
DIFFUSION: Rule = (lambda a: 0 < a < 0.5, "a positive number below 0.5, from where on its chains have no equilibrium")


def require_number(label: str, of: str, value: Any, rule: Rule) -> float:
    """One number that the rule allows."""
    allowed, must = rule
    scalar = isinstance(value, Real | np.number) and not isinstance(value, bool)
    if not scalar and isinstance(value, np.ndarray | tf.Tensor) and np.ndim(value) == 0:
        scalar, value = True, np.asarray(value).item()
    if not scalar or not np.isfinite(value) or not allowed(float(value)):
        raise ValueError(f"{label} of {of} must be {must}; got {value!r}.")
    return float(value)


def require_flag(argument: str, of: str, value: Any) -> bool:
    """True or False, as bool or NumPy bool."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{argument} of {of} must be True or False; got {value!r}.")
    return bool(value)


def is_integer(value: Any) -> bool:
    """Of a Python or NumPy integer type."""
    return isinstance(value, Integral | np.integer) and not isinstance(value, bool)


def require_count(argument: str, of: str, value: Any, at_least: int) -> int:
    """An integer; floats such as 1e4 that are one are welcome."""
    whole = is_integer(value) or (isinstance(value, float) and np.isfinite(value) and value == int(value))
    if not whole or value < at_least:
        raise ValueError(f"{argument} of {of} must be an integer of at least {at_least}; got {value!r}.")
    return int(value)


def require_counter(argument: str, of: str, n_iterations: int, leaps: int) -> None:
    """Not more gradients than can be told apart."""
    if n_iterations * leaps >= LAST_STEP:
        raise ValueError(
            f"{argument} of {of} must make fewer than 2**32 steps in all, since random numbers would repeat; "
            f"got {n_iterations} iterations of {leaps}."
        )


def numeric(label: str, of: str, value: Any) -> np.ndarray:
    """An array of real numbers; True and False count as 1 and 0."""
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ValueError(
            f"{label} of {of} must be an array of numbers; got {type(value).__name__} ({error})."
        ) from error
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{label} of {of} must be an array of real numbers; got dtype {array.dtype}.")
    return array


def first_non_finite(array: np.ndarray) -> str:
    """Which number it is, and where."""
    where = np.argwhere(~np.isfinite(array))[0]
    return f"{array[tuple(where)]} at index {tuple(int(i) for i in where)}"
