"""A chain as bytes, and back: all that is needed to go on exactly where it stood.

What never changes, the constants, is kept apart from the state, so that it is written once.
"""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.tree import from_paths, with_paths
from sgmcmc.core.types import Mode, Tree
from sgmcmc.kernel import FOUND
from sgmcmc.run.prepared import Prepared


class Checkpoint(NamedTuple):
    """A point on the way of a chain, with the settings by which it is known whose chain it is."""

    iteration: int
    stored: int  # rows recorded by then
    leaves: list[np.ndarray]  # of the state, and of what accumulated, as the loop has them
    settings: dict[str, Any]

    def encode(self) -> bytes:
        """An archive, whose length depends on shapes and settings only."""
        arrays = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(self.leaves)}
        arrays["progress"] = np.array([self.iteration, self.stored])
        return _archive(arrays, {"settings": self.settings, "leaves": len(self.leaves)})

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """What `encode` made.

        Raises
        ------
        ValueError
            If it is something else.
        """
        arrays, header = _opened(data)
        iteration, stored = arrays["progress"].tolist()
        leaves = [arrays[f"leaf_{i}"] for i in range(header["leaves"])]
        return cls(iteration, stored, leaves, header["settings"])


def encode_constants(prepared: Prepared) -> bytes:
    """What was worked out before the first iteration: the constants that `Sampler.prepared` is given, and the mode."""
    found = {key: prepared.constants[key] for key in FOUND}
    tree = {"found": found, "mode": prepared.mode._asdict() if prepared.mode else {}}
    leaves = with_paths(tree)
    arrays = {f"leaf_{i}": np.asarray(leaf) for i, (_, leaf) in enumerate(leaves)}
    return _archive(arrays, {"paths": [path for path, _ in leaves]})


def decode_constants(data: bytes) -> tuple[Tree, Mode | None]:
    """The constants and the mode that `encode_constants` was given.

    Raises
    ------
    ValueError
        If it is something else.
    """
    arrays, header = _opened(data)
    tree = from_paths((path, tf.constant(arrays[f"leaf_{i}"])) for i, path in enumerate(header["paths"]))
    return tree.get("found", {}), Mode(**tree["mode"]) if "mode" in tree else None


def _archive(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _opened(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = dict(archive)
        return arrays, json.loads(arrays.pop("header").tobytes())
    except Exception as error:
        raise ValueError("not a checkpoint of a chain") from error


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
