"""Stationary linear recursions of position and momentum in independent directions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Entry = np.ndarray | float

BISECTIONS = 60


def iterations(F: np.ndarray, covariance: np.ndarray) -> np.ndarray:  # noqa: N803
    """The integrated autocorrelation time of the position, at least 1, [D].

    The recursion is x' = F x + noise with x = (theta, u) and F [D, 2, 2]; `covariance`,
    [D, 2], is that of x with theta.
    """
    later = np.linalg.solve(np.eye(2) - F, F @ covariance[..., None])[..., 0, 0]
    return np.maximum(1 + 2 * later / covariance[..., 0], 1.0)


def covariances(F: np.ndarray, added: np.ndarray) -> np.ndarray:  # noqa: N803
    """The stationary covariance P = F P F^T + added of the recursion x' = F x + noise, [D, 2, 2]."""
    both = np.einsum("dij,dkl->dikjl", F, F).reshape(len(F), 4, 4)
    return np.linalg.solve(np.eye(4) - both, added.reshape(len(F), 4, 1)).reshape(F.shape)


def matrices(a: Entry, b: Entry, c: Entry, d: Entry) -> np.ndarray:
    """[[a, b], [c, d]] in each direction, [D, 2, 2]."""
    a, b, c, d = np.broadcast_arrays(a, b, c, d)
    return np.stack([np.stack([a, b], -1), np.stack([c, d], -1)], -2)


def equilibrium_friction(temperature: Callable[[float], float], highest: float) -> float | None:
    """The friction in (0, highest] at which a thermostat has the temperature 1.

    None if there is none. The temperature must fall with the friction.
    """
    if highest <= 0 or not temperature(highest) <= 1:
        return None
    low, high = 0.0, highest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if temperature(middle) < 1 else (middle, high)
    return high
