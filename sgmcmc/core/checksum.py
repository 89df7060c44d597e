"""A short checksum of the contents of an array."""

from __future__ import annotations

import hashlib

import numpy as np


def checksum(array: np.ndarray) -> str:
    """A text that is equal for arrays with equal bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()[:16]
