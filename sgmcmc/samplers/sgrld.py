"""Stochastic gradient Riemannian Langevin dynamics on the simplex: sgrld and sgrldSetup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.arguments.signatures import CommonOptions, SimplexOptions, one_call, public
from sgmcmc.arguments.simplex import SimplexChoices, set_up
from sgmcmc.draws.draws import Draws
from sgmcmc.simplex.sgrld import sgrld as sgrld_rule


@public
def sgrld(
    suffStats: Callable,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    alpha: Any,
    minibatchSize: float = 0.01,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    normalise: bool = True,
    logScale: bool = False,
    **options: Unpack[SimplexOptions],
) -> Draws:
    """Sample probabilities by stochastic gradient Riemannian Langevin dynamics.

    The target of omega is Dirichlet(alpha + counts). The counts of the categories are
    estimated from a minibatch. With omega = theta / sum(theta), h the `stepsize` and c the
    counts of the minibatch times N/n, each iteration makes the update::

        theta' = |theta + h (alpha - theta + c - omega sum(c)) + N(0, 2 h theta)|

    This is the "expanded mean" of Patterson and Teh [1]_, whose stepsize is twice ours. It
    is biased where probabilities are small, because the noise crosses the boundary, and
    everywhere unless h is far below sum(alpha) / N, because the sum of theta is about
    sum(alpha). `scir` has no such bias, but its random numbers take longer to draw.

    See Also
    --------
    sgrldSetup : The same, step by step.
    scir : The same without discretisation error.

    References
    ----------
    .. [1] Patterson, S. and Teh, Y. W. (2013). Stochastic gradient Riemannian Langevin
       dynamics on the probability simplex. NeurIPS.

    Examples
    --------
    Probabilities of three categories given 1000 observations, none of the last category:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import sgrld
    >>> z = np.random.default_rng(0).choice(3, size=1000, p=[0.7, 0.3, 0.0])
    >>> dataset = {"z": np.eye(3)[z]}
    >>> def suffStats(params, dataset):
    ...     return {"omega": tf.reduce_sum(dataset["z"], axis=0)}
    >>> out = sgrld(
    ...     suffStats, dataset, {"omega": np.ones(3) / 3}, stepsize=0.01, alpha=0.5,
    ...     minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ... )
    >>> out["omega"].shape
    (2000, 3)
    >>> bool(abs(out["omega"][1000:, 0].mean() - 0.7) < 0.05)
    True
    """
    return one_call(sgrldSetup, **locals())


@public
def sgrldSetup(
    suffStats: Callable,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize,
    alpha: Any,
    minibatchSize: float = 0.01,
    seed: int | None = None,
    *,
    normalise: bool = True,
    logScale: bool = False,
    **options: Unpack[CommonOptions],
) -> Sgmcmc:
    """Set up stochastic gradient Riemannian Langevin dynamics, to run step by step.

    See `sgrld` for the algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import getParams, initSess, sgrldSetup, sgmcmcStep
    >>> z = np.random.default_rng(0).choice(3, size=1000, p=[0.7, 0.3, 0.0])
    >>> def suffStats(params, dataset):
    ...     return {"omega": tf.reduce_sum(dataset["z"], axis=0)}
    >>> sampler = sgrldSetup(
    ...     suffStats, {"z": np.eye(3)[z]}, {"omega": np.ones(3) / 3}, stepsize=0.01, alpha=0.5,
    ...     minibatchSize=100, seed=1,
    ... )
    >>> sess = initSess(sampler, verbose=False)
    >>> for _ in range(10):
    ...     sgmcmcStep(sampler, sess, nSteps=100)
    >>> bool(abs(getParams(sampler, sess)["omega"][0] - 0.7) < 0.2)
    True
    """
    choices = SimplexChoices(
        "sgrld",
        dataset,
        params,
        stepsize,
        minibatchSize,
        seed,
        suffStats=suffStats,
        alpha=alpha,
        normalise=normalise,
        logScale=logScale,
        **options,
    )
    return set_up(choices, sgrld_rule())
