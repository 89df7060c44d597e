"""A chain as bytes, and back: everything that is needed to continue it exactly.

The beginning never changes. It is separate from the state, so that it is written only
once.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.tree import from_paths, with_paths
from sgmcmc.core.types import Mode, Tree
from sgmcmc.kernel.iterations import FOUND
from sgmcmc.run.prepared import TUNING, Prepared

FORMAT = 1


class Checkpoint(NamedTuple):
    """The state of a chain after some iterations."""

    iteration: int
    stored: int  # rows recorded so far
    leaves: list[np.ndarray]  # of the state and of the accumulators, in the order of the loop

    def encode(self) -> bytes:
        """The bytes.

        Their number depends only on the shapes and types of the leaves.
        """
        return _packed([np.array([self.iteration, self.stored], np.int64), *self.leaves])

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """The inverse of `encode`.

        Raises
        ------
        ValueError
            If these are not the bytes of a checkpoint.
        """
        try:
            progress, *leaves = _unpacked(data)
            iteration, stored = progress.tolist()
        except Exception as error:
            raise ValueError("not a checkpoint of a chain") from error
        return cls(iteration, stored, leaves)

    def tensors(self, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The leaves as tensors, which must have the shapes and types of `like`.

        Raises
        ------
        ValueError
            If a shape or a type differs.
        """
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
        """The beginning of these chains."""
        found = {key: prepared.constants[key] for key in FOUND} | {TUNING: prepared.tuning}
        return cls(settings, found, prepared.mode)

    def encode(self) -> bytes:
        """The beginning as bytes."""
        mode = {"params": self.mode.params, "gradient": self.mode.gradient} if self.mode else {}
        tree = {"found": self.found, "mode": mode}
        leaves = with_paths(tree)
        header = {"format": FORMAT, "settings": self.settings, "paths": [path for path, _ in leaves]}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        return _packed([text, *(np.asarray(leaf) for _, leaf in leaves)])

    @classmethod
    def decode(cls, data: bytes) -> Beginning:
        """The inverse of `encode`.

        Raises
        ------
        ValueError
            If these are not the bytes of a beginning, or if another version of the
            package wrote them.
        """
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
    """The arrays in NumPy's format, joined.

    The length of an archive would depend on Python's version.
    """
    buffer = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _unpacked(data: bytes) -> list[np.ndarray]:
    buffer, arrays = io.BytesIO(data), []
    while buffer.tell() < len(data):
        arrays.append(np.lib.format.read_array(buffer, allow_pickle=False))
    return arrays
