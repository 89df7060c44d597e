"""A state as bytes, and back: all that is needed to go on exactly where a chain stood."""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.tree import from_paths, with_paths
from sgmcmc.core.types import State, Tree


class Checkpoint(NamedTuple):
    """A point on the way of a chain.

    Its `settings` are those of the sampler, by which it is known that it is the same.
    """

    iteration: int
    stored: int  # rows recorded by then
    state: State
    accumulated: list[tf.Tensor]
    settings: dict[str, Any]

    def encode(self) -> bytes:
        """An npz archive, whose length depends on shapes and settings only."""
        leaves = with_paths(self.state._asdict())
        header = {"paths": [path for path, _ in leaves], "settings": self.settings}
        arrays: dict[str, Any] = {f"state_{i}": np.asarray(leaf) for i, (_, leaf) in enumerate(leaves)}
        arrays |= {f"accumulated_{i}": np.asarray(leaf) for i, leaf in enumerate(self.accumulated)}
        arrays["progress"] = np.array([self.iteration, self.stored])
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """What `encode` made.

        Raises
        ------
        ValueError
            If it is something else.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = dict(archive)
            header = json.loads(arrays["header"].tobytes())
            iteration, stored = arrays["progress"].tolist()
        except Exception as error:
            raise ValueError("not a checkpoint of a chain") from error
        leaves = ((path, tf.constant(arrays[f"state_{i}"])) for i, path in enumerate(header["paths"]))
        state: Tree = {field: {} for field in State._fields} | from_paths(leaves)
        state["dynamics"] = {name: state["dynamics"].get(name, {}) for name in state["params"]}
        empty = {field: () for field in ("gradient", "minibatch") if not state[field]}
        n_accumulated = sum(name.startswith("accumulated_") for name in arrays)
        accumulated = [tf.constant(arrays[f"accumulated_{i}"]) for i in range(n_accumulated)]
        return cls(iteration, stored, State(**state | empty), accumulated, header["settings"])


def require_same(name: str, here: dict[str, Any], there: dict[str, Any], then: str) -> None:
    """Refuse to go on with settings `here` from what was made with those `there`, named by `then`.

    Raises
    ------
    ValueError
        Naming the first setting that differs.
    """
    here, there = json.loads(json.dumps(here)), json.loads(json.dumps(there))
    for key in {**here, **there}:
        if not _alike(here.get(key), there.get(key)):
            raise ValueError(
                f"{key} of {name} must be what it was when {then}, {there.get(key)!r}; got {here.get(key)!r}."
            )


def _alike(a: Any, b: Any) -> bool:
    """Equal; what functions give at the probes may differ by rounding, as it does between machines."""
    if isinstance(a, dict) and isinstance(b, dict):
        if "probes" in a and "probes" in b:
            return np.shape(a["probes"]) == np.shape(b["probes"]) and np.allclose(
                a["probes"], b["probes"], rtol=1e-3, atol=1e-6, equal_nan=True
            )
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    return a == b
