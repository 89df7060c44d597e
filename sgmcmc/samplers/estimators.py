"""The estimators of the gradient of the log posterior, for the argument `gradient`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sgmcmc.core.types import Gradient
from sgmcmc.model import Model


@dataclass(frozen=True)
class controlVariates:  # noqa: N801 - reads as a function where it is used
    """Control variates around the mode, for the argument `gradient` of a sampler.

    A search finds the mode, and one pass over all data gives the exact gradient there.
    Minibatches then estimate only the difference between the gradients at the current
    position and at the mode (Baker et al. 2019, eq. 4). The chain starts at the mode,
    unless `starts` says otherwise. `sgldcv` is `sgld` with this argument.

    Parameters
    ----------
    optStepsize : float or "auto", default "auto"
        The stepsize of the search for the mode: the factor of the gradient of the log
        posterior, summed over all N, in ``theta + optStepsize * gradient``; with
        ``optimizer="adam"``, Adam's learning rate on the scale of `params`. "auto" is a
        search that needs no stepsize: SciPy's trust-region method, on more and more
        observations.
    nItersOpt : int, default 10**4
        Number of minibatches in the search for the mode, unless that is automatic. 0
        takes `params` as the mode.
    optimizer : {"sgd", "adam"}, default "sgd"
        The method of a search with a stepsize: gradient ascent with constant stepsize,
        as in R, or Adam.
    verbose : bool, default True
        Show the progress of the search, unless the sampler has ``verbose=False``.

    References
    ----------
    .. [1] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import controlVariates, sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 0.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     gradient=controlVariates(1e-4, nItersOpt=1000),
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    optStepsize: float | str = "auto"
    nItersOpt: int = 10**4
    optimizer: str = "sgd"
    verbose: bool = True


@dataclass(frozen=True)
class saga:  # noqa: N801
    """SAGA, for the argument `gradient` of a sampler.

    A table stores the last computed gradient of each observation, and minibatches
    estimate only the difference to the sum of the table [1]_. The table begins with the
    gradients at `params`, or at the mode if the run searches for it. For each chain it
    has N times as many numbers as `params`. While the chains run, three times that
    memory is needed, and while a checkpoint is written six times. Each call of
    `sgmcmcStep` copies the table, so single steps are slow. The noise is reduced as
    with control variates, but at every position of the chain. In return each iteration
    needs the gradients of single observations. SAGA is best if N is small or if the
    posterior has several modes.

    References
    ----------
    .. [1] Dubey, K. A., Reddi, S. J., Williamson, S. A., Poczos, B., Smola, A. J. and Xing, E. P. (2016). Variance
       reduction in stochastic gradient Langevin dynamics. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import saga, sgld
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     gradient=saga(),
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """


@dataclass(frozen=True)
class svrg:  # noqa: N801
    """SVRG, for the argument `gradient` of a sampler.

    Control variates around an earlier position of the chain instead of the mode: every
    `every` iterations the exact gradient is computed from all data at the current
    position, and minibatches estimate the difference to it [1]_.

    Parameters
    ----------
    every : int, optional
        Number of iterations from one full gradient to the next. By default the
        minibatches between two of them have 10 N observations in all.

    References
    ----------
    .. [1] Dubey, K. A., Reddi, S. J., Williamson, S. A., Poczos, B., Smola, A. J. and Xing, E. P. (2016). Variance
       reduction in stochastic gradient Langevin dynamics. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgld, svrg
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     gradient=svrg(every=50),
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    every: int | None = None


Estimator = controlVariates | saga | svrg | Callable[[Model], Gradient]
