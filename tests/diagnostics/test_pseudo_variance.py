"""pseudoVariance against all minibatches of a small data set, one by one, and against what is known of it."""

from __future__ import annotations

import re
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import adaptive, controlVariates, preferential, saga, svrg
from sgmcmc.diagnostics import pseudoVariance

N, n = 7, 2
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2)) * [1.0, 3.0]
Y = RNG.integers(0, 2, N).astype(float)
P = np.array([0.05, 0.1, 0.15, 0.2, 0.1, 0.1, 0.3])
POINTS = RNG.normal(size=(4, 2))


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    logit = tf.linalg.matvec(dataset["X"], params["b"])
    return tf.reduce_sum(dataset["y"] * logit - tf.nn.softplus(logit))


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["b"] ** 2)


def sampler(logLik: Any = log_lik, **changes: Any) -> Any:
    given = {"logPrior": log_prior, "minibatchSize": n, "dtype": "float64", "seed": 1} | changes
    return sgmcmc.sgldSetup(logLik, {"X": X, "y": Y}, {"b": np.zeros(2)}, 1e-2, **given)


def terms(b: np.ndarray) -> np.ndarray:
    return (Y - 1 / (1 + np.exp(-X @ b)))[:, None] * X


def enumerated(t: np.ndarray, how: str) -> float:
    """E |estimate - its mean|^2 over all minibatches."""
    if how == "uniform":
        every = [(1 / len(list(combinations(range(N), n))), N / n * t[list(s)].sum(axis=0))
                 for s in combinations(range(N), n)]  # fmt: skip
    else:
        p = P if how == "weights" else np.full(N, 1 / N)
        every = [(np.prod(p[list(s)]), (t[list(s)] / p[list(s), None] / n).sum(axis=0))
                 for s in product(range(N), repeat=n)]  # fmt: skip
    return sum(q * ((g - t.sum(axis=0)) ** 2).sum() for q, g in every)


@pytest.mark.parametrize("how", ["uniform", "withReplacement", "weights"])
@pytest.mark.parametrize("centred", [False, True])
def test_it_is_the_variance_over_all_minibatches(how: str, centred: bool) -> None:
    gradient = controlVariates(1e-2, nItersOpt=300) if centred else None
    made = sampler(subsampling=P if how == "weights" else how, gradient=gradient)
    sgmcmc.initSess(made, verbose=False)
    there = terms(made.paramsOpt["b"].numpy()) if centred else 0.0
    expected = [enumerated(terms(b) - there, how) for b in POINTS]
    np.testing.assert_allclose(pseudoVariance(made, {"b": POINTS}), expected, rtol=1e-9)


def test_control_variates_have_none_at_the_mode() -> None:
    made = sampler(gradient=controlVariates(1e-2, nItersOpt=300))
    sgmcmc.initSess(made, verbose=False)
    mode = {"b": made.paramsOpt["b"].numpy()[None]}
    assert pseudoVariance(made, mode)[0] < 1e-25 * pseudoVariance(sampler(), mode)[0]


def test_weights_in_proportion_to_the_norms_are_the_best_that_there_are() -> None:
    """(sum |t_i|)^2 - |sum t_i|^2, over n, by Cauchy and Schwarz; to rounding."""
    for b in POINTS:
        norms = np.linalg.norm(terms(b), axis=1)
        least = (norms.sum() ** 2 - (terms(b).sum(axis=0) ** 2).sum()) / n
        by_norms = pseudoVariance(sampler(subsampling=preferential(norms, floor=0.0)), {"b": b[None]})[0]
        assert by_norms == pytest.approx(least, rel=1e-11)
        assert pseudoVariance(sampler(), {"b": b[None]}, optimal=True)[0] == pytest.approx(least, rel=1e-11)
        for other in (P, np.ones(N), norms**2, np.sqrt(norms)):
            assert pseudoVariance(sampler(subsampling=preferential(other, floor=0.0)), {"b": b[None]})[0] > least


def test_preferential_weights_have_little_noise_at_the_mode() -> None:
    made = sampler(subsampling=preferential(floor=0.0))
    mode = {"b": made.prepared(verbose=False).mode.params["b"].numpy()[None]}
    at_mode = pseudoVariance(made, mode)[0]
    assert at_mode == pytest.approx(pseudoVariance(made, mode, optimal=True)[0], rel=1e-6)
    assert at_mode < pseudoVariance(sampler(subsampling="withReplacement"), mode)[0]


def test_adaptive_sizes_count() -> None:
    fixed = sampler(gradient=controlVariates(), subsampling="withReplacement")
    far = {"b": POINTS * 3}
    one = pseudoVariance(fixed, far) * n
    adapts = sampler(
        gradient=controlVariates(), minibatchSize=adaptive(np.ones(N), threshold=20.0, pilot=1),
        subsampling="withReplacement",
    )  # fmt: skip
    sgmcmc.initSess(adapts, verbose=False)
    square = ((far["b"] - adapts.paramsOpt["b"].numpy()) ** 2).sum(axis=1)
    sizes = np.clip(np.ceil(square * N * N / 20.0), 1, N)
    np.testing.assert_allclose(pseudoVariance(adapts, far), one / sizes, rtol=1e-9)
    assert len(set(sizes)) > 1


def test_data_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y, p = rng.normal(size=(100, 2)), rng.integers(0, 2, 100).astype(float), rng.uniform(0.5, 2.0, 100)
    given = {"minibatchSize": 5, "dtype": "float64", "subsampling": p, "seed": 1}
    made = sgmcmc.sgldSetup(log_lik, {"X": x, "y": y}, {"b": np.zeros(2)}, 1e-2, **given)
    whole = pseudoVariance(made, {"b": POINTS})
    monkeypatch.setattr("sgmcmc.dataset.BLOCK_NUMBERS", 1)  # then blocks have 16 observations
    np.testing.assert_allclose(pseudoVariance(made, {"b": POINTS}), whole, rtol=1e-12)


def mixing(params: dict, dataset: dict) -> tf.Tensor:
    logit = tf.linalg.matvec(dataset["X"], params["b"])
    return tf.reduce_sum(logit - tf.reduce_logsumexp(logit))


BAD: list[tuple[Any, Any, str]] = [
    ("sgld", {"b": POINTS}, "sampler of pseudoVariance must be the result of a Setup function; got str"),
    ({"gradient": saga()}, {"b": POINTS}, "sampler of pseudoVariance must estimate gradients by the plain estimate or"),
    ({"gradient": svrg(3)}, {"b": POINTS}, "sampler of pseudoVariance must estimate gradients by the plain estimate"),
    ({"logLik": mixing}, {"b": POINTS}, "logLik of pseudoVariance must be a sum over the observations"),
    ({}, {"c": POINTS}, "params of pseudoVariance must have arrays for ['b']"),
    ({}, {"b": POINTS[:, :1]}, "params['b'] of pseudoVariance must have the shape (K, 2) for K points; got (4, 1)"),
    ({}, {"b": POINTS * np.nan}, "params['b'] of pseudoVariance must be finite; got nan"),
]


@pytest.mark.parametrize(("given", "params", "sentence"), BAD, ids=[b[2][:60] for b in BAD])
def test_bad_input(given: Any, params: Any, sentence: str) -> None:
    made = given if isinstance(given, str) else sampler(**given)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        pseudoVariance(made, params)
