"""Preconditioned stochastic gradient Langevin dynamics: psgld and psgldSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments import DECAY, POSITIVE
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.core.errors import require_count
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.psgld import psgld as psgld_dynamics
from sgmcmc.model import LogLik, LogPrior


@public
def psgld(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    beta: float = 0.99,
    delta: float = 1e-5,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    adapt: int | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """Preconditioned stochastic gradient Langevin dynamics.

    This is SGLD with a stepsize for each element that adapts to the size of its
    gradients, as in RMSprop. With eps the `stepsize`, each iteration makes the update::

        V = beta V + (1 - beta) (gradient/N)^2
        G = 1 / (delta + sqrt(V))
        theta' = theta + eps/2 * G gradient + N(0, eps G)

    elementwise, where the gradient of the log posterior is estimated from a minibatch
    (Li et al., algorithm 1; their V uses the gradient of the log likelihood alone). V
    starts as the first (gradient/N)^2.

    Since G depends on theta, an exact update would have a further term, eps/2 times the
    derivative of G. As in the paper, this term **is left out**, so the chain does not
    sample the posterior, however small the stepsize is. The method is for exploring the
    posterior of a network, not for error bars. With `adapt`, V stays constant after
    that many iterations, and the rest of the run is SGLD with a constant
    preconditioner, which has no such error. In most cases ``preconditioner="diagonal"``
    of the other samplers is the better choice.

    References
    ----------
    .. [1] Li, C., Chen, C., Carlson, D. and Carin, L. (2016). Preconditioned stochastic gradient Langevin dynamics for
       deep neural networks. AAAI.
    """
    return one_call(psgldSetup, **locals())


@public
def psgldSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    beta: float = 0.99,
    delta: float = 1e-5,
    seed: int | None = None,
    *,
    adapt: int | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up preconditioned stochastic gradient Langevin dynamics, to run step by step; see `psgld`."""
    choices = Choices(
        "psgld", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    beta, delta = choices.each.number("beta", beta, DECAY), choices.each.number("delta", delta, POSITIVE)
    adapt = None if adapt is None else require_count("adapt", choices.sampler, adapt, at_least=1)
    dynamics = psgld_dynamics(choices.data.as_counted(choices.data.size), beta, delta, adapt)
    return set_up(choices, dynamics, gradient, {"beta": beta, "delta": delta, "adapt": adapt})
