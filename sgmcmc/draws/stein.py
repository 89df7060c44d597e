"""The kernel Stein discrepancy of draws from a distribution of which only the gradient is known.

With s the gradient of the log posterior and K(x, y) = (c^2 + |x - y|^2)^beta, the inverse multiquadric kernel of Gorham
and Mackey (2017), each coordinate j has the Stein kernel

    k_j(x, y) = d^2 K / dx_j dy_j + s_j(x) dK/dy_j + s_j(y) dK/dx_j + s_j(x) s_j(y) K

    KSD = sum_j sqrt( mean of k_j over all pairs of draws )

The mean of k_j over independent pairs is 0 for draws from the posterior, and above 0 for other draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.core.errors import refused

if TYPE_CHECKING:
    from sgmcmc.draws.draws import Draws


BLOCK_NUMBERS = 2**20  # pairs of draws in one block


def discrepancy(x: np.ndarray, s: np.ndarray) -> float:
    """The KSD of draws [T, D] with gradients [T, D], exact or unbiased."""
    return float(by_coordinate(x, s).sum())


def by_coordinate(x: np.ndarray, s: np.ndarray, c: float = 1.0, beta: float = -0.5) -> np.ndarray:
    """The terms of the KSD by coordinate, [D], in blocks with memory O(T); infinite if a number is not finite."""
    x, s = np.asarray(x, np.float64), np.asarray(s, np.float64)
    if not (np.isfinite(x).all() and np.isfinite(s).all()):
        return np.full(x.shape[1], np.inf)
    x = x - x.mean(axis=0)  # against cancellation in |x - y|^2
    squares = (x**2).sum(axis=1)
    step, a1, a2 = max(1, BLOCK_NUMBERS // len(x)), -2 * beta, 4 * beta * (beta - 1)
    total = np.zeros(x.shape[1])
    for at in range(0, len(x), step):
        here = slice(at, at + step)
        base = c**2 + np.maximum(squares[here, None] + squares - 2 * x[here] @ x.T, 0)
        k, k1, k2 = base**beta, base ** (beta - 1), base ** (beta - 2)
        # dK/dy_j = (x_j - y_j) a1 k1, and d^2 K / dx_j dy_j = a1 k1 - (x_j - y_j)^2 a2 k2. Pairs come in both orders:
        # the sum of (x_j - y_j)^2 k2 is twice that of x_j (x_j - y_j) k2, and the terms with one gradient are equal.
        curved, sloped = -2 * a2 * x[here] * _differences(k2, x, here), 2 * a1 * s[here] * _differences(k1, x, here)
        total += a1 * k1.sum() + (curved + sloped + s[here] * (k @ s)).sum(axis=0)
    return np.sqrt(np.maximum(total, 0)) / len(x)


def _differences(k: np.ndarray, x: np.ndarray, here: slice) -> np.ndarray:
    """The sum over y of k(x, y) (x - y), for each x of the block."""
    return x[here] * k.sum(axis=1, keepdims=True) - k @ x


def of_draws(draws: Draws, scale: float | Mapping[str, Any]) -> float:
    """The result of `Draws.ksd`."""
    gradients = draws.gradients
    if gradients is None:
        raise ValueError("ksd needs the gradients at the draws, which a run with gradients=True stores; got none.")
    if draws.settings.get("collect") is not None:
        raise ValueError("ksd needs the draws of the parameters themselves; got those of collect.")
    shapes = {name: tuple(array.shape) for name, array in draws.items()}
    if other := [name for name in sorted(gradients) if shapes.get(name) != tuple(gradients[name].shape)]:
        raise ValueError(f"ksd needs the draws of all parameters, without collect; got none of {other}.")
    if not len(draws.iterations):
        raise ValueError("ksd needs draws; there are none.")
    return float(of_arrays(draws, gradients, 1 if draws.nChains is None else 2, scale).sum())


def of_arrays(
    draws: Mapping[str, Any],
    gradients: Mapping[str, Any],
    lead: int,
    scale: Any = 1.0,
    c: float = 1.0,
    beta: float = -0.5,
) -> np.ndarray:
    """The KSD by coordinate, [D] in the order of names, of arrays whose first `lead` axes are those of the draws."""
    names = sorted(gradients)
    widths = _widths(scale, names)
    points, scores = [], []
    for name in names:
        shape = tuple(np.shape(draws[name]))
        try:
            width = np.broadcast_to(widths[name], shape[lead:]).reshape(-1)
        except ValueError as error:
            part = f"[{name!r}]" if name else ""
            must = f"be numbers of the shape {shape[lead:]}"
            raise refused("ksd", f"scale{part}", must, np.shape(widths[name])) from error
        n = int(np.prod(shape[:lead]))
        points.append(np.asarray(draws[name], np.float64).reshape(n, -1) / width)
        scores.append(np.asarray(gradients[name], np.float64).reshape(n, -1) * width)
    return by_coordinate(np.concatenate(points, axis=1), np.concatenate(scores, axis=1), c, beta)


def _widths(scale: Any, names: list[str]) -> dict[str, np.ndarray]:
    if isinstance(scale, Mapping) and set(scale) != set(names):
        must = f"be a number, or a dict with the keys {names}"
        raise refused("ksd", "scale", must, f"keys {sorted(map(str, scale))}")
    found = {}
    for name in names:
        value, part = (scale[name], f"[{name!r}]") if isinstance(scale, Mapping) else (scale, "")
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not (np.isfinite(array).all() and (array > 0).all()):
            raise refused("ksd", f"scale{part}", "be positive and finite", repr(value))
        found[name] = array.astype(np.float64)
    return found
