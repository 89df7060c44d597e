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
    if not scalar and isinstance(value, np.ndarray | tf.Tensor) and np.ndim(value) == 0 and not n_masked(value):
        scalar, value = True, np.asarray(value).item()
    if not scalar or not np.isfinite(value) or not allowed(float(value)):
        raise ValueError(f"{label} of {of} must be {must}; got {described(value)}.")
    return float(value)


def require_flag(argument: str, of: str, value: Any) -> bool:
    """True or False, as bool or NumPy bool."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{argument} of {of} must be True or False; got {value!r}.")
    return bool(value)


def is_integer(value: Any) -> bool:
    """Of a Python or NumPy integer type."""
    return isinstance(value, Integral | np.integer) and not isinstance(value, bool)


def require_count(argument: str, of: str, value: Any, at_least: int, why: str = "") -> int:
    """An integer; floats such as 1e4 that are one are welcome."""
    whole = is_integer(value) or (isinstance(value, float) and np.isfinite(value) and value == int(value))
    if not whole or value < at_least:
        raise ValueError(f"{argument} of {of} must be an integer of at least {at_least}{why}; got {value!r}.")
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
    must = f"{label} of {of} must be an array of real numbers"
    if sparse_like(value):
        raise ValueError(
            f"{must}; got {described(value)}. Make it dense (toarray, tf.sparse.to_dense) where that fits into memory; "
            f"otherwise give the places and the values of what is not zero as two arrays with a row for each "
            f"observation, and name the places in integers."
        )
    if masked := n_masked(value):
        raise ValueError(
            f"{label} of {of} must be an array without masked values; got {masked} masked. Leave those observations "
            f"out, or put numbers in their place, as its method filled does."
        )
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ValueError(
            f"{label} of {of} must be an array of numbers; got {type(value).__name__} ({error})."
        ) from error
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{must}; got {_kind(value, array)}.")
    return array


def n_masked(value: Any) -> int:
    """How many masked values it has: a NumPy masked array, or a list of some."""
    if isinstance(value, list | tuple):
        return sum(n_masked(part) for part in value if isinstance(part, np.ma.MaskedArray))
    return int(np.ma.count_masked(value)) if isinstance(value, np.ma.MaskedArray) else 0


def sparse_like(value: Any) -> bool:
    """A sparse matrix of SciPy, or a sparse or ragged tensor."""
    return type(value).__module__.startswith("scipy.sparse") or isinstance(value, tf.SparseTensor | tf.RaggedTensor)


def described(value: Any) -> str:
    """What came, short: large things by their type and shape."""
    if isinstance(value, tf.data.Dataset):
        return "a tf.data.Dataset"
    shape = getattr(value, "shape", None)
    if shape is None or (isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0):
        text = repr(value)
        return text if len(text) <= 200 else f"{text[:200]}..."
    name = "array" if isinstance(value, np.ndarray) else type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name} of shape {tuple(shape)}"


def _kind(value: Any, array: np.ndarray) -> str:
    """What is no number in it: the columns of a data frame, or the type of all."""
    types: Any = getattr(value, "dtypes", None)
    if not hasattr(types, "items"):
        return f"dtype {array.dtype}"
    others = {name: str(dtype) for name, dtype in types.items() if getattr(dtype, "kind", "O") not in "biuf"}
    return f"{described(value)} with columns {others}, which are to be left out or coded as numbers"


def first_non_finite(array: np.ndarray) -> str:
    """Which number it is, and where."""
    where = np.argwhere(~np.isfinite(array))[0]
    return f"{array[tuple(where)]} at index {tuple(int(i) for i in where)}"
