"""A chain as bytes, and back: all that is needed to go on exactly where it stood.

What never changes, the beginning, is kept apart from the state, so that it is written once.
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
from sgmcmc.kernel import FOUND
from sgmcmc.run.prepared import TUNING, Prepared

FORMAT = 1


class Checkpoint(NamedTuple):
    """A point on the way of a chain."""

    iteration: int
    stored: int  # rows recorded by then
    leaves: list[np.ndarray]  # of the state, and of what accumulated, as the loop has them

    def encode(self) -> bytes:
        """Bytes, whose number depends on the shapes and types of the leaves only, on any machine."""
        return _packed([np.array([self.iteration, self.stored], np.int64), *self.leaves])

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """What `encode` made.

        Raises
        ------
        ValueError
            If it is something else.
        """
        try:
            progress, *leaves = _unpacked(data)
            iteration, stored = progress.tolist()
        except Exception as error:
            raise ValueError("not a checkpoint of a chain") from error
        return cls(iteration, stored, leaves)

    def tensors(self, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The leaves, which must have the shapes and types of these.

        Raises
        ------
        ValueError
            If they have not.
        """
        expected = [(tuple(leaf.shape), leaf.dtype.as_numpy_dtype) for leaf in like]
        found = [(leaf.shape, leaf.dtype.type) for leaf in self.leaves]
        if found != expected:
            raise ValueError("its state has other shapes than that of this sampler")
        return [tf.constant(leaf) for leaf in self.leaves]


class Beginning(NamedTuple):
    """What is settled before the first iteration."""

    settings: dict[str, Any]  # by which it is known whose chain it is
    found: Tree  # the constants that were worked out
    mode: Mode | None

    @classmethod
    def of(cls, settings: dict[str, Any], prepared: Prepared) -> Beginning:
        """That of these chains."""
        found = {key: prepared.constants[key] for key in FOUND if key in prepared.constants} | {TUNING: prepared.tuning}
        return cls(settings, found, prepared.mode)

    def encode(self) -> bytes:
        """As bytes."""
        mode = {"params": self.mode.params, "gradient": self.mode.gradient} if self.mode else {}
        tree = {"found": self.found, "mode": mode}
        leaves = with_paths(tree)
        header = {"format": FORMAT, "settings": self.settings, "paths": [path for path, _ in leaves]}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        return _packed([text, *(np.asarray(leaf) for _, leaf in leaves)])

    @classmethod
    def decode(cls, data: bytes) -> Beginning:
        """What `encode` made.

        Raises
        ------
        ValueError
            If it is something else, or of another version of the package.
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
    """One after the other in NumPy's format; an archive would have lengths that depend on Python's version."""
    buffer = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _unpacked(data: bytes) -> list[np.ndarray]:
    buffer, arrays = io.BytesIO(data), []
    while buffer.tell() < len(data):
        arrays.append(np.lib.format.read_array(buffer, allow_pickle=False))
    return arrays
