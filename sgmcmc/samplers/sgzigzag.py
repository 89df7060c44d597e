"""The stochastic gradient zig-zag process: sgzigzag and sgzigzagSetup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from sgmcmc.dynamics.sgzigzag import sgzigzag as sgzigzag_dynamics
from sgmcmc.model import LogLik, LogPrior
from sgmcmc.output.draws import Draws
from sgmcmc.samplers._choices import Choices
from sgmcmc.samplers._common import Stepsize
from sgmcmc.samplers._options import Options, SetupOptions, one_call, public
from sgmcmc.samplers._set_up import set_up
from sgmcmc.samplers._sgmcmc import Sgmcmc
from sgmcmc.samplers._spike import checked_spike
from sgmcmc.samplers.estimators import Estimator
from sgmcmc.samplers.subsampling import adaptive


@public
def sgzigzag(
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
    inclusion: Mapping[str, Any] | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """The stochastic gradient zig-zag process.

    Each element of the parameters moves with a velocity v of 1 or -1, in steps of the length h, the root of the
    `stepsize`. In each iteration the gradient of the log posterior is estimated from a minibatch, in the middle of the
    step. The velocity turns after a time tau, if that is within the step::

        tau ~ Exp(max(0, -v gradient))
        theta' = theta + v h, v' = v                        if tau > h
        theta' = theta + v tau - v (h - tau), v' = -v       else

    (Fearnhead et al. [1]_, who take the gradient at the beginning of the step). The process moves on in one direction
    until the density falls, so with `gradient=controlVariates()` it needs few iterations for an independent draw. With
    noise of variance v that is large, the variance of the draws is too large by ``sqrt(stepsize v / (2 pi))`` of it.
    Noise that is skewed moves the mean.

    **Variable selection.** With `inclusion` the elements of some parameters have a prior with an atom at 0: each is 0
    with the probability ``1 - inclusion``, and else has the distribution of `logPrior`, the slab. An element that
    reaches 0 stays there for a random time (Bierkens et al. [2]_), with draws that are exactly 0. So
    ``(out["beta"] != 0).mean(axis=0)`` are the posterior probabilities of inclusion. The time depends on the density of
    the slab at 0, which is found from `logPrior` by integration, and must be the same whatever the other elements and
    parameters are.

    References
    ----------
    .. [1] Fearnhead, P., Grazzi, S., Nemeth, C. and Roberts, G. O. (2024). Stochastic gradient piecewise deterministic
       Monte Carlo samplers. arXiv:2406.19051.
    .. [2] Bierkens, J., Grazzi, S., van der Meulen, F. and Schauer, M. (2023). Sticky PDMP samplers for sparse and
       local inference problems. Statistics and Computing 33.
    """
    return one_call(sgzigzagSetup, **locals())


@public
def sgzigzagSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    seed: int | None = None,
    *,
    inclusion: Mapping[str, Any] | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the stochastic gradient zig-zag process, to run step by step; see `sgzigzag`."""
    choices = Choices(
        "sgzigzag", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    spike = checked_spike(choices, inclusion)
    if not spike:
        return set_up(choices, sgzigzag_dynamics(), gradient, {"inclusion": None})
    rates = spike.rates()
    dynamics = {name: sgzigzag_dynamics(rates.get(name)) for name in choices.start}
    return set_up(choices, dynamics, gradient, spike.told())
