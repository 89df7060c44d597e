"""Underdamped Langevin dynamics, by the splitting UBU: ubu and ubuSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments import FRACTION
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import PerParameter, Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.ubu import ubu as ubu_dynamics
from sgmcmc.model import LogLik, LogPrior


@public
def ubu(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.1,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """Underdamped Langevin dynamics, by the splitting UBU.

    With eps the `stepsize` and u ~ N(0, eps) at the start, an iteration moves theta and u
    exactly without force for half a step, makes the update ::

        u = u + eps * gradient

    and moves them for the other half (Sanz-Serna and Zygalakis [1]_). U, the motion
    without force, multiplies u by (1 - alpha)^(1/2) and adds correlated noise to theta
    and u. The gradient of the log posterior is estimated from a minibatch. The size of
    the steps causes an error of O(eps) in the draws, about -eps/6 times the precision
    for the variance of a normal posterior, and so do the minibatches with
    ``subsampling="symmetric"`` (Paulin, Whalley, Chada and Leimkuhler [2]_). Fresh
    minibatches cause one of O(sqrt(eps)) at the same friction gamma.

    In terms of the papers' stepsize h and friction gamma, ``stepsize = h**2`` and ``alpha = 1 - exp(-gamma * h)``.

    References
    ----------
    .. [1] Sanz-Serna, J. M. and Zygalakis, K. C. (2021). Wasserstein distance estimates for the distributions of
       numerical approximations to ergodic stochastic differential equations. JMLR 22.
    .. [2] Paulin, D., Whalley, P. A., Chada, N. K. and Leimkuhler, B. (2025). Sampling from Bayesian neural network
       posteriors with symmetric minibatch splitting Langevin dynamics. AISTATS.
    """
    return one_call(ubuSetup, **locals())


@public
def ubuSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    alpha: PerParameter = 0.1,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up underdamped Langevin dynamics, by the splitting UBU, to run step by step; see `ubu`."""
    choices = Choices(
        "ubu", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    frictions = choices.each.numbers("alpha", alpha, FRACTION)
    dynamics = {name: ubu_dynamics(friction) for name, friction in frictions.items()}
    return set_up(choices, dynamics, gradient, {"alpha": frictions})
