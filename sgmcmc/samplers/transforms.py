"""Values for the argument `transforms`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class interval:  # noqa: N801 - reads as a function where it is used
    """The numbers between two bounds, for the argument `transforms`.

    The parameter is ``low + (high - low) / (1 + exp(-u))`` of a real number u, elementwise.

    Parameters
    ----------
    low, high : float
        The bounds, which are not reached.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import interval, sgldcv
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgldcv(
    ...     logLik, dataset, {"theta": 2.0}, transforms={"theta": interval(0, 10)},
    ...     minibatchSize=100, nIters=1000, verbose=False, seed=1,
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    low: float
    high: float
