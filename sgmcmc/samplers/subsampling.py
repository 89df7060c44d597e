"""Objects for the arguments `subsampling` and `minibatchSize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class preferential:  # noqa: N801 - reads as a function where it is used
    """Minibatches that prefer large gradients, for the argument `subsampling`.

    Observations are drawn with replacement in proportion to weights, and each term of
    the gradient is divided by n times its probability. Every probability is positive, so
    the estimate stays unbiased, and it has less noise [1]_. The weights are computed
    once, at the mode: the run searches for it, and the chain starts there. For plain
    gradients the weights are the norms of the gradients at the mode (eq. 11). For
    estimates from differences, such as control variates, they are the root mean square
    of each difference over draws from the normal approximation of the posterior. To
    first order this is the root of tr(H_i Sigma H_i^T), with the observation's Hessian
    H_i and the covariance Sigma of the posterior (eq. 16). With a `preconditioner`, the
    norms are those in its coordinates.

    Parameters
    ----------
    weights : array_like, optional
        Your own weights in place of these, (N,) and positive. An array as `subsampling`
        is the same, but without a floor.
    floor : float, default 0.1
        The share of the draws that are uniform, in [0, 1]. Every observation then has
        at least the probability ``floor / N``, so that its weight is at most
        ``1 / floor`` times its weight in uniform minibatches. With 0, observations whose
        terms vanish at the mode get a tenth of the mean weight, with a warning.

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

    With control variates the noise of the gradient becomes smaller near the mode, so
    fewer observations are enough there. Each gradient uses as many observations as keep
    a bound on the variance of its noise at a threshold [1]_::

        n = |theta - mode|^2 * sum(L_i^2 / p_i) / threshold

    where L_i is the Lipschitz constant of an observation's gradient and p_i its
    probability. The number n is at most N, and is rounded up to a multiple of a quarter
    of `pilot`, or of 32 if that is smaller. ``out.sampleStats`` has the numbers:
    "minibatch_size" in each iteration, over all its leaps, and "observations" over all
    iterations so far. Without a threshold, a pilot chain of 2000 iterations sets it to
    the bound at the 95% quantile of its squared distances. At that distance n is then
    the pilot's size, and the L_i cancel.

    Parameters
    ----------
    lipschitz : array_like, optional
        The constants L_i, (N,), needed if there is a `threshold`: see
        `sgmcmc.diagnostics.lipschitzLogistic`.
    threshold : float, optional
        The bound on the variance of the gradient's noise, summed over all elements of
        `params`. By default a pilot chain sets it.
    pilot : int or float, default 0.001
        The minibatch size of the pilot chain and of the search for the mode: a number
        from 1 to N or a proportion of N in (0, 1).

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
