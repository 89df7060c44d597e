"""Tracing: the TensorFlow graph of a function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def trace(function: Callable[..., Any], *specs: Any, jit_compile: bool | None = None) -> Any:
    """The graph of `function` for arguments like `specs`, as a callable ``ConcreteFunction``.

    Parameters
    ----------
    function : callable
        A function from tensors, or nested structures of them, to such structures.
    *specs : nested structures of tf.TensorSpec or tf.Tensor
        The shapes and types of its arguments.
    jit_compile : bool, optional
        Whether XLA compiles the graph on its first call.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C, which TensorFlow turns into a SystemError where its C++ calls Python.
    """

    # A new function for each trace, since TensorFlow caches traces by the function's identity.
    def once(*arguments: Any) -> Any:
        return function(*arguments)

    try:
        return tf.function(once, jit_compile=jit_compile, autograph=False).get_concrete_function(*specs)
    except SystemError as error:
        if _from_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def _from_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt came first; TensorFlow drops the cause of what it raises again, but not the context."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
