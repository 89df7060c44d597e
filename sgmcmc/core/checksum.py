"""A short name for the contents of an array."""

from __future__ import annotations

import hashlib

import numpy as np


def checksum(array: np.ndarray) -> str:
    """Equal for arrays of equal bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()[:16]
