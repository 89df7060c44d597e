"""The stochastic Cox-Ingersoll-Ross process: scir and scirSetup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.sampler import Sgmcmc
from sgmcmc.arguments.signatures import CommonOptions, SimplexOptions, one_call, public
from sgmcmc.arguments.simplex import SimplexChoices, set_up, warn_of_rounding
from sgmcmc.draws.draws import Draws
from sgmcmc.simplex.scir import scir as scir_rule


@public
def scir(
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
    """Sample probabilities by the stochastic Cox-Ingersoll-Ross process.

    The target of omega is Dirichlet(alpha + counts). The counts of the categories are
    estimated from a minibatch. With omega = theta / sum(theta), h the `stepsize` and a =
    alpha + N/n times the counts of the minibatch, each iteration makes the update::

        J ~ Poisson(theta exp(-h) / (1 - exp(-h)))
        theta' ~ (1 - exp(-h)) Gamma(a + J, 1)

    This is the exact transition of a Cox-Ingersoll-Ross process over a time h (Baker et al.
    [1]_, algorithm 1). So there is no discretisation error, even for probabilities close
    to 0. What remains is minibatch noise: it adds ``tanh(h/2)`` times the variance of a to
    the variance of theta. If each observation counts one category, the variance of omega is
    multiplied by ``1 + tanh(h/2) (N/n - 1)``. So choose h small relative to n/N: for
    variances within 10%, at most ``0.2 n/N``.

    If `suffStats` draws latent categories and a parameter has several rows, the sums of
    theta lag behind the total counts of the rows by a time of about 1. This changes the
    distribution by about one observation in each row.

    See Also
    --------
    scirSetup : The same, step by step.
    sgrld : The same by Euler steps, which are biased where probabilities are small.

    References
    ----------
    .. [1] Baker, J., Fearnhead, P., Fox, E. B. and Nemeth, C. (2018). Large-scale
       stochastic sampling from the probability simplex. NeurIPS.

    Examples
    --------
    Probabilities of three categories given 1000 observations, none of the last category:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import scir
    >>> z = np.random.default_rng(0).choice(3, size=1000, p=[0.7, 0.3, 0.0])
    >>> dataset = {"z": np.eye(3)[z]}
    >>> def suffStats(params, dataset):
    ...     return {"omega": tf.reduce_sum(dataset["z"], axis=0)}
    >>> out = scir(
    ...     suffStats, dataset, {"omega": np.ones(3) / 3}, stepsize=0.1, alpha=0.5,
    ...     minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ... )
    >>> out["omega"].shape
    (2000, 3)
    >>> bool(abs(out["omega"][1000:, 0].mean() - 0.7) < 0.05)
    True
    """
    return one_call(scirSetup, **locals())


@public
def scirSetup(
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
    """Set up the stochastic Cox-Ingersoll-Ross process, to run step by step.

    See `scir` for the algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import getParams, initSess, scirSetup, sgmcmcStep
    >>> z = np.random.default_rng(0).choice(3, size=1000, p=[0.7, 0.3, 0.0])
    >>> def suffStats(params, dataset):
    ...     return {"omega": tf.reduce_sum(dataset["z"], axis=0)}
    >>> sampler = scirSetup(
    ...     suffStats, {"z": np.eye(3)[z]}, {"omega": np.ones(3) / 3}, stepsize=0.1, alpha=0.5,
    ...     minibatchSize=100, seed=1,
    ... )
    >>> sess = initSess(sampler, verbose=False)
    >>> for _ in range(10):
    ...     sgmcmcStep(sampler, sess, nSteps=100)
    >>> bool(abs(getParams(sampler, sess)["omega"][0] - 0.7) < 0.2)
    True
    """
    choices = SimplexChoices(
        "scir",
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
    warn_of_rounding(choices)
    return set_up(choices, scir_rule())
