"""The user's own scheme of minibatches, checked by a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import IN_OPERATIONS, attempted
from sgmcmc.core.checksum import checksum
from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Minibatch
from sgmcmc.core.warn import warn_user
from sgmcmc.run.identity import summed, traced_identity
from sgmcmc.samplers._trial import require_pure

GRADIENTS, CHAINS = 128, 2  # of the trial
FAR = 6.0  # standard errors: the chance of a false warning is 1e-8


def checked_scheme(
    of: str, scheme: Callable[[int, int], Any], n_data: int, n: int, dtype: tf.DType
) -> tuple[Minibatch, dict[str, Any]]:
    """The minibatches of the user's scheme, and what identifies it, as JSON.

    Raises
    ------
    ValueError
        If it returns no Minibatch of n observations with usable indices and weights.

    Warns
    -----
    UserWarning
        If the weighted sums of 1, i or i^2 over the observations i of a minibatch are clearly biased.
    """
    label = f"subsampling of {of}"
    must = f"{label} {IN_OPERATIONS}"
    made = attempted(must, lambda: scheme(n_data, n))
    if not isinstance(made, Minibatch):
        raise ValueError(f"{label} must return a Minibatch; got {made!r}.")
    if made.size != n or made.wants_importance or made.parts:
        raise ValueError(f"{label} must return a Minibatch of size {n}, without importance and parts; got {made}.")
    if made.scale is not None and not np.isclose(made.scale * n, n_data, rtol=1e-6):
        raise ValueError(f"{label} must have the scale N/n, {n_data / n}, or weights; got {made.scale}.")
    constants = attempted(must, lambda: made.prepare(None))
    key = keys(0, Purpose.MINIBATCH, CHAINS)
    counters = tf.constant(np.arange(GRADIENTS, dtype=np.uint32))

    def draw(counters: tf.Tensor) -> Any:
        return made.draw(Stream(key), counters, constants)

    traced = attempted(must, lambda: trace(draw, counters))
    require_pure(label, traced.graph, "Use the stream that `draw` is given.")
    indices, weights = attempted(must, lambda: traced(counters))
    shape, wanted = (GRADIENTS, CHAINS, n), "none" if made.scale is not None else "some"
    if indices.shape != shape or indices.dtype != tf.int32 or (weights is None) != (made.scale is not None):
        got = (
            f"{indices.dtype.name}{list(indices.shape)} and weights {None if weights is None else list(weights.shape)}"
        )
        raise ValueError(
            f"{label} must draw int32 indices [K, C, n], here {list(shape)}, and {wanted} weights; got {got}."
        )
    if weights is not None and weights.dtype != dtype:
        raise ValueError(f"{label} must draw weights of type {dtype.name}; got {weights.dtype.name}.")
    drawn = np.asarray(indices, np.float64)
    if drawn.min() < 0 or drawn.max() >= n_data:
        raise ValueError(
            f"{label} must draw indices from 0 to {n_data - 1}; got {drawn.min():.0f} to {drawn.max():.0f}."
        )
    of_each = np.full(shape, made.scale) if weights is None else np.broadcast_to(np.asarray(weights, np.float64), shape)
    if not (np.isfinite(of_each).all() and (of_each > 0).all()):
        raise ValueError(f"{label} must draw positive finite weights; got a least of {of_each.min()}.")
    _warn_of_bias(label, drawn / n_data, of_each, n_data)
    values = summed([] if weights is None else [weights])
    return made, {"own": checksum(np.asarray(indices)), "draw": traced_identity(values, traced)}


def _warn_of_bias(label: str, place: np.ndarray, weights: np.ndarray, n_data: int) -> None:
    everywhere = np.arange(n_data) / n_data if n_data < 10**6 else (np.arange(10**6) + 0.5) / 10**6
    for power in (0, 1, 2):
        sums = (weights * place**power).sum(axis=2).ravel()
        exact = n_data * (everywhere**power).mean()
        error = max(sums.std(ddof=1) / np.sqrt(sums.size), 1e-6 * exact)
        if abs(sums.mean() - exact) > FAR * error:
            warn_user(
                f"{label} draws minibatches whose weighted sums are biased: the mean of {sums.size} sums of "
                f"(i/N)^{power} over the observations i is {sums.mean():.6g}, and the sum over all is {exact:.6g}. The "
                "posterior of the draws is then another one."
            )
            return
