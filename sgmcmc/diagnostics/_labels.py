"""Labels and the probabilities of classes, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgmcmc.dataset.entry import first_non_finite, numeric

SUM_TOLERANCE = 1e-3  # the largest allowed distance of the sum over the classes from 1


def checked_labels(of: str, labels: Any, n: int, n_classes: int) -> np.ndarray:
    """The numbers of the classes, [n]."""
    array = numeric("labels", of, labels)
    if array.shape != (n,):
        raise ValueError(
            f"labels of {of} must have the shape ({n},), one for each observation in probabilities; got shape "
            f"{array.shape}."
        )
    allowed = (array >= 0) & (array < n_classes) & (array == np.floor(array))
    if not allowed.all():
        must = "0 or 1" if n_classes == 2 else f"the numbers of classes, 0 to {n_classes - 1}"
        at = int(np.argmin(allowed))
        raise ValueError(f"labels of {of} must be {must}; got {array[at]} at index {at}.")
    return array.astype(np.int64)


def require_probabilities(of: str, p: np.ndarray, of_classes: bool) -> None:
    """Refuse numbers that are no probabilities, or that do not add up to 1 over classes on the last axis."""
    if not np.isfinite(p).all():
        raise ValueError(f"probabilities of {of} must be finite; got {first_non_finite(p)}.")
    if p.min() < 0 or p.max() > 1:
        raise ValueError(f"probabilities of {of} must lie in [0, 1]; got numbers from {p.min():g} to {p.max():g}.")
    if of_classes:
        sums = p.sum(axis=-1, dtype=np.float64)
        if np.abs(sums - 1).max() > SUM_TOLERANCE:
            raise ValueError(
                f"probabilities of {of} must add up to 1 over the classes, the last axis; got sums from "
                f"{sums.min():g} to {sums.max():g}."
            )
