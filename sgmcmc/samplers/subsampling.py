"""How minibatches are drawn: what may stand for the argument `subsampling`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class preferential:  # noqa: N801 - reads as a function where it is used
    """Minibatches that have the observations more often whose gradients matter more, for the argument `subsampling`.

    Observations are drawn with replacement in proportion to weights, and each term of the gradient is divided by n
    times its probability, so that the estimate stays unbiased, with less noise [1]_. The weights are worked out once,
    at the mode, which is sought. For plain gradients they are the norms of the gradients there (eq. 11). For estimates
    from differences, such as control variates, they are the root mean square of each difference over draws from the
    normal approximation of the posterior: to first order the root of tr(H_i Sigma H_i^T), with the observation's
    Hessian H_i and the covariance Sigma of the posterior (eq. 16). With a `preconditioner` norms are those in its
    coordinates.

    Parameters
    ----------
    weights : array_like, optional
        (N,), positive: weights of your own in place of these. An array as `subsampling` is the same without a floor.
    floor : float, default 0.1
        The share of observations that are drawn uniformly, in [0, 1]: no observation is then less likely than
        ``floor / N``, and none can make the noise larger than ``1 / floor`` times that of uniform minibatches, wherever
        the chain goes.

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import preferential, sgldcv
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_t(3, size=1000)
    >>> dataset = {"x": x, "y": rng.random(1000) < 1 / (1 + np.exp(-x))}
    >>> def logLik(params, dataset):
    ...     eta = params["slope"] * dataset["x"]
    ...     return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))
    >>> expected = [
    ...     sgldcv(
    ...         logLik, dataset, {"slope": 0.0}, minibatchSize=10, nIters=10, verbose=False, seed=1,
    ...         subsampling=subsampling,
    ...     ).settings["expected"]["stepsize"]
    ...     for subsampling in ("uniform", preferential())
    ... ]
    >>> bool(expected[1] > 1.1 * expected[0])
    True
    """

    weights: Sequence[float] | np.ndarray | None = None
    floor: float = 0.1
