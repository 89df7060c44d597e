"""A short text that is equal for traced functions whose graphs differ only in names.

TensorFlow numbers the functions in a graph, and the names of nodes and arguments
contain these numbers. So two traces of the same function have different names. Here
nodes are identified by their positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any


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
