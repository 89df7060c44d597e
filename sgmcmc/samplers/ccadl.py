"""The covariance-controlled adaptive Langevin thermostat: ccadl and ccadlSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments import DIFFUSION
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import PerParameter, Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.core.covariance import Covariance
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.ccadl import ccadl as ccadl_dynamics
from sgmcmc.model import LogLik, LogPrior

LARGEST = 1000  # elements of a parameter with a full covariance


@public
def ccadl(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float = 0.01,
    a: PerParameter = 0.01,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    covariance: str = "diag",
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """The covariance-controlled adaptive Langevin thermostat.

    This is SGNHT with an additional friction that removes the energy that gradient
    noise adds, even if the noise differs between directions. With eps the `stepsize`
    and u ~ N(0, eps) at the start, each iteration makes the update::

        u' = u + eps * gradient - eps/2 V u - xi u + N(0, 2 a eps)
        theta' = theta + u'
        xi' = xi + mean(u'^2) - eps

    with a thermostat xi for each parameter, which starts at `a`. V is the mean over all
    iterations so far of the estimated covariance of the gradient noise (Shang et al.,
    algorithm 1). The estimate is N^2/n times the covariance of the minibatch's terms,
    which are the gradients of its observations, or the differences that the `gradient`
    estimator sums. Without replacement it is multiplied by 1 - n/N, so that a minibatch
    of all data has no noise. If the noise depends on theta, V is its average. With
    ``eps V`` above 4 the chain is unstable: decrease the stepsize, or increase
    `minibatchSize`.

    In terms of the paper's stepsize h and friction A, ``stepsize = h**2`` and
    ``a = A * h``. ``covariance="full"`` allows correlated noise between the elements of
    one parameter array. The noise of different arrays is assumed to be independent, and
    the thermostats correct the remainder.

    References
    ----------
    .. [1] Shang, X., Zhu, Z., Leimkuhler, B. and Storkey, A. J. (2015). Covariance-controlled adaptive Langevin
       thermostat for large-scale Bayesian sampling. NeurIPS.
    """
    return one_call(ccadlSetup, **locals())


@public
def ccadlSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    logPrior: LogPrior | None = None,
    minibatchSize: float = 0.01,
    a: PerParameter = 0.01,
    seed: int | None = None,
    *,
    covariance: str = "diag",
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the covariance-controlled adaptive Langevin thermostat, to run step by step; see `ccadl`."""
    choices = Choices(
        "ccadl", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    how, factors = _checked_covariance(choices, covariance), choices.each.numbers("a", a, DIFFUSION)
    dynamics = {name: ccadl_dynamics(factor, how) for name, factor in factors.items()}
    return set_up(choices, dynamics, gradient, {"a": factors, "covariance": covariance})


def _checked_covariance(choices: Choices, covariance: str) -> Covariance:
    known = [how.value for how in Covariance]
    if covariance not in known:
        raise choices.refuse("covariance", f"be one of {known}", repr(covariance))
    how = Covariance(covariance)
    sizes = {name: theta.size for name, theta in choices.start.items() if name not in choices.moved_by_gibbs}
    largest = max(sizes, key=lambda name: sizes[name])
    if how is Covariance.FULL and sizes[largest] > LARGEST:
        raise choices.refuse(
            "covariance",
            f"be 'diag' where an entry of params has more than {LARGEST} elements, since each iteration computes its "
            "matrix",
            f"'full' with {sizes[largest]} elements of {largest!r}",
        )
    return how
