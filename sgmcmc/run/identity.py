"""By what a chain is known: its settings, and functions by how they are written and by what they give.

A function is told twice. Its graph has all that it does, to the last constant; but the same function may be written in
another way, or by another version of TensorFlow. What it gives at some points, the probes, differs by rounding between
machines. So other values are another function, and another graph with the same values is a reason to warn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.fingerprint import fingerprint
from sgmcmc.core.warn import warn_user

OTHER = 1e-3  # differences, relative to the values, beyond which two functions are not the same
ROUNDING = {"float32": 1e-5, "float64": 1e-10}  # and what rounding may make of one


def told(values: Sequence[Any], function: Callable[..., Any], *specs: Any) -> dict[str, Any]:
    """A function as JSON, by what it gave at the probes and by its graph for arguments of these shapes and types."""
    return {"probes": [float(value) for value in values], "graph": _graph(function, *specs)}


def summed(tree: Any) -> list[float]:
    """A number for each array: a sum in which all elements weigh differently."""
    sums = []
    for x in tf.nest.flatten(tree):
        values = np.ravel(np.asarray(x, np.float64))
        sums.append(float(values @ np.cos(np.arange(len(values)))))
    return sums


def _graph(function: Callable[..., Any], *specs: Any) -> str | None:
    """A fingerprint of all that the function does; None if it calls Python, of which a graph says nothing."""
    traced = tf.function(lambda *arguments: function(*arguments), autograph=False).get_concrete_function(*specs)
    definition = traced.graph.as_graph_def()
    bodies = [definition.node, *(one.node_def for one in definition.library.function)]
    if any("PyFunc" in node.op for nodes in bodies for node in nodes):
        return None
    digest = hashlib.sha256(fingerprint(traced.graph).encode())
    held = [value for value, _ in traced.graph.captures if value.dtype not in (tf.resource, tf.variant)]
    for value in (*held, *traced.variables):  # what the function closes over, and does not have written in it
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()[:16]


def require_same(name: str, here: dict[str, Any], there: dict[str, Any], then: str) -> None:
    """Refuse to go on with settings `here` from what was made with those `there`, named by `then`.

    Raises
    ------
    ValueError
        Naming the first setting that differs.

    Warns
    -----
    UserWarning
        Naming each function that has another graph, or gives other values by more than rounding.
    """
    here, there = json.loads(json.dumps(here)), json.loads(json.dumps(there))
    for key in {**here, **there}:
        if not _alike(here.get(key), there.get(key), OTHER):
            raise ValueError(
                f"{key} of {name} must be what it was when {then}, {there.get(key)!r}; got {here.get(key)!r}."
            )
    rounding = ROUNDING.get(here.get("dtype", ""), OTHER)
    for key, now in here.items():
        before = there.get(key)
        if not _alike(now, before, rounding):
            found = f"gives values that differ by more than rounding, {before!r} then and {now!r} now"
        elif _graphs(now) != _graphs(before):
            found = "is another program, though it gives the same values at some points"
        else:
            continue
        warn_user(
            f"{key} of {name} must be what it was when {then}; it {found}. If it has changed, the draws before and "
            "after belong to different posteriors."
        )


def _alike(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        if "probes" in a and "probes" in b:
            size = max(1.0, *(abs(y) for y in b["probes"] if np.isfinite(y)))
            # A small value may be a difference of large ones.
            return _close(a["probes"], b["probes"], tolerance, tolerance * 1e-3 * size)
        if "schedule" in a and "schedule" in b:
            same = a.get("explorationFraction") == b.get("explorationFraction")
            return same and _close(a["schedule"], b["schedule"], tolerance)
        return a.keys() == b.keys() and all(_alike(a[key], b[key], tolerance) for key in a)
    return a == b


def _close(a: list[float | None], b: list[float | None], relative: float, absolute: float = 0.0) -> bool:
    x, y = np.array(a, float), np.array(b, float)
    return x.shape == y.shape and np.allclose(x, y, rtol=relative, atol=absolute, equal_nan=True)


def _graphs(tree: Any) -> list[str | None]:
    if not isinstance(tree, dict):
        return []
    return [tree["graph"]] if "graph" in tree else [graph for key in sorted(tree) for graph in _graphs(tree[key])]
