"""The argument `preconditioner`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.coordinates import DENSE, DIAGONAL, LOW_RANK
from sgmcmc.core.parameters import numbered
from sgmcmc.dataset.entry import described, numeric
from sgmcmc.laplace.whitening import MOST_DENSE
from sgmcmc.samplers._checks import is_auto

USUALLY_DENSE = 500  # the most elements of the parameters for which "auto" is "dense"
SYMMETRIC = 1e-5  # relative
WORDS = (DIAGONAL, LOW_RANK, DENSE)
FORMS = f"None, {', '.join(map(repr, WORDS))}, a matrix over all elements of params, or a dict with an array for each"


def checked_preconditioner(
    of: str, value: Any, start: Mapping[str, np.ndarray], automatic: bool
) -> str | np.ndarray | None:
    """None, "dense", "diagonal", "lowRank", or a root of the matrix, [D, D] or [D].

    Raises
    ------
    ValueError
        If it is not a positive definite matrix of the right shape.
    """
    size = sum(theta.size for theta in start.values())
    if value is None or (is_auto(value) and not automatic):
        return None
    if is_auto(value):
        return DENSE if size <= USUALLY_DENSE else DIAGONAL if size <= MOST_DENSE else LOW_RANK
    if isinstance(value, str):
        if value not in WORDS:
            raise ValueError(f"preconditioner of {of} must be {FORMS}; got {value!r}.")
        if value == DENSE and size > MOST_DENSE:
            raise ValueError(
                f"preconditioner of {of} must be {LOW_RANK!r} or {DIAGONAL!r} for more than {MOST_DENSE} elements of "
                f"params; got {DENSE!r} for {size}."
            )
        return value
    if isinstance(value, Mapping):
        return _of_each(of, value, start)
    if not isinstance(value, np.ndarray | tf.Tensor | list | tuple):
        raise ValueError(f"preconditioner of {of} must be {FORMS}; got {described(value)}.")
    matrix = numeric("preconditioner", of, value).astype(np.float64)
    if matrix.shape != (size, size):
        raise ValueError(
            f"preconditioner of {of} must have shape ({size}, {size}), with all elements of "
            f"{list(numbered({name: theta.shape for name, theta in start.items()}))} in this order; got {matrix.shape}."
        )
    return _root(f"preconditioner of {of}", matrix)


def _of_each(of: str, value: Mapping[str, Any], start: Mapping[str, np.ndarray]) -> np.ndarray:
    if set(value) != set(start):
        raise ValueError(
            f"preconditioner of {of} must have the keys of params, {sorted(start)}; got keys {sorted(map(str, value))}."
        )
    roots = []
    for name in numbered({name: theta.shape for name, theta in start.items()}):
        label, size = f"preconditioner[{name!r}] of {of}", start[name].size
        array = numeric(f"preconditioner[{name!r}]", of, value[name]).astype(np.float64)
        if array.shape == start[name].shape:
            if not (np.isfinite(array).all() and (array > 0).all()):
                raise ValueError(f"{label} must be positive and finite; got a smallest element of {array.min()}.")
            roots.append(np.sqrt(array).ravel())
        elif array.shape == (size, size):
            roots.append(_root(label, array))
        else:
            raise ValueError(
                f"{label} must have the shape of the parameter, {start[name].shape}, or be a matrix over its elements, "
                f"({size}, {size}); got shape {array.shape}."
            )
    if all(root.ndim == 1 for root in roots):
        return np.concatenate(roots)
    total = sum(len(root) for root in roots)
    joined, at = np.zeros((total, total)), 0
    for root in roots:
        end = at + len(root)
        joined[at:end, at:end] = root if root.ndim == 2 else np.diag(root)
        at = end
    return joined


def _root(label: str, matrix: np.ndarray) -> np.ndarray:
    """A matrix A with A A^T = `matrix`."""
    if not np.isfinite(matrix).all():
        raise ValueError(f"{label} must be finite; got {matrix[~np.isfinite(matrix)][0]}.")
    if not np.allclose(matrix, matrix.T, rtol=SYMMETRIC, atol=SYMMETRIC * np.abs(matrix).max() * 1e-3):
        raise ValueError(f"{label} must be symmetric; got differences up to {np.abs(matrix - matrix.T).max():.3g}.")
    scale = np.sqrt(np.diag(matrix)) if (np.diag(matrix) > 0).all() else np.ones(len(matrix))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 / scale[:, None] / scale)
    if values.min() <= len(matrix) * np.finfo(np.float64).eps * values.max():
        raise ValueError(f"{label} must be positive definite; got a smallest eigenvalue of {values.min():.3g}.")
    return scale[:, None] * (vectors * np.sqrt(values)) @ vectors.T
