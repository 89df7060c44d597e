"""Models with loops, or with shapes that depend on values, give the draws of the same models without them.

It uses the inside of the package: it evaluates the model at chosen points, as kernels do.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import ccadl, controlVariates, preferential, saga, sgld, sgldcv
from sgmcmc.model import FORWARD, Model, Returns

STEPS = 5
START = tf.constant([0.0, -30.0])
PARAMS = {"logit": np.zeros(2), "mean": np.array([-0.5, 0.5])}


@pytest.fixture(scope="module")
def sequences() -> dict[str, np.ndarray]:
    """Sequences of a hidden Markov model with two states."""
    rng, stays = np.random.default_rng(0), np.array([0.9, 0.8])
    state = np.zeros((400, STEPS), int)
    for t in range(1, STEPS):
        before = state[:, t - 1]
        state[:, t] = np.where(rng.random(400) < stays[before], before, 1 - before)
    return {"y": np.array([-1.0, 1.5])[state] + rng.normal(size=state.shape)}


def _transitions(params):
    stays = tf.sigmoid(params["logit"])
    return tf.math.log(tf.stack([tf.stack([stays[0], 1 - stays[0]]), tf.stack([1 - stays[1], stays[1]])]))


def _densities(params, dataset):
    return -0.5 * (tf.transpose(dataset["y"])[..., None] - params["mean"]) ** 2  # [steps, n, 2]


def _forward(before, density, transitions):
    return tf.reduce_logsumexp(before[:, :, None] + transitions, axis=1) + density


def unrolled(params, dataset):
    densities, transitions = _densities(params, dataset), _transitions(params)
    state = START + densities[0]
    for t in range(1, STEPS):
        state = _forward(state, densities[t], transitions)
    return tf.reduce_logsumexp(state, axis=1)


def scanned(params, dataset):
    densities, transitions = _densities(params, dataset), _transitions(params)
    states = tf.scan(lambda s, d: _forward(s, d, transitions), densities[1:], initializer=START + densities[0])
    return tf.reduce_logsumexp(states[-1], axis=1)


@tf.function
def by_autograph(params, dataset):
    densities, transitions = _densities(params, dataset), _transitions(params)
    state = START + densities[0]
    for t in tf.range(1, STEPS):
        state = _forward(state, densities[t], transitions)
    return tf.reduce_sum(tf.reduce_logsumexp(state, axis=1))


def without_maximum(params, dataset):
    densities, transitions = _densities(params, dataset), _transitions(params)
    _, state = tf.while_loop(
        lambda t, _: t < STEPS,
        lambda t, s: (t + 1, _forward(s, densities[t], transitions)),
        (1, START + densities[0]),
    )
    return tf.reduce_logsumexp(state, axis=1)


def logPrior(params):
    return -0.05 * tf.reduce_sum(params["logit"] ** 2) - 0.05 * tf.reduce_sum(params["mean"] ** 2)


CALLS = {
    "four chains": (sgld, {"stepsize": 1e-4, "nChains": 4}),
    "ccadl": (ccadl, {"stepsize": 1e-5}),
    "saga": (sgld, {"stepsize": 1e-4, "gradient": saga()}),
    "preferential": (sgld, {"stepsize": 1e-4, "subsampling": preferential(), "gradient": controlVariates()}),
    "auto": (sgldcv, {"nChains": 2}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_loop_gives_the_draws_of_its_unrolled_form(sequences, name):
    sampler, chosen = CALLS[name]
    options = {"logPrior": logPrior, "nIters": 50, "minibatchSize": 100, "seed": 1, "verbose": False} | chosen
    exact = sampler(unrolled, sequences, PARAMS, **options)
    for logLik in (scanned, by_autograph)[: 2 if name in ("four chains", "ccadl") else 1]:
        out = sampler(logLik, sequences, PARAMS, **options)
        for parameter in PARAMS:
            np.testing.assert_allclose(out[parameter], exact[parameter], atol=2e-3)


def test_a_loop_without_a_maximum_runs_and_a_warning_says_what_to_write(sequences):
    options = {"stepsize": 1e-4, "minibatchSize": 100, "nIters": 20, "seed": 1, "verbose": False, "nChains": 2}
    with pytest.warns(UserWarning, match="maximum_iterations"):
        out = sgld(without_maximum, sequences, PARAMS, **options)
    exact = sgld(unrolled, sequences, PARAMS, **options)
    np.testing.assert_allclose(out["mean"], exact["mean"], atol=1e-3)


def halves(params, dataset):
    """Squares that count double for some observations."""
    squares = -0.5 * (dataset["y"][:, 0] - params["mean"][0]) ** 2
    return tf.where(dataset["y"][:, 1] > 0, squares, 2 * squares)


def masked(params, dataset):
    squares, first = -0.5 * (dataset["y"][:, 0] - params["mean"][0]) ** 2, dataset["y"][:, 1] > 0
    return tf.reduce_sum(tf.boolean_mask(squares, first)) + 2 * tf.reduce_sum(tf.boolean_mask(squares, ~first))


def of_selected(params, dataset):
    first = dataset["y"][:, 1] > 0
    selected = [tf.gather(dataset["y"][:, 0], tf.where(where)[:, 0]) for where in (first, ~first)]
    return sum(-0.5 * k * tf.reduce_sum((y - params["mean"][0]) ** 2) for k, y in enumerate(selected, 1))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("logLik", [masked, of_selected])
def test_a_mask_gives_the_draws_of_the_form_without_one(sequences, name, logLik):
    """tf.vectorized_map makes wrong sums of them, without an error where XLA compiles."""
    sampler, chosen = CALLS[name]
    options = {"logPrior": logPrior, "nIters": 50, "minibatchSize": 100, "seed": 1, "verbose": False} | chosen
    found, exact = (sampler(each, sequences, PARAMS, **options) for each in (logLik, halves))
    np.testing.assert_allclose(found["mean"], exact["mean"], atol=1e-4)


def test_padding_by_a_number_gives_the_draws_of_a_sum(sequences):
    """tf.vectorized_map pads by zeros, without an error."""

    def padded(params, dataset):
        parts = tf.pad(params["mean"] * dataset["y"][:, :2], [[0, 0], [0, 1]], constant_values=2.0)
        return -0.5 * tf.reduce_sum(tf.matmul(parts, tf.ones([3, 1])) ** 2)

    def summed(params, dataset):
        return -0.5 * tf.reduce_sum((tf.reduce_sum(params["mean"] * dataset["y"][:, :2], axis=1) + 2.0) ** 2)

    options = {"stepsize": 1e-4, "minibatchSize": 100, "nIters": 50, "nChains": 2, "seed": 1, "verbose": False}
    found, exact = (sgld(each, sequences, {"mean": np.ones(2)}, **options) for each in (padded, summed))
    np.testing.assert_allclose(found["mean"], exact["mean"], atol=1e-4)


@pytest.mark.parametrize("gradient", [None, saga()], ids=["plain", "saga"])
def test_each_chain_takes_its_own_branch(sequences, gradient):
    """Compiled, so without a warning."""

    def slopes(params, dataset, choose):
        residual = dataset["y"][:, 0] - params["mean"][0]
        return choose(params["mean"][0] > 0, -0.5 * residual**2, -(residual**2))

    def branched(params, dataset):
        return slopes(params, dataset, lambda positive, a, b: tf.cond(positive, lambda: a, lambda: b))

    options = {"stepsize": 1e-3, "minibatchSize": 100, "nIters": 50, "seed": 1, "nChains": 4, "starts": 1.0}
    options |= {"gradient": gradient, "logPrior": logPrior, "verbose": False}
    exact = sgld(lambda params, dataset: slopes(params, dataset, tf.where), sequences, PARAMS, **options)
    out = sgld(branched, sequences, PARAMS, **options)
    assert len(np.unique(exact["mean"][:, 0, 0] > 0)) == 2
    np.testing.assert_allclose(out["mean"], exact["mean"], atol=1e-4)


@pytest.mark.parametrize("n", [4 * FORWARD - 1, 4 * FORWARD])  # one by one, and along the four elements
def test_the_gradients_of_single_terms_with_a_loop(sequences, n):
    data = {"y": tf.constant(sequences["y"][:n], tf.float64)}
    params = {name: tf.constant(x, tf.float64) for name, x in PARAMS.items()}

    def in_double(logLik):
        return lambda params, data: tf.cast(logLik(*_single(params, data)), tf.float64)

    def _single(*trees):
        return [{name: tf.cast(x, tf.float32) for name, x in tree.items()} for tree in trees]

    found = {}
    for logLik in (unrolled, scanned):
        model = Model(in_double(logLik), None, None, Returns.TERMS, tf.float64)
        found[logLik] = tf.function(model.term_gradients, autograph=False)(params, data)
    for name in PARAMS:
        assert found[scanned][name].shape == (n, 2)
        np.testing.assert_allclose(found[scanned][name], found[unrolled][name], atol=1e-5)
