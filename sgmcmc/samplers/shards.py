"""An object for the argument `dataset`: data in several places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class shards:  # noqa: N801 - reads as a function where it is used
    """Data in several places, for the argument `dataset`: a chain uses one of them at a time.

    Each chain stays on a shard for `hop` iterations and then hops to another [1]_, which is
    shard k with probability N_k / N. Its minibatches are drawn within the shard, and the
    n observations have the weight N/n in the sum over all N. The search for the mode and
    all passes over the observations use all shards.

    With control variates (`sgldcv`, `sghmccv`, `sgnhtcv`) the centre of the estimates is
    the mode of all shards, and the exact gradient there that of all observations. What is
    left of a shard in the chain is then its curvature where that differs from the
    curvature of all observations. For observations that were dealt to the shards at
    random, the difference is small; for shards that are unlike each other, such as
    hospitals or a sorted table, it makes standard deviations too large, less so if the
    chain hops often. The error is predicted at the mode, from the shards' curvatures, and
    a run warns if it is larger than `tolerance`. Without control variates the sums of the
    shards' own gradients matter too, and the same error is much larger. There is no
    prediction without a search for a mode, nor for more than 500 elements of the
    parameters.

    Parameters
    ----------
    datasets : sequence
        The shards: each is a dataset as `dataset` takes it, or a function without
        arguments that returns one. All must have the same entries, of the same shapes,
        and columns of categories the same categories.
    hop : int, default 5
        How many iterations a chain stays on a shard. With 1, minibatches of different
        iterations are independent, and unlike shards only add noise to the gradient.
    executors : sequence of executors, optional
        One for each shard, whose workers alone read its observations: see below. By
        default all shards are read here.

    Notes
    -----
    With `executors` no observation leaves the workers of its shard: results of functions
    do. These are sums over the shard, in the passes; and the state of a chain after a stay,
    a job of its worker, which sees the chain's next minibatches only. Such sums can tell
    much of single observations, above all if minibatches or shards are small: this is not
    differential privacy. The types, shapes and number of the observations, their
    categories and a checksum are known here too. An executor is any with a method
    ``submit``, such as Dask's ``client.get_executor(workers=["place"])``. Its workers
    must be handed what a dataset needs to be opened, best a function, which is called
    there. There is then no `executor`, `gibbs`, ``gradients=True``, or estimator that
    remembers observations, and ``optStepsize`` is "auto".

    With shards, `subsampling` is "uniform" or "withReplacement", within the shard, and
    `minibatchSize` a number, of at most the observations of the smallest shard unless
    they are drawn with replacement. With leaps, as in `sghmc`, a stay still has `hop`
    iterations.

    References
    ----------
    .. [1] Ahn, S., Shahbaba, B. and Welling, M. (2014). Distributed stochastic gradient MCMC. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgldcv, shards
    >>> rng = np.random.default_rng(0)
    >>> hospitals = [{"x": rng.normal(3.0, 1.0, size=size)} for size in (4000, 2000, 1000)]
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgldcv(
    ...     logLik, shards(hospitals), {"theta": 0.0}, minibatchSize=100, nIters=2000, verbose=False, seed=1
    ... )
    >>> x = np.concatenate([hospital["x"] for hospital in hospitals])
    >>> bool(abs(out["theta"].mean() - x.mean()) < 0.3 / np.sqrt(len(x)))
    True
    """

    datasets: Sequence[Any]
    hop: int = 5
    executors: Sequence[Any] | None = None
