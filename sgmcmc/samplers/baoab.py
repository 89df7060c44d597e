"""Underdamped Langevin dynamics, by the splitting BAOAB: baoab and baoabSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments import FRICTION
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import PerParameter, Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.baoab import baoab as baoab_dynamics
from sgmcmc.model import LogLik, LogPrior


@public
def baoab(
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
    """Underdamped Langevin dynamics, by the splitting BAOAB.

    With eps the `stepsize` and u ~ N(0, eps) at the start, each iteration makes the update::

        u = u + eps * gradient
        theta = theta + u/2
        u = (1 - alpha) u + N(0, alpha (2 - alpha) eps)
        theta = theta + u/2

    where the gradient of the log posterior is estimated from a minibatch (Leimkuhler
    and Matthews [1]_; the last half kick of a step and the first of the next use the
    same gradient, and are made together). For a normal posterior, the size of the steps
    causes no error in the variance as long as eps is below 4 times the smallest
    variance. Gradient noise does cause one.

    In terms of the paper's stepsize h and friction gamma, ``stepsize = h**2`` and ``alpha = 1 - exp(-gamma * h)``.
    alpha = 1 is SGLD with each noise used in two updates, half in each [2]_.

    References
    ----------
    .. [1] Leimkuhler, B. and Matthews, C. (2013). Robust and efficient configurational molecular sampling via Langevin
       dynamics. Journal of Chemical Physics 138.
    .. [2] Leimkuhler, B. and Matthews, C. (2013). Rational construction of stochastic numerical methods for molecular
       sampling. Applied Mathematics Research eXpress 2013.
    """
    return one_call(baoabSetup, **locals())


@public
def baoabSetup(
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
    """Set up underdamped Langevin dynamics, by the splitting BAOAB, to run step by step; see `baoab`."""
    choices = Choices(
        "baoab", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    frictions = choices.each.numbers("alpha", alpha, FRICTION)
    dynamics = {name: baoab_dynamics(friction) for name, friction in frictions.items()}
    return set_up(choices, dynamics, gradient, {"alpha": frictions})
