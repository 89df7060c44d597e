"""The log loss, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from sgmcmc.diagnostics import logLoss

RNG = np.random.default_rng(0)
P = RNG.uniform(0.01, 0.99, size=(7, 20))
Y = RNG.integers(0, 2, size=20)
CLASSES = RNG.dirichlet([1.0, 2.0, 3.0, 0.5], size=(7, 20))
OF_FOUR = np.concatenate([np.arange(4), RNG.integers(0, 4, size=16)])


def test_two_classes():
    assert logLoss(P[0], Y) == pytest.approx(log_loss(Y, P[0]), rel=1e-12)
    assert logLoss(P, Y) == pytest.approx(log_loss(Y, P.mean(axis=0)), rel=1e-12)
    each = logLoss(P, Y, perDraw=True)
    np.testing.assert_allclose(each, [log_loss(Y, p) for p in P], rtol=1e-12)
    assert logLoss(P, Y) < each.mean()


def test_many_classes():
    assert logLoss(CLASSES, OF_FOUR) == pytest.approx(log_loss(OF_FOUR, CLASSES.mean(axis=0)), rel=1e-12)
    np.testing.assert_allclose(
        logLoss(CLASSES, OF_FOUR, perDraw=True), [log_loss(OF_FOUR, p) for p in CLASSES], rtol=1e-12
    )


def test_two_classes_are_a_case_of_many():
    assert logLoss(np.stack([1 - P, P], axis=2), Y) == pytest.approx(logLoss(P, Y))


@pytest.mark.parametrize("kind", [bool, float, np.int32])
def test_labels_of_any_type(kind):
    assert logLoss(P, Y.astype(kind)) == logLoss(P, Y)


def test_float32_is_added_up_in_float64():
    p = np.full((1, 10**6), 0.3, np.float32)
    assert logLoss(p, np.ones(10**6, int)) == pytest.approx(-np.log(np.float64(np.float32(0.3))), rel=1e-12)


def test_what_was_held_impossible_costs_infinitely_much():
    assert logLoss([0.0, 0.5], [1, 0]) == np.inf
    assert logLoss([[0.0, 0.5], [0.5, 0.5]], [1, 0]) == pytest.approx(-np.log(0.25) / 2 - np.log(0.5) / 2)
    np.testing.assert_array_equal(logLoss([[0.0], [1.0]], [1], perDraw=True), [np.inf, 0.0])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((P, Y[1:]), {}, r"^labels of logLoss must have the shape \(20,\), .* got shape \(19,\)\.$"),
        ((P, 2 * Y - 1), {}, r"^labels of logLoss must be 0 or 1; got -1 at index \d+\.$"),
        ((P, Y / 2), {}, r"^labels of logLoss must be 0 or 1; got 0\.5 at index \d+\.$"),
        ((CLASSES, OF_FOUR + 1), {}, r"^labels of logLoss must be the numbers of classes, 0 to 3; got 4 at index 3\.$"),
        ((P * 2, Y), {}, r"^probabilities of logLoss must lie in \[0, 1\]; got numbers from "),
        ((P - 0.5, Y), {}, r"^probabilities of logLoss must lie in \[0, 1\]; got numbers from -"),
        ((P * np.nan, Y), {}, r"^probabilities of logLoss must be finite; got nan at index \(0, 0\)\.$"),
        ((CLASSES / 2, OF_FOUR), {}, r"^probabilities of logLoss must add up to 1 .* got sums from 0\.5 to 0\.5\.$"),
        ((P[:0], Y), {}, r"^probabilities of logLoss must have the shape .* got shape \(0, 20\)\.$"),
        ((0.5, Y), {}, r"^probabilities of logLoss must have the shape .* got shape \(\)\.$"),
        ((["a"], [1]), {}, r"^probabilities of logLoss must be an array of real numbers; got strings such as .a.;"),
        ((P, Y), {"perDraw": 1}, r"^perDraw of logLoss must be True or False; got 1\.$"),
    ],
)
def test_bad_arguments_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        logLoss(*arguments, **options)
