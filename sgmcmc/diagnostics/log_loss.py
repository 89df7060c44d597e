"""logLoss: how well the predictive probabilities of a chain predict labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from sgmcmc.core.checks import require_flag
from sgmcmc.dataset.entry import first_non_finite, numeric

NAME = "logLoss"
SUM_TOLERANCE = 1e-3  # the largest allowed distance of the sum over the classes from 1


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
    y = _labels(labels, p.shape[1], p.shape[2] if p.ndim == 3 else 2)
    _require_probabilities(p)
    if p.ndim == 3:
        happened = p[:, np.arange(len(y)), y].astype(np.float64)
    else:
        happened = np.where(y == 1, p, 1 - p.astype(np.float64))
    with np.errstate(divide="ignore"):
        if perDraw:
            return -np.log(happened).mean(axis=1)
        return float(-np.log(happened.mean(axis=0)).mean())


def _labels(labels: Any, n: int, n_classes: int) -> np.ndarray:
    array = numeric("labels", NAME, labels)
    if array.shape != (n,):
        raise ValueError(
            f"labels of {NAME} must have the shape ({n},), one for each observation in probabilities; got shape "
            f"{array.shape}."
        )
    allowed = (array >= 0) & (array < n_classes) & (array == np.floor(array))
    if not allowed.all():
        must = "0 or 1" if n_classes == 2 else f"the numbers of classes, 0 to {n_classes - 1}"
        at = int(np.argmin(allowed))
        raise ValueError(f"labels of {NAME} must be {must}; got {array[at]} at index {at}.")
    return array.astype(np.int64)


def _require_probabilities(p: np.ndarray) -> None:
    if not np.isfinite(p).all():
        raise ValueError(f"probabilities of {NAME} must be finite; got {first_non_finite(p)}.")
    if p.min() < 0 or p.max() > 1:
        raise ValueError(f"probabilities of {NAME} must lie in [0, 1]; got numbers from {p.min():g} to {p.max():g}.")
    if p.ndim == 3:
        sums = p.sum(axis=2, dtype=np.float64)
        if np.abs(sums - 1).max() > SUM_TOLERANCE:
            raise ValueError(
                f"probabilities of {NAME} must add up to 1 over the classes, the last axis; got sums from "
                f"{sums.min():g} to {sums.max():g}."
            )
