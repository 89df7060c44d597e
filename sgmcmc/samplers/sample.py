"""Samplers with the user's own update rule or transition: sample and sampleSetup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.dynamics import TransitionChoices, checked_dynamics, probed
from sgmcmc.arguments.dynamics import set_up as set_up_transition
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics import Dynamics
from sgmcmc.kernel import Transition
from sgmcmc.model import LogLik, LogPrior, Model


@public
def sample(
    logLik: LogLik | None,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    dynamics: Dynamics | Mapping[str, Dynamics] | None = None,
    gradient: Estimator | None = None,
    transition: Callable[[Model | None], Transition] | None = None,
    **options: Unpack[Options],
) -> Draws:
    """Sample with your own update rule or transition.

    With `dynamics`, minibatches, gradients, chains, storage and sessions are those of the other samplers; only the
    update rule is yours. With `transition` no gradient is needed.

    See Also
    --------
    sampleSetup : The same, step by step.
    Dynamics : What an update rule consists of.
    Transition : What a transition consists of.

    Examples
    --------
    The method of Leimkuhler and Matthews (2013): SGLD, except that each noise is used twice, half now and half in the
    next update.

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import Dynamics, sample
    >>> def init(theta, given):
    ...     return {"noise": given.noise}
    >>> def step(theta, memory, given):
    ...     noise = (memory["noise"] + given.noise) / 2
    ...     theta = theta + given.eps / 2 * given.gradient + tf.sqrt(given.eps) * noise
    ...     return theta, {"noise": given.noise}
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> params = {"theta": 0.0}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sample(
    ...     logLik, dataset, params, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     dynamics=Dynamics(step, init=init),
    ... )
    >>> bool(abs(out["theta"][1000:].mean() - 3.0) < 0.1)
    True
    """
    return one_call(sampleSetup, **locals())


@public
def sampleSetup(
    logLik: LogLik | None,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    seed: int | None = None,
    *,
    dynamics: Dynamics | Mapping[str, Dynamics] | None = None,
    gradient: Estimator | None = None,
    transition: Callable[[Model | None], Transition] | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up a sampler with your own update rule, to run step by step.

    Examples
    --------
    See `sample`.
    """
    if (dynamics is None) == (transition is None):
        got = "neither" if dynamics is None else "both"
        raise ValueError(f"dynamics of sample must be a Dynamics, or transition a function; got {got} of the two.")
    if transition is not None:
        own = TransitionChoices(
            "sample", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
        )
        return set_up_transition(own, transition, gradient)
    choices = Choices(
        "sample", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    checked = checked_dynamics(choices, dynamics)
    return set_up(choices, checked, gradient, identity={"dynamics": probed(checked, choices.start)})
