"""Serialization of chains: the state that continues one exactly, and what identifies it.

A function is described in two ways. Its graph contains everything that it does, but the
same function may be written differently, or traced by another version of TensorFlow.
Its values at some points, the probes, differ by rounding between machines. So different
values mean a different function, which is an error; a different graph with the same
values causes a warning.

The beginning never changes. It is separate from the state, so that it is written only
once.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.core.tracing import fingerprint, trace
from sgmcmc.core.trees import Tree, from_paths, with_paths
from sgmcmc.kernel.iterations import FOUND
from sgmcmc.model import Mode
from sgmcmc.run import TUNING, Prepared

OTHER = 1e-3  # the relative difference above which two functions are different
ROUNDING = {"float32": 1e-5, "float64": 1e-10}  # the relative difference that rounding may cause


def function_identity(values: Sequence[Any], function: Callable[..., Any], *specs: Any) -> dict[str, Any]:
    """A function as JSON: its values at the probes, and its graph's fingerprint."""
    return traced_identity(values, trace(function, *specs))


def traced_identity(values: Sequence[Any], traced: Any) -> dict[str, Any]:
    """The same for a function that is already traced."""
    return {"probes": [float(value) for value in values], "graph": _graph(traced)}


def schedule_identities(stepsize: Mapping[str, Any], dtype: tf.DType) -> dict[str, Any]:
    """The schedules among the stepsizes, by their graphs; the settings have their values at some iterations."""
    iteration = tf.TensorSpec([], dtype)
    schedules = {name: function_identity([], eps, iteration) for name, eps in sorted(stepsize.items()) if callable(eps)}
    return {"schedule": schedules} if schedules else {}


def summed(tree: Any) -> list[float]:
    """A number for each array: a sum with a different weight for each element."""
    sums = []
    for x in tf.nest.flatten(tree):
        values = np.ravel(np.asarray(x, np.float64))
        sums.append(float(values @ np.cos(np.arange(len(values)))))
    return sums


def _graph(traced: Any) -> str | None:
    """A fingerprint of the graph; None if it calls Python, which a graph does not show."""
    definition = traced.graph.as_graph_def()
    bodies = [definition.node, *(one.node_def for one in definition.library.function)]
    if any("PyFunc" in node.op for nodes in bodies for node in nodes):
        return None
    digest = hashlib.sha256(fingerprint(traced.graph).encode())
    held = [value for value, _ in traced.graph.captures if value.dtype not in (tf.resource, tf.variant)]
    for value in (*held, *traced.variables):  # values that the function closes over are not in its graph
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()[:16]


def require_same(name: str, here: dict[str, Any], there: dict[str, Any], then: str) -> None:
    """Refuse to continue with settings `here` a chain with settings `there`; warn if only rounding or graphs differ."""
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
            found = "is another program, although it gives the same values at some points"
        else:
            continue
        warn_user(
            f"{key} of {name} must be what it was when {then}; it {found}. If it has changed, the draws before and "
            "after are not those of one chain."
        )


def _alike(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        if "probes" in a and "probes" in b:
            size = max([1.0, *(abs(y) for y in b["probes"] if np.isfinite(y))])
            # A small value may be the difference of large ones.
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


FORMAT = 1


class Checkpoint(NamedTuple):
    """The state of a chain after some iterations."""

    iteration: int
    stored: int  # rows recorded so far
    leaves: list[np.ndarray]  # of the state and of the accumulators, in the order of the loop

    def encode(self) -> bytes:
        """The bytes, whose number depends only on the shapes and types of the leaves."""
        return _packed([np.array([self.iteration, self.stored], np.int64), *self.leaves])

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        try:
            progress, *leaves = _unpacked(data)
            iteration, stored = progress.tolist()
        except Exception as error:
            raise ValueError("not a checkpoint of a chain") from error
        return cls(iteration, stored, leaves)

    def tensors(self, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The leaves as tensors, which must have the shapes and types of `like`."""
        expected = [(tuple(leaf.shape), leaf.dtype.as_numpy_dtype) for leaf in like]
        found = [(leaf.shape, leaf.dtype.type) for leaf in self.leaves]
        if found != expected:
            raise ValueError("the shapes of its state are not those of this sampler")
        return [tf.constant(leaf) for leaf in self.leaves]


class Beginning(NamedTuple):
    """What is computed before the first iteration."""

    settings: dict[str, Any]  # which identify the chain
    found: Tree  # the constants that were computed
    mode: Mode | None

    @classmethod
    def of(cls, settings: dict[str, Any], prepared: Prepared) -> Beginning:
        found = {key: prepared.constants[key] for key in FOUND} | {TUNING: prepared.tuning}
        return cls(settings, found, prepared.mode)

    def encode(self) -> bytes:
        mode = {"params": self.mode.params, "gradient": self.mode.gradient} if self.mode else {}
        tree = {"found": self.found, "mode": mode}
        leaves = with_paths(tree)
        header = {"format": FORMAT, "settings": self.settings, "paths": [path for path, _ in leaves]}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        return _packed([text, *(np.asarray(leaf) for _, leaf in leaves)])

    @classmethod
    def decode(cls, data: bytes) -> Beginning:
        """The inverse of `encode`; a ValueError if another version of the package wrote the bytes."""
        try:
            text, *arrays = _unpacked(data)
            header = json.loads(text.tobytes())
            written = header["format"]
        except Exception as error:
            raise ValueError("not the beginning of a chain") from error
        if written != FORMAT:
            raise ValueError(f"it has format {written!r}; this version reads format {FORMAT}")
        try:
            tree = from_paths(zip(header["paths"], map(tf.constant, arrays), strict=True))
            mode = Mode(**tree["mode"]) if "mode" in tree else None
            return cls(dict(header["settings"]), tree.get("found", {}), mode)
        except Exception as error:
            raise ValueError("not the beginning of a chain") from error


def _packed(arrays: list[np.ndarray]) -> bytes:
    """The arrays in NumPy's format, joined; the length of an archive would depend on the Python version."""
    buffer = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _unpacked(data: bytes) -> list[np.ndarray]:
    buffer, arrays = io.BytesIO(data), []
    while buffer.tell() < len(data):
        arrays.append(np.lib.format.read_array(buffer, allow_pickle=False))
    return arrays
