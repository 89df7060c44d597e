"""logLoss: how well the predictive probabilities of a chain predict labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgmcmc.core.checks import require_flag
from sgmcmc.dataset.entry import numeric
from sgmcmc.diagnostics._labels import checked_labels, require_probabilities

NAME = "logLoss"


def logLoss(probabilities: Any, labels: Any, *, perDraw: bool = False) -> Any:
    """The log loss of predictions: minus the mean log probability of the true labels.

    Parameters
    ----------
    probabilities : array_like
        For two classes, the probability of label 1 for each of n observations, (n,), or
        (T, n) for T draws. For k classes, (T, n, k). Join several chains along the
        first axis: ``p.reshape(-1, n)``.
    labels : array_like
        The true labels, (n,): 0 or 1, or the number of the class, from 0 to k - 1.
    perDraw : bool, default False
        Whether to score each draw by itself, for a curve along the chain ([1]_, section
        5.2.2). By default the score is that of the posterior predictive probability,
        the mean of the probabilities over the draws.

    Returns
    -------
    float or numpy.ndarray
        One number in nats, or with `perDraw` one for each draw, (T,). It is infinite if
        a true label has the probability 0. This can come from float32, which rounds
        probabilities near 1 to 1: compute them in float64.

    Raises
    ------
    ValueError
        If a number is not a probability, if a label is not a class, or if shapes do not
        match.

    Notes
    -----
    With p_t(y_i) the probability that draw t gives to the true label y_i, the log loss
    is the mean over observations i of::

        -log( mean over t of p_t(y_i) )

    By Jensen's inequality this is at most the mean of the losses of the draws.

    References
    ----------
    .. [1] Putcha, S., Nemeth, C. and Fearnhead, P. (2023). Preferential subsampling for stochastic gradient Langevin
       dynamics. AISTATS.

    Examples
    --------
    >>> from sgmcmc.diagnostics import logLoss
    >>> round(logLoss([[0.9, 0.4], [0.7, 0.2]], labels=[1, 0]), 4)
    0.2899
    >>> logLoss([[0.9, 0.4], [0.7, 0.2]], labels=[1, 0], perDraw=True).round(4)
    array([0.3081, 0.2899])
    """
    perDraw = require_flag("perDraw", NAME, perDraw)
    p = numeric("probabilities", NAME, probabilities)
    if p.ndim not in (1, 2, 3) or p.size == 0:
        raise ValueError(
            f"probabilities of {NAME} must have the shape (n,), (T, n) or, for k classes, (T, n, k), with at least one "
            f"of each; got shape {p.shape}."
        )
    p = p[None] if p.ndim == 1 else p
    y = checked_labels(NAME, labels, p.shape[1], p.shape[2] if p.ndim == 3 else 2)
    require_probabilities(NAME, p, p.ndim == 3)
    if p.ndim == 3:
        happened = p[:, np.arange(len(y)), y].astype(np.float64)
    else:
        happened = np.where(y == 1, p, 1 - p.astype(np.float64))
    with np.errstate(divide="ignore"):
        if perDraw:
            return -np.log(happened).mean(axis=1)
        return float(-np.log(happened.mean(axis=0)).mean())
