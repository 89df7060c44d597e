"""The adaptive Langevin thermostat, by the splitting BADODAB: badodab and badodabSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments import POSITIVE
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import PerParameter, Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.badodab import badodab as badodab_dynamics
from sgmcmc.model import LogLik, LogPrior


@public
def badodab(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    a: PerParameter = 0.1,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """The adaptive Langevin thermostat, by the splitting BADODAB.

    These are the dynamics of SGNHT, split so that the variance of a normal posterior is
    right for every `a`. Each parameter has a momentum u, which starts as N(0, eps) with
    eps the `stepsize`, and a thermostat xi, which starts at `a`. Each iteration makes
    the update::

        u = u + eps * gradient
        theta = theta + u/2
        xi = xi + (mean(u^2) - eps)/2
        u = exp(-xi) u + N(0, eps a (1 - exp(-2 xi)) / xi)
        xi = xi + (mean(u^2) - eps)/2
        theta = theta + u/2

    where the gradient of the log posterior is estimated from a minibatch (Leimkuhler
    and Shang [1]_; the last half kick of a step and the first of the next use the same
    gradient, and are made together). In terms of the paper's stepsize h and friction A,
    ``stepsize = h**2`` and ``a = A * h``.

    References
    ----------
    .. [1] Leimkuhler, B. and Shang, X. (2016). Adaptive thermostats for noisy gradient systems. SIAM Journal on
       Scientific Computing 38.
    """
    return one_call(badodabSetup, **locals())


@public
def badodabSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    a: PerParameter = 0.1,
    seed: int | None = None,
    *,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the adaptive Langevin thermostat, by the splitting BADODAB, to run step by step; see `badodab`."""
    choices = Choices(
        "badodab", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    factors = choices.each.numbers("a", a, POSITIVE)
    dynamics = {name: badodab_dynamics(factor) for name, factor in factors.items()}
    return set_up(choices, dynamics, gradient, {"a": factors})
