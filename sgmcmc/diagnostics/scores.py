"""Scores of predictive probabilities: logLoss and classScores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.core.errors import refused, require_count, require_flag
from sgmcmc.dataset.arrays import first_non_finite, numeric

if TYPE_CHECKING:
    import pandas as pd


SUM_TOLERANCE = 1e-3  # the largest allowed distance of the sum over the classes from 1
LOG_LOSS, CLASS_SCORES = "logLoss", "classScores"


def _checked_labels(of: str, labels: Any, n: int, n_classes: int) -> np.ndarray:
    """The numbers of the classes, [n]."""
    array = numeric("labels", of, labels)
    if array.shape != (n,):
        must = f"have the shape ({n},), one for each observation in probabilities"
        raise refused(of, "labels", must, f"shape {array.shape}")
    allowed = (array >= 0) & (array < n_classes) & (array == np.floor(array))
    if not allowed.all():
        must = "be 0 or 1" if n_classes == 2 else f"be the numbers of classes, 0 to {n_classes - 1}"
        at = int(np.argmin(allowed))
        raise refused(of, "labels", must, f"{array[at]} at index {at}")
    return array.astype(np.int64)


def _require_probabilities(of: str, p: np.ndarray, of_classes: bool) -> None:
    """Reject numbers that are not probabilities, or that do not add up to 1 over classes on the last axis."""
    if not np.isfinite(p).all():
        raise refused(of, "probabilities", "be finite", first_non_finite(p))
    if p.min() < 0 or p.max() > 1:
        raise refused(of, "probabilities", "lie in [0, 1]", f"numbers from {p.min():g} to {p.max():g}")
    sums = p.sum(axis=-1, dtype=np.float64)
    if of_classes and np.abs(sums - 1).max() > SUM_TOLERANCE:
        got = f"sums from {sums.min():g} to {sums.max():g}"
        raise refused(of, "probabilities", "add up to 1 over the classes, the last axis", got)


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
        Whether to score each draw separately, for a curve along the chain ([1]_,
        section 5.2.2). By default the score is that of the posterior predictive
        probability, the mean of the probabilities over the draws.

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
    perDraw = require_flag("perDraw", LOG_LOSS, perDraw)
    p = numeric("probabilities", LOG_LOSS, probabilities)
    if p.ndim not in (1, 2, 3) or p.size == 0:
        must = "have the shape (n,), (T, n) or, for k classes, (T, n, k), with at least one of each"
        raise refused(LOG_LOSS, "probabilities", must, f"shape {p.shape}")
    p = p[None] if p.ndim == 1 else p
    y = _checked_labels(LOG_LOSS, labels, p.shape[1], p.shape[2] if p.ndim == 3 else 2)
    _require_probabilities(LOG_LOSS, p, p.ndim == 3)
    if p.ndim == 3:
        happened = p[:, np.arange(len(y)), y].astype(np.float64)
    else:
        happened = np.where(y == 1, p, 1 - p.astype(np.float64))
    with np.errstate(divide="ignore"):
        if perDraw:
            return -np.log(happened).mean(axis=1)
        return float(-np.log(happened.mean(axis=0)).mean())


def classScores(probabilities: Any, labels: Any, *, bins: int = 15) -> pd.Series:
    """Scores of predicted class probabilities: accuracy, log loss, Brier score, calibration error.

    Parameters
    ----------
    probabilities : array_like
        The probabilities of k classes for each of n observations, (n, k), such as
        ``out.predict(network.outputs, testset)["mean"]``; for two classes, those of
        label 1, (n,), also work.
    labels : array_like
        The true labels, (n,): the number of the class, from 0 to k - 1.
    bins : int, default 15
        The number of equal-width intervals of confidence for the calibration error.

    Returns
    -------
    pandas.Series
        `accuracy`: the share of observations whose label is the most probable class.
        `log_loss`: minus the mean log probability of the label, in nats. `brier`: the
        mean over observations of the squared distance of the probabilities from the
        label, summed over the classes, from 0 to 2. `calibration_error`: the expected
        calibration error [1]_, the mean over observations of the distance between the
        accuracy and the mean confidence of their bin. ``scores.attrs["bins"]`` has the
        `confidence`, `accuracy` and `count` of each nonempty bin, for a reliability
        diagram.

    Raises
    ------
    ValueError
        If a number is not a probability, if a label is not a class, or if shapes do not
        match.

    Notes
    -----
    Confidence is the largest probability of an observation. The calibration error is
    biased upwards: for calibrated probabilities its expectation is up to about
    ``0.4 * sqrt(bins / n)``. Compare it only at equal n.

    References
    ----------
    .. [1] Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern neural networks. ICML.

    Examples
    --------
    >>> from sgmcmc.diagnostics import classScores
    >>> scores = classScores([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]], labels=[0, 1, 1], bins=2)
    >>> scores.round(3).to_dict()
    {'accuracy': 0.667, 'log_loss': 0.499, 'brier': 0.327, 'calibration_error': 0.033}
    >>> scores.attrs["bins"]["count"]
    [3]
    """
    import pandas as pd

    n_bins = require_count("bins", CLASS_SCORES, bins, 1)
    p = numeric("probabilities", CLASS_SCORES, probabilities).astype(np.float64)
    if p.ndim not in (1, 2) or p.size == 0 or (p.ndim == 2 and p.shape[1] < 2):
        must = "have the shape (n,) or, for k classes, (n, k), with k at least 2"
        raise refused(CLASS_SCORES, "probabilities", must, f"shape {p.shape}")
    _require_probabilities(CLASS_SCORES, p, p.ndim == 2)
    p = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
    y = _checked_labels(CLASS_SCORES, labels, *p.shape)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    of_bins = _bins(confidence, right, n_bins)
    scores = {
        "accuracy": right.mean(),
        "log_loss": logLoss(p[None], y),
        "brier": ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean(),
        "calibration_error": np.average(np.abs(of_bins["accuracy"] - of_bins["confidence"]), weights=of_bins["count"]),
    }
    result = pd.Series(scores)
    result.attrs = {"bins": of_bins.to_dict("list")}  # pandas compares attributes, which tables do not allow
    return result


def _bins(confidence: np.ndarray, right: np.ndarray, n_bins: int) -> pd.DataFrame:
    """Mean confidence and accuracy of the observations in each interval (k/bins, (k+1)/bins]."""
    import pandas as pd

    place = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    each = pd.DataFrame({"confidence": confidence, "accuracy": right.astype(float), "count": 1})
    found = each.groupby(place).agg({"confidence": "mean", "accuracy": "mean", "count": "sum"})
    return found.reset_index(drop=True)
