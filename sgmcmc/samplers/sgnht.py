"""The stochastic gradient Nosé-Hoover thermostat: sgnht, sgnhtcv and their Setup functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from sgmcmc.arguments import DIFFUSION
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import PerParameter, Stepsize
from sgmcmc.arguments.gradient import Estimator, controlVariates
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.core.errors import warn_user
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.sgnht import sgnht as sgnht_dynamics
from sgmcmc.model import LogLik, LogPrior

LARGEST = 0.1  # of `a`: the variance is then 5% too small


@public
def sgnht(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    a: PerParameter = 0.01,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """The stochastic gradient Nosé-Hoover thermostat.

    Each parameter has a thermostat xi, which starts at `a` and adapts the friction to
    the gradient noise. With eps the `stepsize` and u ~ N(0, eps) at the start, each
    iteration makes the update::

        u' = u + eps * gradient - xi u + N(0, 2 a eps)
        theta' = theta + u'
        xi' = xi + mean(u'^2) - eps

    where the gradient of the log posterior is estimated from a minibatch (Ding et al., algorithm 2).

    In equilibrium mean(u^2) is eps for every `a`. But for a normal posterior the
    variance of the chain is 1 - xi/2 times the posterior's, and xi tends to 1 - sqrt(1
    - 2 a) as eps tends to 0: the variance is 0.5% too small with the default `a` of
    0.01, and 5% with 0.1. Gradient noise increases xi. A run warns if 1 - xi/2, with
    the mean of xi over the second half of its draws, is clearly below 0.9.

    References
    ----------
    .. [1] Ding, N., Fang, Y., Babbush, R., Chen, C., Skeel, R. D. and Neven, H. (2014). Bayesian sampling using
       stochastic gradient thermostats. NeurIPS.
    """
    return one_call(sgnhtSetup, **locals())


@public
def sgnhtSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    a: PerParameter = 0.01,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the stochastic gradient Nosé-Hoover thermostat, to run step by step; see `sgnht`."""
    choices = Choices(
        "sgnht", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    return _set_up_sgnht(choices, a, gradient)


@public
def sgnhtcv(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    optStepsize: float | str = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    a: PerParameter = 0.01,
    nIters: int | str = 10**4,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    optimizer: str = "sgd",
    **options: Unpack[Options],
) -> Draws:
    """The stochastic gradient Nosé-Hoover thermostat with control variates.

    The updates are those of `sgnht`.

    {control variates}

    References
    ----------
    .. [1] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.
    """
    return one_call(sgnhtcvSetup, **locals())


@public
def sgnhtcvSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    optStepsize: float | str = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    a: PerParameter = 0.01,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    optimizer: str = "sgd",
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the Nosé-Hoover thermostat with control variates, to run step by step; see `sgnhtcv`."""
    choices = Choices(
        "sgnhtcv", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    return _set_up_sgnht(choices, a, controlVariates(optStepsize, nItersOpt, optimizer, verbose))


def _set_up_sgnht(choices: Choices, a: PerParameter, gradient: Estimator | None) -> Sgmcmc:
    factors = choices.each.numbers("a", a, DIFFUSION)
    if (largest := max(factors.values())) > LARGEST:
        ratio = (1 + np.sqrt(1 - 2 * largest)) / 2
        warn_user(
            f"a of {choices.sampler} should be at most {LARGEST}, better 0.02; with {largest:.3g} the variance of the "
            f"chain is at most {ratio:.2g} times that of a normal posterior, however small the stepsize."
        )
    return set_up(choices, {name: sgnht_dynamics(factor) for name, factor in factors.items()}, gradient, {"a": factors})
