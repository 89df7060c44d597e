"""Compilation of a pure function of tensors, once, by XLA where XLA can."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


class Compiled:
    """`function` of a fixed number of tensors, traced and compiled on first call.

    Where XLA cannot compile an operation the plain TensorFlow graph runs instead, after one warning.

    Parameters
    ----------
    function : callable
        From tensors to a list of tensors.
    """

    def __init__(self, function: Callable[..., list[tf.Tensor]]) -> None:
        self._function = function
        self._program: Callable[..., list[tf.Tensor]] | None = None

    def __call__(self, *tensors: tf.Tensor) -> list[tf.Tensor]:
        """The results for these tensors, whose shapes and types are those of the first call."""
        if self._program is None:
            return self._first_call(tensors)
        return self._program(*tensors)

    def _first_call(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        program = self._trace(tensors, jit_compile=True)
        try:
            results = program(*tensors)
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            program = self._trace(tensors, jit_compile=False)
            results = program(*tensors)  # a fault of the model, not of XLA, is raised again here
            warnings.warn(
                "XLA cannot compile this logLik or logPrior, so the plain TensorFlow graph is used, which is slower. "
                f"XLA's reason: {_first_line(error)}",
                stacklevel=2,
            )
        self._program = program
        return results

    def _trace(self, tensors: Sequence[tf.Tensor], jit_compile: bool) -> Callable[..., list[tf.Tensor]]:
        # A function of its own for each trace: TensorFlow keeps traces by the function's identity.
        def function(*arguments: tf.Tensor) -> list[tf.Tensor]:
            return self._function(*arguments)

        specs: list[Any] = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
        concrete = tf.function(function, jit_compile=jit_compile, autograph=False).get_concrete_function(*specs)
        captured = list(concrete.captured_inputs)

        def program(*tensors: tf.Tensor) -> list[tf.Tensor]:
            # Calling `concrete` itself binds its signature anew each time, for longer than a short block runs.
            return concrete.inference_fn.call_flat(*tensors, *captured)

        return program


def _first_line(error: tf.errors.OpError) -> str:
    return next((line.strip() for line in str(error.message).splitlines() if line.strip()), type(error).__name__)
