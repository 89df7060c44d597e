"""Stochastic gradient Langevin dynamics: sgld, sgldcv and their Setup functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.dynamics.sgld import sgld as sgld_dynamics
from sgmcmc.model import LogLik, LogPrior
from sgmcmc.output.draws import Draws
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._common import Stepsize
from sgmcmc.samplers._options import Options, SetupOptions, of_run, of_setup, public
from sgmcmc.samplers._set_up import set_up
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers.estimators import Estimator, controlVariates
from sgmcmc.samplers.subsampling import adaptive


@public
def sgld(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | adaptive = 0.01,
    nIters: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """Stochastic gradient Langevin dynamics.

    Each iteration makes one update of every parameter, with eps the `stepsize`::

        theta' = theta + eps/2 * gradient + N(0, eps)

    where the gradient of the log posterior is estimated from a minibatch (Welling and Teh, eq. 4).

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
    sgldSetup : The same, step by step.

    References
    ----------
    .. [1] Welling, M. and Teh, Y. W. (2011). Bayesian learning via stochastic gradient Langevin dynamics. ICML.

    Examples
    --------
    {example}
    """
    sampler = sgldSetup(
        logLik, dataset, params, stepsize, logPrior, minibatchSize, seed, gradient=gradient, **of_setup(options)
    )
    return sampler.run(nIters, verbose, **of_run(options))


@public
def sgldSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | adaptive = 0.01,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Langevin dynamics, to run step by step.

    See `sgld` for the algorithm.

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
    sgld : The same in one call.

    Examples
    --------
    {example}
    """
    choices = Choices(
        "sgld", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    return set_up(choices, sgld_dynamics(), gradient)


@public
def sgldcv(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    optStepsize: float | str = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | adaptive = 0.01,
    nIters: int = 10**4,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    optimizer: str = "sgd",
    **options: Unpack[Options],
) -> Draws:
    """Stochastic gradient Langevin dynamics with control variates.

    Each iteration makes one update of every parameter, with eps the `stepsize`::

        theta' = theta + eps/2 * gradient + N(0, eps)

    where the gradient of the log posterior is estimated from a minibatch (Welling and Teh, eq. 4).

    {control variates}

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
    sgldcvSetup : The same, step by step.

    References
    ----------
    .. [1] Welling, M. and Teh, Y. W. (2011). Bayesian learning via stochastic gradient Langevin dynamics. ICML.
    .. [2] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.

    Examples
    --------
    {example}
    """
    sampler = sgldcvSetup(
        logLik,
        dataset,
        params,
        stepsize,
        optStepsize,
        logPrior,
        minibatchSize,
        nItersOpt,
        verbose,
        seed,
        optimizer=optimizer,
        **of_setup(options),
    )
    return sampler.run(nIters, verbose, **of_run(options))


@public
def sgldcvSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    optStepsize: float | str = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | adaptive = 0.01,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    optimizer: str = "sgd",
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Langevin dynamics with control variates, to run step by step.

    See `sgldcv` for the algorithm.

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
    sgldcv : The same in one call.

    Examples
    --------
    {example}
    """
    choices = Choices(
        "sgldcv", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    return set_up(choices, sgld_dynamics(), controlVariates(optStepsize, nItersOpt, optimizer, verbose))
