"""Gradient estimators against exact enumeration.

Expectations are taken over *all* minibatches of a small data set, so unbiasedness is checked to rounding error and not
statistically. The model is a logistic regression: no estimate of it is right by linearity.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import dataset as data
from sgmcmc.arguments.trial import Trial
from sgmcmc.core.trees import numbered
from sgmcmc.dataset import full_pass as full_pass_module
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.on_disk import Arrays, Entry, FetchedData
from sgmcmc.gradients import FIRST, Gradient
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.gradients.saga import saga
from sgmcmc.gradients.svrg import svrg
from sgmcmc.model import Batch, Mode, Model, Returns, RowGradient
from sgmcmc.run.mode import full_gradient

N, n = 6, 2
RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(N, 3)), RNG.integers(0, 2, N).astype(np.float64)
P = np.array([0.05, 0.1, 0.15, 0.2, 0.2, 0.3])
THETA = {"w": np.array([0.5, -1.0, 2.0]), "b": np.array(0.3)}
CENTRE = {"w": np.array([0.1, 0.2, -0.3]), "b": np.array(-0.2)}


def log_lik_terms(params, dataset):
    logit = tf.linalg.matvec(dataset["X"], params["w"]) + params["b"]
    return dataset["y"] * logit - tf.nn.softplus(logit)


def log_prior(params):
    return -0.5 * tf.reduce_sum(params["w"] ** 2) - tf.abs(params["b"] - 1.0)


def exact_log_density(theta, x=X, y=Y):
    logit = x @ theta["w"] + theta["b"]
    prior = -0.5 * np.sum(theta["w"] ** 2) - abs(theta["b"] - 1)
    return np.sum(y * logit - np.logaddexp(0, logit)) + prior


def exact_gradient(theta, x=X, y=Y):
    residual = y - 1 / (1 + np.exp(-(x @ theta["w"] + theta["b"])))
    return {"w": x.T @ residual - theta["w"], "b": residual.sum() - np.sign(theta["b"] - 1)}


def tensors(params, dtype=tf.float64):
    return {name: tf.constant(value, dtype) for name, value in params.items()}


def model_of(returns, x=X, y=Y, dtype=tf.float64):
    def log_lik_sum(params, dataset):
        return tf.reduce_sum(log_lik_terms(params, dataset))

    log_lik = log_lik_terms if returns is Returns.TERMS else log_lik_sum
    arrays = {"X": x.astype(dtype.as_numpy_dtype), "y": y.astype(dtype.as_numpy_dtype)}
    return Model(log_lik, log_prior, InMemory(arrays), returns, dtype)


def batch_of(model, indices, weights):
    indices = tf.convert_to_tensor(indices)
    return Batch(model.data.layout.unpack(tf.gather(model.data.rows, indices)), weights, indices)


def mode_at(model, centre):
    return Mode(tensors(centre), full_gradient(model, tensors(centre), verbose=False)[1])


def all_minibatches(how):
    """Every minibatch with its probability and its weights."""
    if how == "without replacement":
        subsets = list(combinations(range(N), n))
        return [(s, 1 / len(subsets), N / n) for s in subsets]
    p = P if how == "weighted" else np.full(N, 1 / N)
    if how == "weighted":
        return [(s, np.prod(p[list(s)]), 1 / (n * p[list(s)])) for s in product(range(N), repeat=n)]
    return [(s, np.prod(p[list(s)]), N / n) for s in product(range(N), repeat=n)]


def estimates(model, gradient, theta, centre, how):
    """[(probability, {name: estimate})] over all minibatches."""
    constants = gradient.prepare(mode_at(model, centre), verbose=False)
    memory = gradient.init(tensors(theta), constants)

    @tf.function
    def estimate(params, indices, weights):
        batch = batch_of(model, indices, weights)
        value, estimated, after = gradient.estimate(params, batch, constants, memory)
        tf.debugging.assert_equal(value, model.log_density(params, batch))  # the plain one, whatever the estimator
        assert after == memory == ()  # neither of these estimators remembers anything
        return estimated

    out = []
    for indices, probability, weights in all_minibatches(how):
        # A float weight must stay a Python float: it is how uniform minibatches say "the same for all".
        weights = weights if isinstance(weights, float) else tf.constant(weights, tf.float64)
        out.append((probability, estimate(tensors(theta), tf.constant(indices), weights)))
    return out


HOW = ["without replacement", "with replacement", "weighted"]


@pytest.mark.parametrize("returns", Returns)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("estimator", [plain, control_variates])
def test_average_over_all_minibatches_is_the_exact_gradient(estimator, how, returns):
    model = model_of(returns)
    every = estimates(model, estimator(model), THETA, CENTRE, how)
    assert np.isclose(sum(p for p, _ in every), 1)
    exact = exact_gradient(THETA)
    for name in THETA:
        average = sum(p * g[name].numpy() for p, g in every)
        np.testing.assert_allclose(average, exact[name], rtol=1e-11)
    spread = np.std([g["b"].numpy() for _, g in every])
    assert spread > 0.1  # they do differ, so the average was not trivially right


@pytest.mark.parametrize("how", HOW)
def test_every_single_plain_estimate_is_right(how):
    model = model_of(Returns.SUM)
    every = estimates(model, plain(model), THETA, CENTRE, how)
    for (indices, _, weights), (_, g) in zip(all_minibatches(how), every, strict=True):
        prior = exact_gradient(THETA, X[:0], Y[:0])
        for name in THETA:
            terms = [exact_gradient(THETA, X[[i]], Y[[i]])[name] - prior[name] for i in indices]
            expected = prior[name] + sum(w * t for w, t in zip(np.broadcast_to(weights, n), terms, strict=True))
            np.testing.assert_allclose(g[name].numpy(), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("returns", Returns)
def test_control_variates_at_the_centre_are_the_full_gradient_to_the_last_bit(how, returns):
    model = model_of(returns)
    gradient = control_variates(model)
    full = gradient.prepare(mode_at(model, CENTRE), verbose=False)["full"]
    for name, exact in exact_gradient(CENTRE).items():
        np.testing.assert_allclose(full[name].numpy(), exact, rtol=1e-12)
    for _, g in estimates(model, gradient, CENTRE, CENTRE, how):
        for name in CENTRE:
            np.testing.assert_array_equal(g[name].numpy(), full[name].numpy())


def test_control_variates_reduce_the_variance_near_the_centre_by_the_square_of_the_distance():
    model = model_of(Returns.SUM)

    def spread(estimator, distance):
        theta = {name: c + distance for name, c in CENTRE.items()}
        every = estimates(model, estimator(model), theta, CENTRE, "without replacement")
        exact = exact_gradient(theta)
        return sum(p * sum(np.sum((g[k].numpy() - exact[k]) ** 2) for k in exact) for p, g in every)

    assert spread(control_variates, 0.1) < 0.05 * spread(plain, 0.1)
    assert 90 < spread(control_variates, 0.1) / spread(control_variates, 0.01) < 110


ELEMENTS = numbered({name: value.shape for name, value in THETA.items()})


@pytest.mark.parametrize("returns", Returns)
@pytest.mark.parametrize("how", HOW)
def test_saga_is_unbiased_and_its_sum_is_that_of_its_table(how, returns):
    """Over all minibatches, with a table from elsewhere; observations that a minibatch has twice count once."""
    model = model_of(returns)
    gradient = saga(model, ELEMENTS, repeats=how != "without replacement")
    constants = gradient.prepare(Mode(tensors(CENTRE), {}), verbose=False)
    table = constants[FIRST]["table"].numpy()
    of_one = [exact_gradient(CENTRE, X[[i]], Y[[i]]) for i in range(N)]
    prior = exact_gradient(CENTRE, X[:0], Y[:0])
    np.testing.assert_allclose(table, [[g["b"] - prior["b"], *(g["w"] - prior["w"])] for g in of_one], rtol=1e-11)
    memory = gradient.init(tensors(THETA), constants)
    average = dict.fromkeys(THETA, 0.0)
    forgotten = 0.0
    for indices, probability, weights in all_minibatches(how):
        rows = tf.gather(table, indices)
        weights = weights if isinstance(weights, float) else tf.constant(weights, tf.float64)
        batch = batch_of(model, tf.constant(indices), weights)
        estimate = gradient.estimate(tensors(THETA), batch, constants, memory | {"table": rows})
        for name in THETA:
            average[name] = average[name] + probability * estimate.gradient[name].numpy()
        even = gradient.estimate(tensors(THETA), batch._replace(weights=N / n), constants, memory | {"table": rows})
        forgotten += probability * even.gradient["b"].numpy()
        after = table.copy()
        after[list(indices)] = estimate.memory["table"].numpy()
        np.testing.assert_allclose(estimate.memory["sum"].numpy(), after.sum(axis=0), rtol=1e-11)
    for name, exact in exact_gradient(THETA).items():
        np.testing.assert_allclose(average[name], exact, rtol=1e-11)
    if how == "weighted":  # and without its 1/p_i it is not
        assert abs(forgotten - exact_gradient(THETA)["b"]) > 0.01


def test_the_sum_of_saga_stays_that_of_its_table_in_float32():
    """Over 300 gradients of size 1e3, whose differences are not exact in float32."""
    model = model_of(Returns.SUM, 1e3 * X, dtype=tf.float32)
    gradient = saga(model, ELEMENTS, repeats=False)
    constants = gradient.prepare(Mode(tensors(CENTRE, tf.float32), {}), verbose=False)

    @tf.function
    def estimate(params, indices, memory):
        return gradient.estimate(params, batch_of(model, indices, N / n), constants, memory).memory

    table, memory = constants[FIRST]["table"].numpy().copy(), gradient.init({}, constants)
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows = rng.choice(N, n, replace=False)
        theta = {name: 1e-3 * rng.normal(size=np.shape(value)) for name, value in THETA.items()}
        given = memory | {"table": tf.constant(table[rows])}
        memory = estimate(tensors(theta, tf.float32), tf.constant(rows, tf.int32), given)
        table[rows] = memory["table"]
    np.testing.assert_allclose(memory["sum"], table.sum(axis=0, dtype=np.float64), rtol=1e-10, atol=1e-9)


def test_svrg_renews_its_centre_with_the_exact_gradient_of_each_chain():
    model = model_of(Returns.SUM)
    gradient = svrg(model, ELEMENTS, every=10)
    chains = {name: tf.stack([tensors(THETA)[name], tensors(CENTRE)[name]]) for name in THETA}
    memory = gradient.renew(chains)
    for chain, theta in enumerate((THETA, CENTRE)):
        for name, exact in exact_gradient(theta).items():
            np.testing.assert_allclose(memory["full"][name][chain], exact, rtol=1e-12)
            np.testing.assert_array_equal(memory["centre"][name][chain], theta[name])
    of_first = tf.nest.map_structure(lambda x: x[1], memory)
    for how in HOW:
        average = 0.0
        for indices, probability, weights in all_minibatches(how):
            weights = weights if isinstance(weights, float) else tf.constant(weights, tf.float64)
            batch = batch_of(model, tf.constant(indices), weights)
            estimate = gradient.estimate(tensors(THETA), batch, {}, of_first)
            average += probability * estimate.gradient["b"].numpy()
        np.testing.assert_allclose(average, exact_gradient(THETA)["b"], rtol=1e-11)


def test_the_whole_data_as_minibatch_is_the_exact_gradient_without_noise():
    model = model_of(Returns.SUM)
    for weights in (1.0, tf.ones([N], tf.float64)):
        g = model.gradient(tensors(THETA), batch_of(model, tf.range(N), weights))
        for name, exact in exact_gradient(THETA).items():
            np.testing.assert_allclose(g[name].numpy(), exact, rtol=1e-12)


def test_no_prior_is_the_uniform_prior():
    model = Model(log_lik_terms, None, model_of(Returns.TERMS).data, Returns.TERMS, tf.float64)
    g = model.gradient(tensors(THETA), batch_of(model, tf.range(N), 1.0))
    prior = exact_gradient(THETA, X[:0], Y[:0])
    for name, exact in exact_gradient(THETA).items():
        np.testing.assert_allclose(g[name].numpy(), exact - prior[name], rtol=1e-12)


# --- the pass over all data -------------------------------------------------------------------------------------------


def full_pass(monkeypatch, model, theta, block, dtype=tf.float64):
    """In blocks of so many observations."""
    monkeypatch.setattr(full_pass_module, "block_size", lambda data: min(block, data.size))
    return full_gradient(model, tensors(theta, dtype), verbose=False)


@pytest.mark.parametrize("returns", Returns)
@pytest.mark.parametrize("n_data", [1, 6, 7, 8, 14, 20])
def test_full_pass_in_blocks_is_the_one_shot_gradient(n_data, returns, monkeypatch):
    x, y = RNG.normal(size=(n_data, 3)), RNG.integers(0, 2, n_data).astype(np.float64)
    model = model_of(returns, x, y)
    value, gradient = full_pass(monkeypatch, model, THETA, block=7)
    once = full_pass(monkeypatch, model, THETA, block=n_data)
    np.testing.assert_allclose(value.numpy(), exact_log_density(THETA, x, y), rtol=1e-12)
    np.testing.assert_allclose(value.numpy(), once[0].numpy(), rtol=1e-12)
    for name, exact in exact_gradient(THETA, x, y).items():
        np.testing.assert_allclose(gradient[name].numpy(), exact, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(gradient[name].numpy(), once[1][name].numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n_data", [255, 256, 257, 1000])
def test_full_pass_with_the_real_block_size(n_data, monkeypatch):
    monkeypatch.setattr(data, "BLOCK_BYTES", 1)  # then a block is the smallest allowed, 256 rows
    x, y = RNG.normal(size=(n_data, 3)), RNG.integers(0, 2, n_data).astype(np.float64)
    model = model_of(Returns.SUM, x, y)
    assert data.block_size(model.data) == min(n_data, 256)
    value, gradient = full_gradient(model, tensors(THETA), verbose=False)
    np.testing.assert_allclose(value.numpy(), exact_log_density(THETA, x, y), rtol=1e-12)
    for name, exact in exact_gradient(THETA, x, y).items():
        np.testing.assert_allclose(gradient[name].numpy(), exact, rtol=1e-11, atol=1e-11)


def test_float32_blocks_do_not_lose_precision_as_they_are_added_up(monkeypatch):
    """A float32 running total of 3000 blocks of 7 would be wrong in the fifth digit."""
    n_data = 21_001
    x = RNG.normal(size=(n_data, 3)).astype(np.float32).astype(np.float64)
    y = RNG.integers(0, 2, n_data).astype(np.float64)
    theta = {name: value.astype(np.float32).astype(np.float64) for name, value in THETA.items()}
    model = model_of(Returns.SUM, x, y, dtype=tf.float32)
    value, gradient = full_pass(monkeypatch, model, theta, block=7, dtype=tf.float32)
    assert value.dtype == tf.float32
    np.testing.assert_allclose(value.numpy(), exact_log_density(theta, x, y), rtol=3e-7)
    for name, exact in exact_gradient(theta, x, y).items():
        np.testing.assert_allclose(gradient[name].numpy(), exact, rtol=2e-6)


def test_full_pass_over_data_elsewhere_is_that_over_data_in_memory(monkeypatch):
    model = model_of(Returns.TERMS)
    entries = {"X": Entry(np.dtype(np.float64), (3,)), "y": Entry(np.dtype(np.float64), ())}
    elsewhere = Model(
        log_lik_terms, log_prior, FetchedData(Arrays({"X": X, "y": Y}), entries), Returns.TERMS, tf.float64
    )
    here, there = (full_pass(monkeypatch, m, THETA, block=4) for m in (model, elsewhere))
    tf.nest.map_structure(lambda a, b: np.testing.assert_array_equal(a.numpy(), b.numpy()), here, there)


def test_blocks_of_a_part_get_the_rows_of_the_part():
    """As a worker makes the pass: from observation 64 on, with the numbers of these observations only."""
    x, weights = RNG.normal(size=200), RNG.normal(size=200)
    dataset = InMemory({"x": x})

    def of_block(words, factor, weights):
        return [factor * tf.reduce_sum(weights * dataset.layout.unpack(words)["x"])]

    of_part = full_pass_module.FullPass(dataset, of_block, 32)
    blocks = of_part.blocks([tf.constant(2.0, tf.float64)], range(64, 128), [weights[64:128]])
    ends, results = zip(*((end, result.numpy()) for end, (result,) in blocks), strict=True)
    assert ends == (96, 128)
    expected = [2 * weights[start : start + 32] @ x[start : start + 32] for start in (64, 96)]
    np.testing.assert_allclose(results, expected, rtol=1e-12)


def test_parameter_that_the_data_do_not_mention_has_only_its_prior():
    model = Model(
        lambda p, d: -0.5 * tf.reduce_sum((d["x"] - p["a"]) ** 2),
        lambda p: -3.0 * p["b"] ** 2,
        InMemory({"x": np.arange(20.0)}),
        Returns.SUM,
        tf.float64,
    )
    params = {"a": tf.constant(1.0, tf.float64), "b": tf.constant(2.0, tf.float64)}
    _, gradient = full_gradient(model, params, verbose=False)
    assert gradient["a"].numpy() == np.sum(np.arange(20.0) - 1) and gradient["b"].numpy() == -12.0


# --- gathered rows ----------------------------------------------------------------------------------------------------

ROWS = np.array([0, 2, 2, 4, 0, 2], np.int32)


def sparse_model(prior=None):
    def log_lik(params, dataset):
        u = tf.gather(params["U"], dataset["row"])
        return -0.5 * tf.reduce_sum((dataset["y"] - tf.reduce_sum(u**2, axis=1)) ** 2)

    data = InMemory({"row": ROWS, "y": Y + 0.5})
    return Model(log_lik, prior, data, Returns.SUM, tf.float64, frozenset({"U"}) if prior is None else frozenset())


def dense(g: RowGradient, shape):
    """Each distinct row once."""
    out = np.zeros(shape)
    out[g.rows.numpy()] = g.values.numpy()
    return out


GATHERED = {"U": tf.constant(np.maximum(np.bincount(ROWS, minlength=6), 1), tf.float64)}


@pytest.mark.parametrize("how", HOW)
def test_rows_are_visited_once_on_average_and_control_variates_from_anywhere_have_no_bias(how):
    model, u, centre = sparse_model(), RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))
    exact = model.giving_rows(frozenset()).gradient({"U": tf.constant(u)}, Batch(model.data.all(), 1.0))["U"]
    estimator = control_variates(model)
    at_centre = {"U": tf.constant(centre)}
    constants = estimator.prepare(Mode(at_centre, full_gradient(model, at_centre, verbose=False)[1]), verbose=False)
    visits, average = np.zeros(6), np.zeros((6, 2))

    @tf.function
    def estimate(indices, weights):
        batch = batch_of(model, indices, weights)._replace(gathered=GATHERED)
        return estimator.estimate({"U": tf.constant(u)}, batch, constants, ()).gradient["U"]

    for indices, probability, weights in all_minibatches(how):
        if not isinstance(weights, float):
            return  # weighed one by one, no parameter moves by rows
        g = estimate(tf.constant(indices), weights)
        visits[np.unique(g.rows)] += probability * g.visits.numpy()[np.unique(g.rows, return_index=True)[1]]
        average += probability * dense(g, u.shape)
    np.testing.assert_allclose(visits[np.unique(ROWS)], 1, rtol=1e-12)
    np.testing.assert_allclose(average, exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("how", HOW)
def test_gradient_of_gathered_rows_is_unbiased_and_touches_no_other_row(how):
    model, u = sparse_model(), RNG.normal(size=(6, 2))
    residual = Y + 0.5 - np.sum(u[ROWS] ** 2, axis=1)
    exact = np.zeros_like(u)
    np.add.at(exact, ROWS, 2 * residual[:, None] * u[ROWS])
    average = np.zeros_like(u)

    @tf.function
    def estimate(indices, weights):
        return plain(model).estimate({"U": tf.constant(u)}, batch_of(model, indices, weights), {}, ()).gradient["U"]

    for indices, probability, weights in all_minibatches(how):
        weights = weights if isinstance(weights, float) else tf.constant(weights, tf.float64)
        g = estimate(tf.constant(indices), weights)
        assert isinstance(g, RowGradient)
        np.testing.assert_array_equal(np.unique(g.rows), np.unique(ROWS[list(indices)]))
        average += probability * dense(g, u.shape)
    np.testing.assert_allclose(average, exact, rtol=1e-11, atol=1e-12)


def test_occurrences_of_a_row_all_carry_its_whole_gradient():
    model, u = sparse_model(), RNG.normal(size=(6, 2))
    g = model.gradient({"U": tf.constant(u)}, batch_of(model, tf.range(N), 1.0))["U"]
    rows, values = g.rows.numpy(), g.values.numpy()
    for row in np.unique(rows):
        assert (values[rows == row] == values[rows == row][0]).all()
        assert (g.visits.numpy()[rows == row] == 1).all()  # which nobody has counted


def gathered(model: Model, shapes: dict[str, tuple[int, ...]]) -> frozenset[str]:
    params = {name: tf.TensorSpec(shape, model.dtype) for name, shape in shapes.items()}
    return Trial("sgld", model._log_lik, model._log_prior, params, model.data, 2, model.dtype).gathered


def test_a_trial_tells_which_parameters_are_gathered():
    assert gathered(sparse_model(), {"U": (6, 2)}) == {"U"}
    assert gathered(model_of(Returns.SUM), {"w": (3,), "b": ()}) == frozenset()
    # Its prior moves all of a parameter, so that its gradient is no longer that of some rows.
    whole = sparse_model(lambda params: -0.5 * tf.reduce_sum(params["U"] ** 2))
    assert gathered(whole, {"U": (6, 2)}) == frozenset()


def test_rows_that_are_gathered_whatever_the_observations_do_not_move_alone():
    def log_lik(params, dataset):
        fixed = tf.reduce_sum(tf.gather(params["U"], [0, 1]) ** 2)
        return fixed - tf.reduce_sum(tf.gather(params["V"], dataset["row"]) ** 2)

    model = Model(log_lik, None, InMemory({"row": ROWS}), Returns.SUM, tf.float64)
    assert gathered(model, {"U": (6, 2), "V": (6, 2)}) == {"V"}


def test_defaults_of_a_gradient_are_no_constants_no_memory_and_no_mode():
    gradient = Gradient(estimate=plain(model_of(Returns.SUM)).estimate)
    assert (
        gradient.prepare(mode_at(model_of(Returns.SUM), CENTRE), verbose=False) == {}
        and gradient.init(tensors(THETA), {}) == ()
        and not gradient.wants_mode
    )
    assert not plain(model_of(Returns.SUM)).wants_mode and control_variates(model_of(Returns.SUM)).wants_mode
