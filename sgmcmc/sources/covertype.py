"""Forest covertype as a binary problem: from UCI's rows of integers to labels and features in [0, 1]."""

from __future__ import annotations

from pathlib import Path

import numpy as np

LODGEPOLE_PINE = 2  # the most common of the cover types 1 to 7, 48.8% of the rows


def read(path: Path) -> np.ndarray:
    """Labels in the first column, 1 for all types but lodgepole pine, then every feature scaled by its range."""
    rows = np.loadtxt(path, delimiter=",", dtype=np.int16, ndmin=2)  # [N, 54 features and the cover type]
    features, cover_type = rows[:, :-1], rows[:, -1]
    low, high = features.min(axis=0).astype(float), features.max(axis=0).astype(float)
    table = np.empty(rows.shape)
    table[:, 0] = cover_type != LODGEPOLE_PINE
    np.subtract(features, low, out=table[:, 1:])
    table[:, 1:] /= np.where(high > low, high - low, 1.0)
    return table
