"""Compilation of pure functions of tensors, by XLA if possible, once for each program.

XLA keeps what it has compiled until the process ends, about 20 MB for a small program. So a program is reused for an
equal graph: a second call of a sampler with the same model, shapes and settings traces, but does not compile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.core.tracing import fingerprint, trace
from sgmcmc.core.xla import has_loop, hidden, is_unsuited, runtime, without_graph


class _Process:
    """Whether TensorFlow was used; its threads do not exist in a fork, where it would wait for them forever."""

    used = False
    orphaned = False

    @classmethod
    def forked(cls) -> None:
        cls.orphaned = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.forked)


def use() -> None:
    """Record that TensorFlow is about to be used; an error in a fork of a process that has used it."""
    if _Process.orphaned:
        raise RuntimeError(
            "sgmcmc cannot be used in a process that was forked after sgmcmc had been used, since TensorFlow would "
            "hang; start processes with multiprocessing.get_context('spawn')."
        )
    _Process.used = True


class OneThread:
    """A context for one thread at a time, not entered twice.

    An interrupt may leave a thread registered until it enters again or ends.
    """

    def __init__(self) -> None:
        self._within: dict[str, threading.Thread] = {}

    def __enter__(self) -> None:
        use()
        thread = threading.current_thread()
        within = self._within.setdefault("thread", thread)
        if within is not thread and within.is_alive():
            raise RuntimeError(
                f"sessions of one sampler must be used by one thread at a time; {within.name!r} is using one. Use a "
                "separate sampler for each thread."
            )
        self._within["thread"] = thread

    def __exit__(self, *_: object) -> None:
        self._within.pop("thread", None)


Program = Callable[..., list[tf.Tensor]]

_programs: dict[str, Any] = {}  # by fingerprint: compiled by XLA, or graphs that run faster without it


class Compiled:
    """`function` of a fixed number of tensors, traced and compiled on first call.

    If XLA cannot compile an operation, the plain TensorFlow graph runs instead, after one warning. It also runs,
    without a warning, if XLA's program would be much slower or wrong.
    """

    # `hides` copies the tensors if the function has a loop, since XLA might otherwise compile again for each value.
    def __init__(self, function: Callable[..., list[tf.Tensor]], hides: bool = False) -> None:
        self._function, self._hides = function, hides
        self._program: Program | None = None
        self._traced: Program | None = None

    def trace(self, specs: Sequence[Any]) -> None:
        """Trace for tensors of these shapes and types, if not done yet, so that the first call only compiles."""
        if self._program is None and self._traced is None:
            self._traced = self.traced(specs, jit_compile=True)

    def __call__(self, *tensors: tf.Tensor) -> list[tf.Tensor]:
        use()
        if self._program is None:
            return self._first_call(tensors)
        return self._program(*tensors)

    def _first_call(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        self.trace(tensors)
        program, self._traced = self._traced, None
        assert program is not None
        try:
            results = program(*tensors)
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            program = self.traced(tensors, jit_compile=False)
            results = program(*tensors)  # an error of the model, not of XLA, is raised again here
            warn_user(
                f"XLA cannot compile a function of yours, such as logLik, so it runs more slowly. {_reason(error)}"
            )
        self._program = program
        return results

    def traced(self, tensors: Sequence[Any], jit_compile: bool) -> Program:
        """A program for tensors like these, to be compiled by XLA unless its graph is unsuited, or run as a graph."""
        specs = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
        concrete = trace(self._function, *specs, jit_compile=jit_compile)
        if jit_compile and self._hides and has_loop(concrete.graph):
            concrete = _with_hidden_arguments(concrete, specs)
        captured = list(concrete.captured_inputs)
        called = runtime(concrete)
        if jit_compile:
            key = fingerprint(concrete.graph)
            if key not in _programs and is_unsuited(concrete.graph):
                called = runtime(trace(self._function, *specs))
            called = _programs.setdefault(key, without_graph(called))

        def program(*tensors: tf.Tensor) -> list[tf.Tensor]:
            return called.call_flat(*tensors, *captured)

        return program


def _with_hidden_arguments(concrete: Any, specs: Sequence[tf.TensorSpec]) -> Any:
    """A traced function of copies of its arguments, without tracing it again, which takes seconds if it has loops."""
    inner = runtime(concrete)
    return trace(
        lambda *tensors: inner.call_flat(*hidden(tensors), *concrete.captured_inputs), *specs, jit_compile=True
    )


def _reason(error: tf.errors.OpError) -> str:
    if "fixed tensor list size" in str(error.message):
        return (
            "To differentiate a loop, XLA must know its maximum number of iterations: give tf.while_loop a constant "
            "maximum_iterations, or use tf.scan, or loop over a tf.range of constants."
        )
    lines = (line.strip() for line in str(error.message).splitlines())
    return f"XLA's reason: {next(filter(None, lines), type(error).__name__)}"
