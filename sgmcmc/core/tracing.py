"""The TensorFlow graphs of functions: traced, and compared by a fingerprint.

TensorFlow numbers the functions in a graph, and the names of nodes and arguments contain these numbers, so two traces
of the same function have different names. Here nodes are identified by their positions.
"""

from __future__ import annotations

import functools
import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import tensorflow as tf

from sgmcmc.core.xla import forgotten_by_bijectors, runtime

Result = TypeVar("Result")


def trace(function: Callable[..., Any], *specs: Any, jit_compile: bool | None = None) -> Any:
    """The graph of `function`, of nests of tensors like `specs`, as a ``ConcreteFunction``.

    Ctrl-C raises KeyboardInterrupt, although TensorFlow makes it a SystemError where its C++ calls Python.
    """

    # A new function for each trace, since TensorFlow caches traces by the function's identity.
    def once(*arguments: Any) -> Any:
        return function(*arguments)

    try:
        with _without_collection(), forgotten_by_bijectors():
            return tf.function(once, jit_compile=jit_compile, autograph=False).get_concrete_function(*specs)
    except SystemError as error:
        if _from_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def traced_once(function: Callable[..., Result]) -> Callable[..., Result]:
    """`function` of tensors, as one operation of the graphs that call it.

    TensorFlow takes about 0.3 ms for each operation of a graph. A process traces this function once for each
    combination of types, with unknown shapes. It must depend on its arguments alone. Its result, a tensor or a tuple,
    must have the shape to which these broadcast. XLA inlines the function, so compiled programs do not change.
    """
    known: dict[tuple[tf.DType, ...], Any] = {}

    @functools.wraps(function)
    def call(*arguments: tf.Tensor) -> Result:
        tensors = [tf.convert_to_tensor(x) for x in arguments]
        types = tuple(x.dtype for x in tensors)
        if types not in known:
            with tf.init_scope():  # a separate graph, even while another is traced
                known[types] = trace(function, *(tf.TensorSpec(None, dtype) for dtype in types))
        results = runtime(known[types]).call_flat(*tensors)
        shape = functools.reduce(tf.broadcast_static_shape, (x.shape for x in tensors))
        for result in results:
            result.set_shape(shape)
        return tf.nest.pack_sequence_as(known[types].structured_outputs, results)

    return call


@contextmanager
def _without_collection() -> Iterator[None]:
    """Suspend garbage collection while many small objects are made, all of which stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _from_interrupt(error: BaseException | None) -> bool:
    """Whether an interrupt came first; when TensorFlow raises again, it drops the cause, but not the context."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def fingerprint(graph: Any) -> str:
    """The fingerprint of a function graph, with all functions that it calls."""
    definition = graph.as_graph_def()
    library = {function.signature.name: function for function in definition.library.function}
    digest = hashlib.sha256()
    numbers: dict[str, int] = {}  # of functions, in the order of appearance
    for part in _of_nodes(definition.node, {}, library, numbers):
        digest.update(part)
    done = 0
    while done < len(numbers):  # describe the called functions in the order of their first call
        function = library[list(numbers)[done]]
        done += 1
        for part in _of_function(function, library, numbers):
            digest.update(part)
    return digest.hexdigest()


def _of_function(function: Any, library: dict[str, Any], numbers: dict[str, int]) -> Iterator[bytes]:
    arguments = function.signature.input_arg
    places = {argument.name: f"a{k}" for k, argument in enumerate(arguments)}
    yield f"function {[argument.type for argument in arguments]}".encode()
    yield from _of_nodes(function.node_def, places, library, numbers)
    outputs = [function.ret[argument.name] for argument in function.signature.output_arg]
    controls = [function.control_ret[name] for name in function.signature.control_output]
    yield f"returns {[_reference(name, places) for name in (*outputs, *controls)]}".encode()


def _of_nodes(
    nodes: Iterable[Any], places: dict[str, str], library: dict[str, Any], numbers: dict[str, int]
) -> Iterator[bytes]:
    nodes = list(nodes)
    places |= {node.name: f"n{k}" for k, node in enumerate(nodes)}
    for node in nodes:
        op = _number(node.op, numbers) if node.op in library else node.op
        yield f"node {op} {[_reference(name, places) for name in node.input]} {node.device}".encode()
        for key in sorted(node.attr):
            if key.startswith("_"):  # TensorFlow's annotations, such as the gradient of a node
                continue
            value = type(node.attr[key])()
            value.CopyFrom(node.attr[key])
            for called in [value.func] if value.HasField("func") else value.list.func:
                if called.name in library:
                    called.name = _number(called.name, numbers)
            yield key.encode() + value.SerializeToString(deterministic=True)


def _number(name: str, numbers: dict[str, int]) -> str:
    return f"f{numbers.setdefault(name, len(numbers))}"


def _reference(name: str, places: dict[str, str]) -> str:
    control, name = ("^", name[1:]) if name.startswith("^") else ("", name)
    node, *output = name.split(":")
    return ":".join([control + places.get(node, node), *output])
