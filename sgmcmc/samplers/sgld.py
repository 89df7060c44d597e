"""Stochastic gradient Langevin dynamics: sgld, sgldcv and their Setup functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.gradient import Estimator, controlVariates
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.sgld import sgld as sgld_dynamics
from sgmcmc.model import LogLik, LogPrior


@public
def sgld(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    target: str = "posterior",
    **options: Unpack[Options],
) -> Draws:
    """Stochastic gradient Langevin dynamics.

    Each iteration makes one update of every parameter, with eps the `stepsize`::

        theta' = theta + eps/2 * gradient + N(0, eps)

    where the gradient of the log posterior is estimated from a minibatch (Welling and Teh, eq. 4).

    References
    ----------
    .. [1] Welling, M. and Teh, Y. W. (2011). Bayesian learning via stochastic gradient Langevin dynamics. ICML.
    """
    return one_call(sgldSetup, **locals())


@public
def sgldSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    target: str = "posterior",
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Langevin dynamics, to run step by step; see `sgld`."""
    choices = Choices(
        "sgld",
        dataset,
        params,
        stepsize,
        minibatchSize,
        seed,
        logLik=logLik,
        logPrior=logPrior,
        target=target,
        **options,
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
    minibatchSize: float | str | adaptive = 0.01,
    nIters: int | str = 10**4,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    optimizer: str = "sgd",
    target: str = "posterior",
    **options: Unpack[Options],
) -> Draws:
    """Stochastic gradient Langevin dynamics with control variates.

    The updates are those of `sgld`.

    {control variates}

    References
    ----------
    .. [1] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.
    """
    return one_call(sgldcvSetup, **locals())


@public
def sgldcvSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    optStepsize: float | str = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    optimizer: str = "sgd",
    target: str = "posterior",
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Langevin dynamics with control variates, to run step by step; see `sgldcv`."""
    choices = Choices(
        "sgldcv",
        dataset,
        params,
        stepsize,
        minibatchSize,
        seed,
        logLik=logLik,
        logPrior=logPrior,
        target=target,
        **options,
    )
    return set_up(choices, sgld_dynamics(), controlVariates(optStepsize, nItersOpt, optimizer, verbose))
