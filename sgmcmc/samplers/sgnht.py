"""The stochastic gradient Nosé-Hoover thermostat: sgnht, sgnhtcv and their Setup functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sgmcmc.core.types import Reducer
from sgmcmc.dynamics.sgnht import sgnht as sgnht_dynamics
from sgmcmc.model import LogLik, LogPrior
from sgmcmc.output.draws import Draws
from sgmcmc.samplers._arguments import PerParameter, Stepsize
from sgmcmc.samplers._assemble import DIFFUSION, run_whole, set_up
from sgmcmc.samplers._object import Sgmcmc
from sgmcmc.samplers._shared_docs import documented


@documented
def sgnht(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float = 0.01,
    a: PerParameter = 0.01,
    nIters: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    subsampling: str | Any = "uniform",
    integers: Sequence[str] = (),
    dtype: str = "float32",
    nChains: int | None = None,
    starts: float | Mapping[str, Any] | None = None,
    sharedMinibatch: bool = False,
    thin: int = 1,
    burnIn: int = 0,
    collect: Callable | None = None,
    reduce: Reducer | Mapping[str, Reducer] | None = None,
    gradients: bool = False,
    storage: str | Path | None = None,
    resume: bool = False,
) -> Draws:
    """The stochastic gradient Nosé-Hoover thermostat.

    The thermostat xi, one for each parameter and `a` at the start, finds the friction that the gradient's noise needs.
    With eps the `stepsize` and u ~ N(0, eps) at the start, each iteration makes the update::

        u' = u + eps * gradient - xi u + N(0, 2 a eps)
        theta' = theta + u'
        xi' = xi + mean(u'^2) - eps

    where the gradient of the log posterior is estimated from a minibatch (Ding et al., algorithm 2).

    Parameters
    ----------
    {parameters}

    Returns
    -------
    Draws
        A dict with the chain of each parameter, an array of type `dtype` and shape (nIters, *shape), or
        (nChains, nIters, *shape) given `nChains`; with `thin` and `burnIn`, (nIters - burnIn) // thin draws. Fewer if
        interrupted. It also tells the seed, log posterior estimates and timings, and has `summary` and `toArviz`.

    Raises
    ------
    ValueError
        If an argument is unfit; the message names it, what it got and what would work.
    MemoryError
        If the draws would need more memory than is free; raised before anything is run.
    DivergenceError
        If the chain leaves the finite numbers; it carries the draws so far.

    See Also
    --------
    sgnhtSetup : The same, step by step.

    References
    ----------
    .. [1] Ding, N., Fang, Y., Babbush, R., Chen, C., Skeel, R. D. and Neven, H. (2014). Bayesian sampling using
       stochastic gradient thermostats. NeurIPS.

    Examples
    --------
    The posterior of the mean of normal observations:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgnht
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> params = {"theta": 0.0}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgnht(
    ...     logLik, dataset, params, stepsize=1e-5, minibatchSize=100, nIters=2000, verbose=False, seed=1
    ... )
    >>> out["theta"].shape
    (2000,)
    >>> bool(abs(out["theta"][1000:].mean() - 3.0) < 0.1)
    True
    """
    return run_whole(sgnhtSetup, locals())


@documented
def sgnhtSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float = 0.01,
    a: PerParameter = 0.01,
    seed: int | None = None,
    *,
    subsampling: str | Any = "uniform",
    integers: Sequence[str] = (),
    dtype: str = "float32",
    nChains: int | None = None,
    starts: float | Mapping[str, Any] | None = None,
    sharedMinibatch: bool = False,
) -> Sgmcmc:
    """Set up the stochastic gradient Nosé-Hoover thermostat, to run step by step.

    See `sgnht` for the algorithm.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    Sgmcmc
        For `initSess`, `sgmcmcStep` and `getParams`, with the fields
        `params`, `N`, `data`, `n`, `stepsize` and `a`.

    Raises
    ------
    ValueError
        If an argument is unfit; the message names it, what it got and what would work.

    See Also
    --------
    sgnht : The same in one call.

    Examples
    --------
    The posterior of the mean of normal observations:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgnhtSetup, getParams, initSess, sgmcmcStep
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> params = {"theta": 0.0}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> sampler = sgnhtSetup(logLik, dataset, params, stepsize=1e-5, minibatchSize=100, seed=1)
    >>> sess = initSess(sampler, verbose=False)
    >>> for _ in range(10):
    ...     sgmcmcStep(sampler, sess, nSteps=50)
    >>> bool(abs(getParams(sampler, sess)["theta"] - 3.0) < 0.5)
    True
    """
    return set_up("sgnht", sgnht_dynamics, locals(), {"a": DIFFUSION})


@documented
def sgnhtcv(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    optStepsize: float,
    logPrior: LogPrior | None = None,
    minibatchSize: float = 0.01,
    a: PerParameter = 0.01,
    nIters: int = 10**4,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    subsampling: str | Any = "uniform",
    integers: Sequence[str] = (),
    dtype: str = "float32",
    optimizer: str = "sgd",
    nChains: int | None = None,
    starts: float | Mapping[str, Any] | None = None,
    sharedMinibatch: bool = False,
    thin: int = 1,
    burnIn: int = 0,
    collect: Callable | None = None,
    reduce: Reducer | Mapping[str, Reducer] | None = None,
    gradients: bool = False,
    storage: str | Path | None = None,
    resume: bool = False,
) -> Draws:
    """The stochastic gradient Nosé-Hoover thermostat with control variates.

    The thermostat xi, one for each parameter and `a` at the start, finds the friction that the gradient's noise needs.
    With eps the `stepsize` and u ~ N(0, eps) at the start, each iteration makes the update::

        u' = u + eps * gradient - xi u + N(0, 2 a eps)
        theta' = theta + u'
        xi' = xi + mean(u'^2) - eps

    where the gradient of the log posterior is estimated from a minibatch (Ding et al., algorithm 2).

    The gradient of the log posterior is estimated with control variates: a search finds the mode, one pass over all
    data gives the exact gradient there, and minibatches then estimate only the difference between here and the mode
    (Baker et al., eq. 4). The chain starts at the mode, unless `starts` says otherwise.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    Draws
        A dict with the chain of each parameter, an array of type `dtype` and shape (nIters, *shape), or
        (nChains, nIters, *shape) given `nChains`; with `thin` and `burnIn`, (nIters - burnIn) // thin draws. Fewer if
        interrupted. It also tells the seed, log posterior estimates and timings, and has `summary` and `toArviz`.

    Raises
    ------
    ValueError
        If an argument is unfit; the message names it, what it got and what would work.
    MemoryError
        If the draws would need more memory than is free; raised before anything is run.
    DivergenceError
        If the chain leaves the finite numbers; it carries the draws so far.
    ModeSearchError
        If the search for the mode does.

    See Also
    --------
    sgnhtcvSetup : The same, step by step.

    References
    ----------
    .. [1] Ding, N., Fang, Y., Babbush, R., Chen, C., Skeel, R. D. and Neven, H. (2014). Bayesian sampling using
       stochastic gradient thermostats. NeurIPS.
    .. [2] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.

    Examples
    --------
    The posterior of the mean of normal observations:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgnhtcv
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> params = {"theta": 0.0}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgnhtcv(
    ...     logLik, dataset, params, stepsize=1e-5, optStepsize=1e-4,
    ...     minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ... )
    >>> out["theta"].shape
    (2000,)
    >>> bool(abs(out["theta"][1000:].mean() - 3.0) < 0.1)
    True
    """
    return run_whole(sgnhtcvSetup, locals())


@documented
def sgnhtcvSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    optStepsize: float,
    logPrior: LogPrior | None = None,
    minibatchSize: float = 0.01,
    a: PerParameter = 0.01,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    subsampling: str | Any = "uniform",
    integers: Sequence[str] = (),
    dtype: str = "float32",
    optimizer: str = "sgd",
    nChains: int | None = None,
    starts: float | Mapping[str, Any] | None = None,
    sharedMinibatch: bool = False,
) -> Sgmcmc:
    """Set up the stochastic gradient Nosé-Hoover thermostat with control variates, to run step by step.

    See `sgnhtcv` for the algorithm.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    Sgmcmc
        For `initSess`, `sgmcmcStep` and `getParams`, with the fields
        `params`, `N`, `data`, `n`, `stepsize`, `a`, `paramsOpt` and `logPostOptGrad`.

    Raises
    ------
    ValueError
        If an argument is unfit; the message names it, what it got and what would work.

    See Also
    --------
    sgnhtcv : The same in one call.

    Examples
    --------
    The posterior of the mean of normal observations:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgnhtcvSetup, getParams, initSess, sgmcmcStep
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> params = {"theta": 0.0}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> sampler = sgnhtcvSetup(
    ...     logLik, dataset, params, stepsize=1e-5, optStepsize=1e-4, minibatchSize=100, verbose=False, seed=1
    ... )
    >>> sess = initSess(sampler, verbose=False)
    >>> for _ in range(10):
    ...     sgmcmcStep(sampler, sess, nSteps=50)
    >>> bool(abs(getParams(sampler, sess)["theta"] - 3.0) < 0.5)
    True
    """
    return set_up("sgnhtcv", sgnht_dynamics, locals(), {"a": DIFFUSION})
