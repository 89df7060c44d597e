"""Stochastic gradient Hamiltonian Monte Carlo: sghmc, sghmccv and their Setup functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments import FRICTION
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import PerParameter, Stepsize
from sgmcmc.arguments.gradient import Estimator, controlVariates
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.core.errors import require_count
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.sghmc import sghmc as sghmc_dynamics
from sgmcmc.model import LogLik, LogPrior

BETA_HAT = ("zero", "fisher")
ONE_LEAP = ", since each iteration draws a new momentum and in a single leap no gradient moves the position"


@public
def sghmc(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.01,
    L: int = 5,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    betaHat: str = "zero",
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """Stochastic gradient Hamiltonian Monte Carlo.

    Each iteration draws a momentum nu ~ N(0, eps) and makes L leaps, with eps the `stepsize`::

        theta' = theta + nu
        nu' = (1 - alpha) nu + eps * gradient(theta') + N(0, 2 alpha eps)

    where the gradient of the log posterior is estimated from a minibatch (Chen, Fox and Guestrin, eq. 15).

    The kinetic temperature, the mean of nu^2 / eps, is 1 at the start of an iteration.
    For small eps and gradients without noise it is T = (1 - alpha/2 (1 - alpha)^(2L)) /
    (1 - alpha/2) after L leaps, which tends to 1 / (1 - alpha/2). A run warns if the
    average over the second half of its draws differs from T by more than T/10, or with
    ``stepsize="auto"`` by more than max(0.1, 4 * tolerance) T, and clearly so given its
    Monte Carlo error. Noisy gradients and large steps increase the temperature. If the
    temperature is right, the run also warns if the chain's variance, as computed from
    the temperature, is clearly below 0.9 or above 1.4 times that of a normal posterior.

    References
    ----------
    .. [1] Chen, T., Fox, E. B. and Guestrin, C. (2014). Stochastic gradient Hamiltonian Monte Carlo. ICML.
    """
    return one_call(sghmcSetup, **locals())


@public
def sghmcSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.01,
    L: int = 5,
    seed: int | None = None,
    *,
    betaHat: str = "zero",
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Hamiltonian Monte Carlo, to run step by step; see `sghmc`."""
    choices = Choices(
        "sghmc", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    return _set_up_sghmc(choices, alpha, L, betaHat, gradient)


@public
def sghmccv(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    optStepsize: float | str = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.01,
    L: int = 5,
    nIters: int | str = 10**4,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    betaHat: str = "zero",
    optimizer: str = "sgd",
    **options: Unpack[Options],
) -> Draws:
    """Stochastic gradient Hamiltonian Monte Carlo with control variates.

    The updates are those of `sghmc`.

    {control variates}

    References
    ----------
    .. [1] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2019). Control variates for stochastic gradient MCMC.
       Statistics and Computing 29.
    """
    return one_call(sghmccvSetup, **locals())


@public
def sghmccvSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    optStepsize: float | str = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.01,
    L: int = 5,
    nItersOpt: int = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    betaHat: str = "zero",
    optimizer: str = "sgd",
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Hamiltonian Monte Carlo with control variates, to run step by step; see `sghmccv`."""
    choices = Choices(
        "sghmccv", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    return _set_up_sghmc(choices, alpha, L, betaHat, controlVariates(optStepsize, nItersOpt, optimizer, verbose))


def _set_up_sghmc(
    choices: Choices,
    alpha: PerParameter,
    L: int,
    betaHat: str,
    gradient: Estimator | None,
) -> Sgmcmc:
    if betaHat not in BETA_HAT:
        raise choices.refuse("betaHat", f"be one of {list(BETA_HAT)}", repr(betaHat))
    frictions = choices.each.numbers("alpha", alpha, FRICTION)
    leaps = require_count("L", choices.sampler, L, 2, ONE_LEAP)
    dynamics = {name: sghmc_dynamics(friction, leaps, betaHat == "fisher") for name, friction in frictions.items()}
    return set_up(choices, dynamics, gradient, {"alpha": frictions, "L": leaps, "betaHat": betaHat})
