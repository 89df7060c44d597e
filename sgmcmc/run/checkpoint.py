"""A state as bytes, and back: all that is needed to go on exactly where a chain stood."""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

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
        leaves = _with_paths(self.state._asdict(), ())
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
        state: Tree = {field: {} for field in State._fields}
        for i, path in enumerate(header["paths"]):
            _put(state, path, tf.constant(arrays[f"state_{i}"]))
        state["dynamics"] = {name: state["dynamics"].get(name, {}) for name in state["params"]}
        empty = {field: () for field in ("gradient", "minibatch") if not state[field]}
        n_accumulated = sum(name.startswith("accumulated_") for name in arrays)
        accumulated = [tf.constant(arrays[f"accumulated_{i}"]) for i in range(n_accumulated)]
        return cls(iteration, stored, State(**state | empty), accumulated, header["settings"])


def differing_setting(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    """The first setting that is not the same, or None."""
    here, there = json.loads(json.dumps(here)), json.loads(json.dumps(there))
    return next((name for name in {**here, **there} if here.get(name) != there.get(name)), None)


def _with_paths(tree: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], tf.Tensor]]:
    """The leaves of nested dicts, and the keys that lead to each; an empty tuple has none."""
    if not isinstance(tree, dict | tuple):
        return [(path, tree)]
    return [pair for key in sorted(dict(tree)) for pair in _with_paths(tree[key], (*path, key))]


def _put(tree: Tree, path: list[str], leaf: tf.Tensor) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = leaf
