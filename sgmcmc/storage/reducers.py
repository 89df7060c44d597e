"""Reducers for `reduce=`: summaries of a chain too large to store."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Tree
from sgmcmc.storage import Reducer


def runningMean() -> Reducer:
    """The mean of the draws, in constant memory.

    Returns
    -------
    Reducer
        Its result is ``{name: mean}``, in the shape of the parameter (or of what
        `collect` returns) and in float64; NaN without draws. Given `nChains`, the
        result has one mean for each chain, (nChains, ...).

    See Also
    --------
    runningCovariance

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import runningMean, sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     reduce=runningMean(),
    ... )
    >>> bool(abs(out.reduced["draws"]["theta"] - 3.0) < 0.1)
    True
    """

    def init(draw: Tree) -> Tree:
        return {"count": tf.zeros([], tf.float64), "mean": _float64(draw)}

    def update(accumulator: Tree, draw: Tree) -> Tree:
        count = accumulator["count"] + 1.0
        mean = {name: m + (_float64(draw)[name] - m) / count for name, m in accumulator["mean"].items()}
        return {"count": count, "mean": mean}

    def result(accumulator: Tree) -> dict[str, np.ndarray]:
        unknown = np.where(accumulator["count"] < 1, np.nan, 0.0)
        return {name: mean + unknown for name, mean in accumulator["mean"].items()}

    return Reducer(init, update, result)


def runningCovariance() -> Reducer:
    """The covariance of the elements of each parameter, in constant memory.

    It uses Welford's recursion, which is numerically stable, and holds a D x D matrix
    for a parameter of D elements.

    Returns
    -------
    Reducer
        Its result is ``{name: covariance}``, (D, D) in float64, of the elements in C
        order, with divisor T - 1 for T draws; NaN for fewer than two draws. Given
        `nChains`, the result has one matrix for each chain. It has no covariances
        between different parameters; `collect` can join them into one.

    References
    ----------
    .. [1] Welford, B. P. (1962). Note on a method for calculating corrected sums of squares and products.
       Technometrics 4.

    See Also
    --------
    runningMean

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import runningCovariance, runningMean, sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=(1000, 2))}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": [3.0, 3.0]}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False,
    ...     seed=1, reduce={"mean": runningMean(), "covariance": runningCovariance()},
    ... )
    >>> out.reduced["covariance"]["theta"].shape
    (2, 2)
    """

    def init(draw: Tree) -> Tree:
        flat = _flat(draw)
        squares = {name: tf.zeros([x.shape[0], x.shape[0]], tf.float64) for name, x in flat.items()}
        return {"count": tf.zeros([], tf.float64), "mean": flat, "squares": squares}

    def update(accumulator: Tree, draw: Tree) -> Tree:
        count, flat = accumulator["count"] + 1.0, _flat(draw)
        before = {name: x - accumulator["mean"][name] for name, x in flat.items()}
        mean = {name: m + before[name] / count for name, m in accumulator["mean"].items()}
        squares = {
            name: s + before[name][:, None] * (flat[name] - mean[name])[None, :]
            for name, s in accumulator["squares"].items()
        }
        return {"count": count, "mean": mean, "squares": squares}

    def result(accumulator: Tree) -> dict[str, np.ndarray]:
        degrees = float(accumulator["count"]) - 1.0
        degrees = degrees if degrees > 0 else np.nan
        return {name: squares / degrees for name, squares in accumulator["squares"].items()}

    return Reducer(init, update, result)


def _float64(draw: Tree) -> Tree:
    return {name: tf.cast(x, tf.float64) for name, x in draw.items()}


def _flat(draw: Tree) -> Tree:
    return {name: tf.reshape(x, [-1]) for name, x in _float64(draw).items()}
