"""Scores of probabilities of classes, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from sgmcmc.diagnostics import classScores

RNG = np.random.default_rng(0)
CLASSES = RNG.dirichlet([1.0, 2.0, 3.0, 0.5], size=200)
LABELS = RNG.integers(0, 4, size=200)
BINARY, OF_TWO = RNG.uniform(0.01, 0.99, size=200), RNG.integers(0, 2, size=200)


def test_scores_are_those_of_scikit_learn():
    scores = classScores(CLASSES, LABELS)
    assert scores["accuracy"] == accuracy_score(LABELS, CLASSES.argmax(axis=1))
    assert scores["log_loss"] == pytest.approx(log_loss(LABELS, CLASSES), rel=1e-12)
    by_class = [brier_score_loss(k == LABELS, CLASSES[:, k]) for k in range(4)]
    assert scores["brier"] == pytest.approx(sum(by_class), rel=1e-12)


def test_two_classes_by_one_number():
    scores = classScores(BINARY, OF_TWO)
    assert scores["brier"] == pytest.approx(2 * brier_score_loss(OF_TWO, BINARY), rel=1e-12)
    pd.testing.assert_series_equal(scores, classScores(np.stack([1 - BINARY, BINARY], axis=1), OF_TWO))


def test_the_calibration_error_by_hand():
    """Confidences 0.5 and 0.6 are in the interval (0.4, 0.6], 0.9 and 1 in (0.8, 1]."""
    p = np.array([[0.5, 0.5], [0.6, 0.4], [0.1, 0.9], [1.0, 0.0]])
    scores = classScores(p, [0, 1, 1, 1], bins=5)
    assert scores["calibration_error"] == pytest.approx(0.5 * abs(0.5 - 0.55) + 0.5 * abs(0.5 - 0.95))
    assert scores.attrs["bins"] == {
        "confidence": [pytest.approx(0.55), pytest.approx(0.95)], "accuracy": [0.5, 0.5], "count": [2, 2],
    }  # fmt: skip


def test_right_probabilities_have_a_small_error_of_the_stated_size():
    """Mean over 200 sets of 1,000 observations, whose standard error is below 2% of it; the bound is 0.049."""
    found = []
    for _ in range(200):
        p = RNG.uniform(size=1000)
        found.append(classScores(p, RNG.uniform(size=1000) < p)["calibration_error"])
    assert 0.02 < np.mean(found) < 0.4 * np.sqrt(15 / 1000)
    p = RNG.uniform(size=100_000)
    overconfident = 1 / (1 + ((1 - p) / p) ** 3)
    assert classScores(overconfident, RNG.uniform(size=100_000) < p)["calibration_error"] > 0.1


def test_scores_of_several_make_a_table():
    table = pd.DataFrame({"one": classScores(CLASSES, LABELS), "other": classScores(CLASSES[::-1], LABELS)})
    assert table.shape == (4, 2)
    assert pd.concat([classScores(CLASSES, LABELS), classScores(CLASSES[::-1], LABELS)]).shape == (8,)


@pytest.mark.parametrize(
    ("p", "labels", "message"),
    [(CLASSES[None], LABELS, r"must have the shape \(n,\) or, for k classes, \(n, k\)"),
     (CLASSES[:, :1], LABELS, "with k at least 2"),
     (2 * CLASSES, LABELS, "must lie in"),
     (0.5 * CLASSES, LABELS, "must add up to 1 over the classes"),
     (CLASSES, LABELS[:5], r"labels of classScores must have the shape \(200,\)"),
     (CLASSES, LABELS + 1, "must be the numbers of classes, 0 to 3; got 4")],
)  # fmt: skip
def test_refused(p, labels, message):
    with pytest.raises(ValueError, match=message):
        classScores(p, labels)


def test_bins_must_be_a_count():
    with pytest.raises(ValueError, match="bins of classScores must be an integer of at least 1; got 0"):
        classScores(CLASSES, LABELS, bins=0)
