"""The stochastic gradient Nosé-Hoover thermostat: sgnht, sgnhtcv and their Setup functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.dynamics.sgnht import sgnht as sgnht_dynamics
from sgmcmc.model import LogLik, LogPrior
from sgmcmc.output.draws import Draws
from sgmcmc.samplers._checks import DIFFUSION
from sgmcmc.samplers._choices import Choices, PerParameter, Stepsize
from sgmcmc.samplers._options import Options, SetupOptions, of_run, of_setup, public
from sgmcmc.samplers._set_up import set_up
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers.estimators import controlVariates


@public
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
    gradient: controlVariates | None = None,
    **options: Unpack[Options],
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
    {draws}

    Raises
    ------
    {run errors}

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
    sampler = sgnhtSetup(
        logLik, dataset, params, stepsize, logPrior, minibatchSize, a, seed, gradient=gradient, **of_setup(options)
    )
    return sampler.run(nIters, verbose, **of_run(options))


@public
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
    gradient: controlVariates | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the stochastic gradient Nosé-Hoover thermostat, to run step by step.

    See `sgnht` for the algorithm.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    {sampler}

    Raises
    ------
    {set-up errors}

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
    choices = Choices("sgnht", logLik, dataset, params, stepsize, logPrior, minibatchSize, seed, **options)
    return _set_up_sgnht(choices, a, gradient)


@public
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
    optimizer: str = "sgd",
    **options: Unpack[Options],
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
    {draws}

    Raises
    ------
    {mode errors}

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
    sampler = sgnhtcvSetup(
        logLik,
        dataset,
        params,
        stepsize,
        optStepsize,
        logPrior,
        minibatchSize,
        a,
        nItersOpt,
        verbose,
        seed,
        optimizer=optimizer,
        **of_setup(options),
    )
    return sampler.run(nIters, verbose, **of_run(options))


@public
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
    optimizer: str = "sgd",
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the stochastic gradient Nosé-Hoover thermostat with control variates, to run step by step.

    See `sgnhtcv` for the algorithm.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    {sampler}

    Raises
    ------
    {set-up errors}

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
    choices = Choices("sgnhtcv", logLik, dataset, params, stepsize, logPrior, minibatchSize, seed, **options)
    return _set_up_sgnht(choices, a, controlVariates(optStepsize, nItersOpt, optimizer, verbose))


def _set_up_sgnht(choices: Choices, a: PerParameter, gradient: controlVariates | None) -> Sgmcmc:
    factors = choices.per_parameter("a", a, DIFFUSION)
    return set_up(choices, {name: sgnht_dynamics(factor) for name, factor in factors.items()}, gradient, {"a": factors})
