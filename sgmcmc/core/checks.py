"""General checks of arguments: types, counts, and the limits of the float type.

All messages have one form: *argument* of *function* must be *what would work*; got *what came*.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_user

IN_OPERATIONS = "must be a function in TensorFlow operations"


def require_flag(argument: str, of: str, value: Any) -> bool:
    """The value as a bool, if it is a Python or NumPy bool."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{argument} of {of} must be True or False; got {value!r}.")
    return bool(value)


def is_integer(value: Any) -> bool:
    """Whether the value has a Python or NumPy integer type."""
    return isinstance(value, Integral | np.integer) and not isinstance(value, bool)


def require_count(argument: str, of: str, value: Any, at_least: int, why: str = "") -> int:
    """The value as an int; whole floats such as 1e4 are allowed."""
    whole = is_integer(value) or (isinstance(value, float) and np.isfinite(value) and value == int(value))
    if not whole or value < at_least:
        raise ValueError(f"{argument} of {of} must be an integer of at least {at_least}{why}; got {value!r}.")
    return int(value)


def require_iterations(argument: str, of: str, value: Any) -> int:
    """The value as an int, if it is an integer that counts iterations."""
    if not is_integer(value) or value < 0:
        raise ValueError(f"{argument} of {of} must be a number of iterations, an integer of at least 0; got {value!r}.")
    return int(value)


def attempted(must: str, function: Callable[[], Any], advice: Callable[[str], str] = lambda error: "") -> Any:
    """Call a user's function; raise its errors as a ValueError that states what an argument `must` be.

    `must` is a whole sentence, and `advice` maps the text of an error to a text to append.
    """
    try:
        return function()
    except Exception as error:
        if str(error).startswith(must.partition(" must ")[0]):
            raise
        text = f"{type(error).__name__}: {error}"
        if more := advice(str(error)):
            text = text.rstrip(".") + more
        raise ValueError(f"{must}; it raised {text}") from error


def takes(function: Callable, name: str, before: int) -> bool:
    """Whether a function takes one more argument after the first `before`.

    It does if that argument has no default or has this name.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable without a signature
        return False
    named = signature.parameters.get(name)
    if named is not None and named.kind is named.POSITIONAL_OR_KEYWORD:
        return True
    try:
        signature.bind(*[None] * before)
    except TypeError:
        return True
    return False


def types_and_shapes(tree: Any) -> Any:
    """The type and shape of each tensor of a nest, to compare the input of a user's function with its output."""
    return tf.nest.map_structure(lambda x: f"{x.dtype.name}{x.shape}", tree)


ROUNDED = 1e-4  # of the range of a column: larger rounding errors give a warning
SINGLE = np.dtype(np.float32)


def require_held(label: str, of: str, value: float, dtype: np.dtype) -> float:
    """The number, if it does not become 0, infinite or subnormal in `dtype`."""
    least, most = (float(x) for x in (np.finfo(dtype).tiny, np.finfo(dtype).max))
    if value and not least <= abs(value) <= most:
        remedy = " (or use dtype='float64')" if dtype == SINGLE else ""
        raise ValueError(
            f"{label} of {of} must be from {least:.3g} to {most:.3g}, the range of {dtype}{remedy}; got {value!r}."
        )
    return value


def warn_of_lost_noise(of: str, noise: Mapping[str, Any], position: Mapping[str, Any]) -> None:
    """Warn if rounding removes the noise of a step, so that the chain hardly moves.

    `noise` holds the standard deviations, for each parameter or each element; `position`
    holds arrays.
    """
    lost = []
    for name, sds in noise.items():
        at = np.abs(np.asarray(position[name]))
        resolution = np.spacing(at)
        worst = np.unravel_index(np.argmax(resolution / sds), at.shape)
        sd = float(np.broadcast_to(sds, at.shape)[worst])
        if sd < resolution[worst]:
            lost.append(
                f"params[{name!r}] is at {at[worst]:.6g}, where {at.dtype} has a resolution of "
                f"{resolution[worst]:.2g}, but the noise of a step has sd {sd:.2g}"
            )
            remedy = "use dtype='float64', or " if at.dtype == SINGLE else ""
    if lost:
        warn_user(
            f"{'; '.join(lost)}: {of} will hardly move it. To fix this, {remedy}shift the parameter to be near 0."
        )


def warn_of_rounded(label: str, of: str, array: np.ndarray, converted: np.ndarray) -> None:
    """Warn if rounding removes the differences between observations in a column."""
    if array.dtype.kind != "f" or array.dtype.itemsize <= converted.dtype.itemsize or not array.size:
        return
    least, most = array.min(axis=0), array.max(axis=0)
    spread = most - least
    half_steps = np.spacing(np.maximum(abs(least), abs(most)).astype(converted.dtype)) / 2
    for place in np.argwhere((spread > 0) & (half_steps > ROUNDED * spread)):
        where: tuple = (slice(None), *(int(i) for i in place))
        error = abs(
            array[where] - converted[where]
        ).max()  # 0 for numbers that are exact in the float type, such as whole numbers
        column = f"[:, {', '.join(map(str, place))}]" if len(place) else ""
        if lost := lost_differences(label + column, of, error, spread[tuple(place)], converted.dtype):
            warn_user(lost)
            return


def lost_differences(label: str, of: str, error: float, spread: float, dtype: np.dtype) -> str:
    """The warning for a column of range `spread` that `dtype` rounds by `error`; "" if no differences are lost."""
    if not error > ROUNDED * spread:
        return ""
    remedy = "subtract its mean first" + (", or use dtype='float64'" if dtype == SINGLE else "")
    return (
        f"{label} of {of} loses the differences between observations: {dtype} rounds it by up to {error:.2g}, and its "
        f"range is {spread:.2g}; {remedy}."
    )
