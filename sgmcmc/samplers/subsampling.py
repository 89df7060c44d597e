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
    at the mode, which is sought, and where the chain then begins. For plain gradients they are the norms of the
    gradients there (eq. 11). For estimates from differences, such as control variates, they are the root mean square of
    each difference over draws from the normal approximation of the posterior: to first order the root of tr(H_i Sigma
    H_i^T), with the observation's Hessian H_i and the covariance Sigma of the posterior (eq. 16). With a
    `preconditioner` norms are those in its coordinates.

    Parameters
    ----------
    weights : array_like, optional
        (N,), positive: weights of your own in place of these. An array as `subsampling` is the same without a floor.
    floor : float, default 0.1
        The share of observations that are drawn uniformly, in [0, 1]: no observation is then less likely than
        ``floor / N``, so that none weighs more than ``1 / floor`` times what it does in uniform minibatches, wherever
        the chain goes.

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import preferential, sgld
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_t(3, size=1000)
    >>> dataset = {"x": x, "y": rng.random(1000) < 1 / (1 + np.exp(-x))}
    >>> def logLik(params, dataset):
    ...     eta = params["slope"] * dataset["x"]
    ...     return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))
    >>> expected = [
    ...     sgld(
    ...         logLik, dataset, {"slope": 0.0}, minibatchSize=10, nIters=10, verbose=False, seed=1,
    ...         subsampling=subsampling,
    ...     ).settings["expected"]["stepsize"]
    ...     for subsampling in ("uniform", preferential())
    ... ]
    >>> bool(expected[1] > 2 * expected[0])
    True
    """

    weights: Sequence[float] | np.ndarray | None = None
    floor: float = 0.1


@dataclass(frozen=True)
class adaptive:  # noqa: N801
    """Minibatches that grow with the distance from the mode, for the argument `minibatchSize`.

    With control variates the noise of the gradient is the smaller the nearer the chain is to the mode, so that few
    observations do there. Each iteration looks at as many as keep a bound of the noise's variance at a threshold [1]_::

        n = |theta - mode|^2 * sum(L_i^2 / p_i) / threshold

    where L_i is the Lipschitz constant of an observation's gradient and p_i its probability; up to N, rounded up to
    parts of a quarter of `pilot`, of 32 at most. How many they were is in ``out.sampleStats``: "minibatch_size" in the
    iteration, of all its leaps, and "observations" until then. Without a threshold a pilot chain of 2000 iterations
    sets it, to the bound at the 95% quantile of its squared distances, where the minibatch then has the pilot's size,
    whatever the L_i.

    Parameters
    ----------
    lipschitz : array_like, optional
        (N,), the constants L_i, which go with a threshold: see `sgmcmc.diagnostics.lipschitzLogistic`.
    threshold : float, optional
        The variance of the gradient's noise, summed over all elements of `params`.
    pilot : int or float, default 0.001
        The minibatch size of the pilot chain, a number from 1 to N or a proportion of N in (0, 1). Without a pilot
        chain, that of the search for the mode.

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS, eq. 19.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import adaptive, sgldcv
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=10_000)
    >>> dataset = {"x": x, "y": rng.random(10_000) < 1 / (1 + np.exp(-x))}
    >>> def logLik(params, dataset):
    ...     eta = params["slope"] * dataset["x"]
    ...     return tf.reduce_sum(dataset["y"] * eta - tf.nn.softplus(eta))
    >>> out = sgldcv(
    ...     logLik, dataset, {"slope": 0.0}, stepsize=1e-4, minibatchSize=adaptive(pilot=0.1), nIters=2000,
    ...     verbose=False, seed=1,
    ... )
    >>> bool(out.sampleStats["observations"][-1] < 0.5 * 1000 * 2000)
    True
    """

    lipschitz: Sequence[float] | np.ndarray | None = None
    threshold: float | None = None
    pilot: float = 0.001
