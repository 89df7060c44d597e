"""Uses of TensorFlow beyond its documented interface, and workarounds for XLA: each has a test in test_xla.py."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from sgmcmc.core.trees import Tree

# tf.vectorized_map cannot map loops, and it maps value-dependent shapes wrongly, without an error under XLA. It turns
# branches into such shapes, which XLA refuses. It pads by 0, whatever the constant of tf.pad.
NOT_VECTORIZABLE = re.compile(
    "(Stateless)?(While|If|Case)|Where|Unique.*|DynamicPartition|ListDiff|SetSize|.*SetOperation|.*Ragged.*|PadV2"
)
LOOP = re.compile("(Stateless)?While")
CALLS = ("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase")
CONVOLUTIONS = ("Conv", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Conv3DBackpropInputV2")


def operations(graph: Any) -> set[str]:
    """The types of all operations, also in the functions that are called: branches, loops, other tf.functions."""
    definition = graph.as_graph_def()
    functions = [function.node_def for function in definition.library.function]
    return {node.op for nodes in (definition.node, *functions) for node in nodes}


def is_unsuited(graph: Any) -> bool:
    """Whether XLA would make a slow or a wrong program of a graph, so that TensorFlow has to run it.

    On a CPU, a convolution takes XLA two to three times as long as TensorFlow, and 10 to 20 times as long in a loop.

    Where tf.concat joins tensors with value-dependent shapes, XLA cuts its gradient apart at the wrong places, without
    an error. Second derivatives have such a gradient if `logLik` gathers from two concatenations of one parameter.
    """
    found = operations(graph)
    slow = not tf.config.list_logical_devices("GPU") and not found.isdisjoint(CONVOLUTIONS)
    return slow or {"Where", "ConcatOffset"} <= found


@contextmanager
def not_vectorizable() -> Iterator[Callable[[], bool]]:
    """Whether a block adds operations, or calls of functions with operations, that tf.vectorized_map cannot map."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    yield lambda: _any(NOT_VECTORIZABLE, graph, graph.get_operations()[before:])


def has_loop(graph: Any) -> bool:
    return _any(LOOP, graph, graph.get_operations())


def _any(kinds: re.Pattern, graph: Any, operations: Sequence[Any]) -> bool:
    if any(kinds.fullmatch(op.type) for op in operations):
        return True
    attributes = [a for op in operations if op.type in CALLS for a in op.node_def.attr.values()]
    called = {f.name for a in attributes for f in ([a.func] if a.HasField("func") else a.list.func)}
    graphs = [graph._get_function(name).graph for name in called]
    return any(_any(kinds, graph, graph.get_operations()) for graph in graphs)


def hidden(tensors: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
    """Copies of tensors whose values XLA does not treat as constants.

    In second derivatives of a loop, and in some gradients of a loop in a called function, the length of a list comes
    from a call. XLA then treats all arguments of the call as lengths, and compiles again for each value. It traces a
    length back no further than to a loop that changes it.
    """
    empty = [tf.zeros_like(x) for x in tensors]
    return tf.while_loop(lambda k, *_: k < 1, lambda k, *_: (k + 1, *tensors), (0, *empty), maximum_iterations=1)[1:]


@contextmanager
def forgotten_by_bijectors() -> Iterator[None]:
    """Release what bijectors of TensorFlow Probability cache in a block that makes a graph.

    One cache of all bijectors holds log determinants, by weak references to tensors. A log determinant in a graph keeps
    the graph alive, and so the tensor whose end would release it.
    """
    bijector = getattr(sys.modules.get("tensorflow_probability.python.bijectors.bijector"), "Bijector", None)
    cached = {} if bijector is None else bijector._cache.storage
    known = cached.copy()  # other threads, and the garbage collection, may change the cache at any time
    try:
        yield
    finally:
        for reference in cached.copy().keys() - known:
            reference.cancel()
            cached.pop(reference, None)


def runtime(concrete: Any) -> Any:
    """The function of flat lists of tensors behind a traced one, by `call_flat`.

    Calling the traced one binds its signature each time, which takes longer than a short block of iterations.
    """
    return concrete.inference_fn


def without_graph(function: Any) -> Any:
    """The same function without its graph, which would keep alive all data of the trace."""
    children = [without_graph(child) for child in function.children]
    return type(function)(
        function.name, function._bound_context, function.function_type, children, function.call_options
    )


def written(made: Callable[[], Tree], never: tf.Tensor, specs: Mapping[str, Any]) -> Tree:
    """The result of made(), tensors {name: ...} with the shapes and types of `specs`, stored in memory.

    XLA would compute it at each use, and turn a matrix product of a slice into a slow scalar loop. It does not fuse
    across a switch. It turns a switch between two branches into arithmetic, so there is a third. The two others are
    never taken: `never` is always false, but XLA cannot know that.
    """

    def filled(value: int) -> Callable[[], Tree]:
        return lambda: {name: tf.fill(s.shape, tf.cast(value, s.dtype)) for name, s in specs.items()}

    return tf.switch_case(tf.cast(never, tf.int32), [made, filled(0), filled(1)])


def after(read: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """x, computed only after `read`, so that XLA writes the table that `read` comes from in place, without a copy."""
    return x + 0.0 * read


def carried(x: tf.Tensor) -> tf.Tensor:
    """x itself, in a form that XLA simplifies but TensorFlow does not, for values that a loop leaves unchanged.

    If TensorFlow saw that it does not change, XLA would treat it as a constant wherever a shape or an index in the
    user's code depends on it, as in the gradient of tf.vectorized_map. It would then compile again for each call, and
    keep the program under a key in memory that is overwritten.
    """
    return tf.squeeze(tf.expand_dims(x, 0), 0)


def multiply_high(x: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """The high 32 bits of the 64-bit product of two uint32: x scaled to {0, ..., factor - 1}.

    It uses products of 16 bits, since the obvious cast to uint64, shift and cast back was compiled wrongly: for the
    last element of a row of 8k + 1, XLA (TensorFlow 2.21, CPUs with AVX-512) stored 8 bytes where 4 belong, and so
    zeroed the 4 bytes after them.
    """
    half, sixteen = tf.constant(0xFFFF, tf.uint32), tf.constant(16, tf.uint32)
    low, high = tf.bitwise.bitwise_and(factor, half), tf.bitwise.right_shift(factor, sixteen)
    x_low, x_high = tf.bitwise.bitwise_and(x, half), tf.bitwise.right_shift(x, sixteen)
    middle = x_high * low + tf.bitwise.right_shift(x_low * low, sixteen)
    other = x_low * high + tf.bitwise.bitwise_and(middle, half)
    return x_high * high + tf.bitwise.right_shift(middle, sixteen) + tf.bitwise.right_shift(other, sixteen)
