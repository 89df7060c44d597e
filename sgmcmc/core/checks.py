"""Checks of arguments that do not depend on what they are for.

All errors have one shape: *argument* of *function* must be *what would work*; got *what came*.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import tensorflow as tf

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
    """What a function of the user's returns; its errors become those of an argument that `must` be something.

    `must` is the whole sentence, and `advice` makes of an error's text what is to be added to it.
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
    """Whether a function takes one more argument than the first `before`.

    It does if that argument has no default, or if it has this name.
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
    """Those of each tensor of a nest, to compare what goes into a function of the user's with what comes out."""
    return tf.nest.map_structure(lambda x: f"{x.dtype.name}{x.shape}", tree)
