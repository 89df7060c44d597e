"""A trial of the user's functions on abstract inputs.

It shows whether their results are valid and they can be compiled.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Batch
from sgmcmc.dataset.data import Data
from sgmcmc.dataset.layout import aligned_zeros
from sgmcmc.model import LogLik, LogPrior, Model, Returns

TRACED_ROWS = 1009  # a length that no parameter has, to recognise a vector of terms
LOOKED_AT = 1000  # observations that are searched for whole numbers

RANDOM = re.compile(
    "(Random(Uniform|UniformInt|StandardNormal|Gamma|Poisson|PoissonV2|Shuffle)|(Parameterized)?TruncatedNormal|Multinomial"
    "|Rng(ReadAnd)?Skip|Stateful(Uniform|Standard|Truncated|Random).*|.*CandidateSampler)"
)  # operations that draw from TensorFlow's own generators
PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
OTHER_NOISE = (
    "Draw them before the run, as an entry of dataset, or use tf.random.stateless_normal and similar functions."
)
OTHER_TYPE = {"float32": "float64", "float64": "float32"}


@dataclass(frozen=True)
class Trial:
    """A trial of the functions of one sampler.

    Parameters
    ----------
    sampler : str
        For messages.
    params : dict of tf.TensorSpec
    data : Data
    n : int
        Observations in a minibatch.
    dtype : tf.DType
    """

    sampler: str
    params: dict[str, tf.TensorSpec]
    data: Data
    n: int
    dtype: tf.DType

    def log_lik(self, function: LogLik) -> Returns:
        """Whether `logLik` returns a sum or a vector of terms."""
        try:
            shape = self._output_shape("logLik", function, TRACED_ROWS)
        except ValueError:
            # The user knows the size of a minibatch: if that fails too, the error is about it.
            self._output_shape("logLik", function, self.n)
            raise
        if shape.rank == 0:
            return Returns.SUM
        if shape.rank != 1 or shape[0] != TRACED_ROWS:
            n = TRACED_ROWS
            with contextlib.suppress(ValueError):
                shape, n = self._output_shape("logLik", function, self.n), self.n
            raise ValueError(
                f"logLik of {self.sampler} must return a scalar, the sum over the observations, or a vector with one "
                f"term for each; got shape {shape} for a minibatch of n = {n} observations."
            )
        return Returns.TERMS

    def log_prior(self, function: LogPrior) -> None:
        """Refuse a `logPrior` that does not return a scalar."""
        shape = self._output_shape("logPrior", function, None)
        if shape.num_elements() != 1:
            raise ValueError(f"logPrior of {self.sampler} must return a scalar; got shape {shape}.")

    def uses_all_parameters(self, model: Model, but: Collection[str]) -> None:
        """Refuse parameters that have no gradient, except those in `but`."""
        unused: list[str] = []

        def gradient(params: dict, rows: dict) -> None:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(params)
                value = model.log_density(params, Batch(rows, 1.0))
            gradients = tape.gradient(value, params)
            unused.extend(name for name, g in gradients.items() if g is None and name not in but)

        rows = self.data.layout.specs([TRACED_ROWS])
        trace(gradient, self.params, rows)
        if unused:
            raise ValueError(
                f"params of {self.sampler} must have a gradient in logLik or logPrior; got none for {sorted(unused)}, "
                "which are not used, or only by operations without a gradient."
            )

    def _output_shape(self, argument: str, function: Callable, n_rows: int | None) -> tf.TensorShape:
        must = f"be a function in TensorFlow operations of {self.dtype.name} tensors"
        if n_rows == TRACED_ROWS != self.n:
            must = f"take any number of observations, not only the n = {self.n} of a minibatch"
        inputs = (self.params,) if n_rows is None else (self.params, self.data.layout.specs([n_rows]))
        try:
            concrete = trace(lambda *x: tf.convert_to_tensor(function(*x), dtype_hint=self.dtype), *inputs)
        except Exception as error:
            given = ", ".join(_described(specs) for specs in inputs)
            raise ValueError(
                f"{argument} of {self.sampler} must {must}; on {given} it raised {type(error).__name__}: "
                f"{str(error).rstrip('.')}{remedy(str(error), self.dtype, self.data)}"
            ) from error
        require_pure(f"{argument} of {self.sampler}", concrete.graph, OTHER_NOISE)
        output = concrete.structured_outputs
        if output.dtype != self.dtype:
            advice = remedy(f"{output.dtype.name} is not {self.dtype.name}", self.dtype, self.data)
            raise ValueError(
                f"{argument} of {self.sampler} must return {self.dtype.name}; got {output.dtype.name}{advice}"
            )
        return output.shape


def remedy(error: str, dtype: tf.DType, data: Data) -> str:
    """What to do about the most common mistakes."""
    if re.search(r"float(32|64) not in list of allowed values: .*int32|valid indices, got .*float", error):
        return f". Name entries of dataset that are indices in integers, such as integers={_whole_numbers(data)}."
    if "symbolic tf.Tensor" in error and "numpy" in error.lower():
        return ". Use TensorFlow's functions, such as tf.exp in place of np.exp."
    other = OTHER_TYPE[dtype.name]
    if (other in error and dtype.name in error and "allowed values" not in error) or "a double tensor" in error:
        choice = f", or use dtype={other!r}" if other == "float64" else ""
        return f". Make constants of type {other} with tf.constant(..., tf.{dtype.name}){choice}."
    return ""


def _whole_numbers(data: Data) -> list[str]:
    """The float entries that could be indices."""
    words = aligned_zeros(min(data.size, LOOKED_AT), data.layout.width)
    with contextlib.suppress(Exception):  # data on disk may be unreadable, and this is only a hint
        data.read(0, words)
    views = data.layout.views(words)
    return sorted(name for name, x in views.items() if x.dtype.kind == "f" and (x == np.floor(x)).all())


def require_pure(label: str, graph: Any, instead: str) -> None:
    """Refuse calls of Python, and random numbers that the seed does not govern.

    `instead` is the advice on random numbers in the message.
    """
    require_repeatable(label, graph, instead)
    if called := sorted(PYTHON.intersection(operations(graph))):
        raise ValueError(
            f"{label} must be in TensorFlow operations alone; got {', '.join(called)}, a call of Python "
            f"(tf.py_function, tf.numpy_function), which can be neither compiled nor mapped over chains."
        )


def require_repeatable(label: str, graph: Any, instead: str) -> None:
    """Refuse random numbers that the seed does not govern."""
    if drawn := sorted(filter(RANDOM.fullmatch, set(operations(graph)))):
        raise ValueError(
            f"{label} must not draw random numbers by itself, since seed would not govern them and the run could not "
            f"be repeated; got {', '.join(drawn)}. {instead}"
        )


def operations(graph: Any) -> Iterator[str]:
    """The types of all operations, also in the functions that are called: branches, loops, other tf.functions."""
    definition = graph.as_graph_def()
    yield from (node.op for node in definition.node)
    yield from (node.op for function in definition.library.function for node in function.node_def)


def _described(specs: Mapping[str, tf.TensorSpec]) -> str:
    return "{" + ", ".join(f"{name}: {spec.dtype.name}{list(spec.shape)}" for name, spec in specs.items()) + "}"
