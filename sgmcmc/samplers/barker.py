"""Stochastic gradient Barker dynamics: barker and barkerSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.core.covariance import Covariance
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.barker import barker as barker_dynamics
from sgmcmc.model import LogLik, LogPrior


@public
def barker(
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
    covariance: str | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """Stochastic gradient Barker dynamics.

    Each iteration makes one update of every element of the parameters, with eps the
    `stepsize`::

        z ~ N(0, eps)
        theta' = theta + z with the probability 1 / (1 + exp(-z gradient)), else theta - z

    where the gradient of the log posterior is estimated from a minibatch (Mauri and Zanella 2024). For small stepsizes
    this is `sgld`. A large gradient determines the direction of a step, but not its length. So with too large a
    stepsize, or with rare huge gradients, the draws are too dispersed, whereas `sgld` diverges. In return, the variance
    is too large, with the relative error ``3/4 eps (1/V + v)``, where V is the variance and v the variance of the
    gradient noise: three times the error of `sgld`, as long as both are small. If the gradient noise is skewed, with
    rare large values on one side, the mean is biased to the other side; "auto" does not detect this.

    With ``covariance="diag"`` the probability corrects for this noise, by the corrected algorithm of the paper: z
    gradient is divided by ``sqrt(1 - z^2 v/1.702^2)``, with v estimated from each minibatch, as for `ccadl`; where the
    root is not real, the step has the sign of the gradient. This removes two thirds of the excess variance due to noise
    if eps v is small, and less if it is above 1.

    References
    ----------
    .. [1] Mauri, L. and Zanella, G. (2024). Robust approximate sampling via stochastic gradient Barker dynamics.
       AISTATS.
    """
    return one_call(barkerSetup, **locals())


@public
def barkerSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    seed: int | None = None,
    *,
    covariance: str | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Barker dynamics, to run step by step; see `barker`."""
    choices = Choices(
        "barker", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    if covariance not in (None, Covariance.DIAGONAL.value):
        raise choices.refuse("covariance", f"be None or {Covariance.DIAGONAL.value!r}", repr(covariance))
    if covariance and choices.automatic:
        raise choices.refuse(
            "stepsize",
            f"be a number with covariance={covariance!r}, since the correlation of the noise between elements is "
            "neither corrected nor predicted",
            "'auto'",
        )
    return set_up(choices, barker_dynamics(corrected=covariance is not None), gradient, {"covariance": covariance})
