"""classScores: how good predictive probabilities of classes are, and how honest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc.core.checks import require_count
from sgmcmc.dataset.entry import numeric
from sgmcmc.diagnostics._labels import checked_labels, require_probabilities
from sgmcmc.diagnostics.log_loss import logLoss

if TYPE_CHECKING:
    import pandas as pd

NAME = "classScores"


def classScores(probabilities: Any, labels: Any, *, bins: int = 15) -> pd.Series:
    """The scores of predictive probabilities of classes: accuracy, log loss, Brier score, calibration error.

    Parameters
    ----------
    probabilities : array_like
        Of k classes for each of n observations, (n, k), such as
        ``out.predict(network.outputs, testset)["mean"]``; for two classes also those of
        label 1, (n,).
    labels : array_like
        The true labels, (n,): the number of the class, from 0 to k - 1.
    bins : int, default 15
        Into how many intervals of equal length the confidence is cut for the
        calibration error.

    Returns
    -------
    pandas.Series
        `accuracy`: the share of observations whose label is the most probable class.
        `log_loss`: minus the mean log probability of the label, in nats. `brier`: the
        mean over observations of the squared distance of the probabilities from the
        label, summed over the classes, from 0 to 2. `calibration_error`: the expected
        calibration error [1]_, the mean over observations of the distance of the
        accuracy of their bin from its mean confidence. ``scores.attrs["bins"]`` has the
        `confidence`, `accuracy` and `count` of each bin that has observations, for a
        reliability diagram.

    Raises
    ------
    ValueError
        If a number is not a probability, if a label is not a class, or if shapes do not
        match.

    Notes
    -----
    Confidence is the largest probability of an observation. The calibration error is
    biased upwards: for probabilities that are right its expectation is up to about
    ``0.4 * sqrt(bins / n)``. Compare it for equal n.

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

    n_bins = require_count("bins", NAME, bins, 1)
    p = numeric("probabilities", NAME, probabilities).astype(np.float64)
    if p.ndim not in (1, 2) or p.size == 0 or (p.ndim == 2 and p.shape[1] < 2):
        raise ValueError(
            f"probabilities of {NAME} must have the shape (n,) or, for k classes, (n, k), with k of at least 2; got "
            f"shape {p.shape}."
        )
    require_probabilities(NAME, p, p.ndim == 2)
    p = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
    y = checked_labels(NAME, labels, *p.shape)
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
