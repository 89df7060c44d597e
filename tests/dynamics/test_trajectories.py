"""Whole chains through the kernel and the compiled loop, against loops in NumPy that are given the same random numbers.

Several parameters of different rank, stepsize (one with a schedule) and settings move together. This pins the order of
refresh, drift, gradient, noise and thermostat, which streams feed them, and at which step each minibatch is drawn; in
blocks of three iterations, which do not divide the eight that are made.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit
from scipy.stats import norm

from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.core.schedules import polynomial
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dynamics import Dynamics, descent
from sgmcmc.dynamics.barker import barker
from sgmcmc.dynamics.samadams import samadams
from sgmcmc.dynamics.sghmc import sghmc
from sgmcmc.dynamics.sgld import sgld
from sgmcmc.dynamics.sgnht import sgnht
from sgmcmc.gradients import Estimate, Gradient
from sgmcmc.gradients.control_variates import control_variates
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel.iterations import Iterations, constants
from sgmcmc.kernel.product import Product, build
from sgmcmc.minibatch.reshuffled import reshuffled
from sgmcmc.minibatch.uniform import with_replacement, without_replacement
from sgmcmc.minibatch.weighted import probabilities_of, weighted
from sgmcmc.model import Mode, Model, Returns
from sgmcmc.run import Pace, Plan, Prepared, advance
from sgmcmc.run.feed import Fetch
from sgmcmc.run.loop import Loop
from sgmcmc.run.mode import full_gradient
from sgmcmc.run.recorder import Recorder

N, n, SEED, T = 20, 4, 77, 8
ALPHA, L, A = {"s": 0.1, "v": 0.3, "m": 0.05}, 3, {"s": 0.02, "v": 0.3, "m": 0.1}
X = np.random.default_rng(0).normal(1.0, 0.5, N)
SHAPES = {"s": (), "v": (3,), "m": (2, 2)}
STEPSIZE = {"s": 0.01, "v": 0.004, "m": polynomial(0.02, a=3.0, b=0.5)}
CENTRE = {name: np.full(shape, 0.4) for name, shape in SHAPES.items()}
P = np.arange(1, N + 1) / np.arange(1, N + 1).sum()
MINIBATCHES = {
    "without replacement": without_replacement(N, n),
    "with replacement": with_replacement(N, n),
    "weighted": weighted(len(P), n, tf.float64, P),
    "reshuffled": reshuffled(N - 1, n),  # 4 minibatches of 19 observations in an epoch, 3 left out
}


def log_lik(params, dataset):
    x = dataset["x"]
    return -0.5 * (
        tf.reduce_sum((x - params["s"]) ** 2)
        + tf.reduce_sum((x[:, None] * params["v"] - 1.0) ** 2)
        + tf.reduce_sum((x[:, None, None] - params["m"] * params["s"]) ** 2)
    )


def log_prior(params):
    return -0.5 * sum(tf.reduce_sum(theta**2) for theta in params.values())


MODEL = Model(log_lik, log_prior, InMemory({"x": X}), Returns.SUM, tf.float64)


def gradient(theta, x, w):
    """By hand; the likelihood terms weighted by w [n], the prior once."""
    s, v, m = theta["s"], theta["v"], theta["m"]
    errors = x[:, None, None] - m * s  # [n, 2, 2]
    w1, w2 = w[:, None], w[:, None, None]
    return {
        "s": np.sum(w * (x - s)) + np.sum(w2 * errors * m) - s,
        "v": -np.sum(w1 * x[:, None] * (x[:, None] * v - 1), axis=0) - v,
        "m": np.sum(w2 * errors * s, axis=0) - m,
    }


@cache
def all_noise(purpose, name, n_chains):
    """What the package draws at every step, [C, T * L, *shape]. Elements are numbered through all parameters."""
    sizes = {k: int(np.prod(SHAPES[k])) for k in sorted(SHAPES)}
    offset = sum(size for k, size in sizes.items() if k < name)
    stream = Stream(keys(SEED, purpose, n_chains))
    z = stream.normal(tf.range(T * L), offset + tf.range(sizes[name]), tf.float64)
    return np.moveaxis(z.numpy(), 1, 0).reshape(n_chains, T * L, *SHAPES[name])


@cache
def all_minibatches(how, n_chains, purpose=Purpose.MINIBATCH):
    """Indices and weights of every step, each [T * L, C, n]."""
    stream, minibatch = Stream(keys(SEED, purpose, n_chains)), MINIBATCHES[how]
    draw = tf.function(lambda t: minibatch.draw(stream, t, minibatch.prepare(None))[0], jit_compile=True)
    indices = np.concatenate([draw(tf.constant([t], tf.uint32)) for t in range(T * L)])
    if how == "weighted":  # by the probabilities of its table, which are P to 32 bits
        return indices, 1 / (n * probabilities_of(minibatch.prepare(None))[indices])
    return indices, np.full(indices.shape, minibatch.scale)


class Reference:
    """The random numbers and gradients of one chain, in NumPy; with the minibatches of chain 0, if they are shared."""

    def __init__(self, how, n_chains, chain, cv, shared=False):
        self.how, self.chain, self.n_chains, self.cv = how, chain, n_chains, cv
        self.of_batches = 0 if shared else chain

    def noise(self, purpose, name, t):
        return all_noise(purpose, name, self.n_chains)[self.chain, t]

    def minibatch(self, t, purpose=Purpose.MINIBATCH):
        """Indices and weights."""
        return tuple(table[t, self.of_batches] for table in all_minibatches(self.how, self.n_chains, purpose))

    def gradient(self, theta, t, purpose=Purpose.MINIBATCH):
        indices, w = self.minibatch(t, purpose)
        x = X[indices]
        here = gradient(theta, x, w)
        if not self.cv:
            return here
        there, full = gradient(CENTRE, x, w), gradient(CENTRE, X, np.ones(N))
        return {name: full[name] + here[name] - there[name] for name in theta}


def eps_of(name, iteration):
    return 0.02 * (1 + iteration / 3.0) ** -0.5 if name == "m" else STEPSIZE[name]


def sgld_chain(ref, theta):
    for t in range(T):
        g = ref.gradient(theta, t)
        theta = {
            k: theta[k] + eps_of(k, t) / 2 * g[k] + np.sqrt(eps_of(k, t)) * ref.noise(Purpose.NOISE, k, t)
            for k in theta
        }
        yield theta


def sghmc_chain(ref, theta):
    t = 0
    for iteration in range(T):
        nu = {k: np.sqrt(eps_of(k, iteration)) * ref.noise(Purpose.REFRESH, k, t) for k in theta}
        for _ in range(L):
            theta = {k: theta[k] + nu[k] for k in theta}  # all parameters together, then the gradient
            g = ref.gradient(theta, t)
            for k in theta:
                e, z = eps_of(k, iteration), ref.noise(Purpose.NOISE, k, t)
                nu[k] = (1 - ALPHA[k]) * nu[k] + e * g[k] + np.sqrt(2 * ALPHA[k] * e) * z
            t += 1
        yield theta


def sgnht_chain(ref, theta):
    p = {k: ref.noise(Purpose.INITIAL, k, 0) for k in theta}  # u over sqrt(eps), of whatever iteration
    thermostat = dict(A)
    for t in range(T):
        g, u = ref.gradient(theta, t), {}
        for k in theta:
            e, z = eps_of(k, t), ref.noise(Purpose.NOISE, k, t)
            u[k] = (1 - thermostat[k]) * np.sqrt(e) * p[k] + e * g[k] + np.sqrt(2 * A[k] * e) * z
            thermostat[k] = thermostat[k] + np.mean(u[k] ** 2) - e
            p[k] = u[k] / np.sqrt(e)
        theta = {k: theta[k] + u[k] for k in theta}
        yield theta


def samadams_chain(ref, theta, beta=0.8, m=0.1, M=10.0, r=0.25, s=2.0):
    """The norm is that of all parameters together; each has its friction and its stepsize."""
    p = {k: ref.noise(Purpose.INITIAL, k, 0) for k in theta}
    zeta, psi, norms = 1.0, 1.0, []
    for t in range(T):
        g = ref.gradient(theta, t)
        norms.append(np.sqrt(sum(np.sum(x**2) for x in g.values())))
        zeta = beta * zeta + (1 - beta) * (norms[-1] / np.exp(np.mean(np.log(norms)))) ** s
        before, psi = psi, m * (zeta**r + M) / (zeta**r + m)
        for k in theta:
            h, z, c = np.sqrt(eps_of(k, t)), ref.noise(Purpose.NOISE, k, t), (1 - ALPHA[k]) ** psi
            kicked = p[k] + (before + psi) / 2 * h * g[k]
            p[k] = c * kicked + np.sqrt(1 - c**2) * z
            theta = theta | {k: theta[k] + psi * h / 2 * (kicked + p[k])}
        yield theta


def barker_chain(ref, theta):
    for t in range(T):
        g, moved = ref.gradient(theta, t), {}
        for k in theta:
            z = np.sqrt(eps_of(k, t)) * ref.noise(Purpose.NOISE, k, t)
            forwards = norm.cdf(ref.noise(Purpose.SECOND, k, t)) < expit(z * g[k])
            moved[k] = theta[k] + np.where(forwards, z, -z)
        theta = moved
        yield theta


def sgd_chain(ref, theta):
    for t in range(T):
        g = ref.gradient(theta, t)
        theta = {k: theta[k] + eps_of(k, t) * g[k] for k in theta}
        yield theta


def adam_chain(ref, theta):
    m, v = dict.fromkeys(theta, 0.0), dict.fromkeys(theta, 0.0)
    for t in range(T):
        g = ref.gradient(theta, t)
        m = {k: 0.9 * m[k] + 0.1 * g[k] for k in theta}
        v = {k: 0.999 * v[k] + 0.001 * g[k] ** 2 for k in theta}
        theta = {
            k: theta[k] + eps_of(k, t) * m[k] / (1 - 0.9 ** (t + 1)) / (np.sqrt(v[k] / (1 - 0.999 ** (t + 1))) + 1e-8)
            for k in theta
        }
        yield theta


CHAINS = {
    "sgld": (sgld_chain, {k: sgld() for k in SHAPES}),
    "sghmc": (sghmc_chain, {k: sghmc(ALPHA[k], L) for k in SHAPES}),
    "sgnht": (sgnht_chain, {k: sgnht(A[k]) for k in SHAPES}),
    "barker": (barker_chain, dict.fromkeys(SHAPES, barker())),
    "samadams": (samadams_chain, {k: samadams(ALPHA[k], 0.8, 0.1, 10.0, 0.25, 2.0, None) for k in SHAPES}),
    "sgd": (sgd_chain, dict.fromkeys(SHAPES, descent.sgd())),
    "adam": (adam_chain, dict.fromkeys(SHAPES, descent.adam())),
}


def estimator_of(cv):
    """The gradient estimator, and its constants."""
    if not cv:
        return plain(MODEL), {}
    centre = {k: tf.constant(c) for k, c in CENTRE.items()}
    return control_variates(MODEL), control_variates(MODEL).prepare(
        Mode(centre, full_gradient(MODEL, centre, verbose=False)[1]), verbose=False
    )


def run(
    dynamics,
    minibatch,
    estimator,
    given,
    chains,
    start,
    fetch=None,
    length=3,
    record=None,
    monitored=False,
    shared=False,
):
    """{name: [T, C, ...]} from the package, by these chains in blocks of `length` iterations.

    `record` makes of a kernel what is recorded, by default the positions.
    """
    n_chains, schedules = len(chains), {k: eps for k, eps in STEPSIZE.items() if callable(eps)}
    iterations = Iterations(SHAPES, tf.float64, schedules, n_chains, shared)
    kernel = build(Product(MODEL, minibatch, estimator, dynamics, iterations, monitored))
    given = constants(SEED, STEPSIZE, {"estimator": given, "minibatch": minibatch.prepare(None)}, tf.float64, chains)
    state = kernel.init(given, {k: tf.constant(np.stack([theta[k] for theta in start])) for k in SHAPES})
    recorder = Recorder(record(kernel) if record else lambda constants, state, inputs: kernel.params(state))
    loop = Loop(Prepared(kernel, given, state, MODEL.data, n_chains), recorder, fetch, length)
    draws = []
    for stretch, outcome in advance.stretches(loop, loop.flatten(state), Plan(T), Pace(loop.feed.length)):
        assert np.isfinite(outcome.log_density).all()
        draws.append([row.numpy()[: stretch.n_rows] for row in outcome.rows])
    loop.feed.close()
    rows = [np.concatenate(series) for series in zip(*draws, strict=True)]
    return tf.nest.pack_sequence_as(loop.row_specs, rows)


def starts(n_chains):
    rng = np.random.default_rng(1)
    return [{k: np.asarray(rng.normal(0.4, 0.1, size=shape)) for k, shape in SHAPES.items()} for _ in range(n_chains)]


def assert_same_chain(draws, expected):
    """`draws` are {name: [T, ...]} of one chain, `expected` the positions one after the other."""
    expected = list(expected)
    for k in SHAPES:
        assert draws[k].shape == (T, *SHAPES[k])
        np.testing.assert_allclose(draws[k], [theta[k] for theta in expected], rtol=1e-9, atol=1e-11)


def of_chain(draws, chain):
    return {k: series[:, chain] for k, series in draws.items()}


# Each dynamics, and each minibatch, with both estimators; each dynamics and each estimator with one chain and with two.
# SGHMC, alone in making several gradients in an iteration, meets the other minibatches in the tests that follow.
CROSSED = [
    ("sgld", False, 1, "without replacement"),
    ("sgld", True, 2, "weighted"),
    ("sghmc", False, 2, "without replacement"),
    ("sghmc", True, 1, "reshuffled"),
    ("sgnht", False, 2, "with replacement"),
    ("sgnht", True, 1, "without replacement"),
    ("barker", True, 2, "weighted"),
    ("samadams", False, 2, "without replacement"),
    ("sgd", False, 2, "reshuffled"),
    ("sgd", True, 1, "without replacement"),
    ("adam", False, 2, "weighted"),
    ("adam", True, 1, "with replacement"),
]


@pytest.mark.parametrize(("name", "cv", "n_chains", "how"), CROSSED)
def test_chain_is_that_of_the_loop_in_numpy(name, cv, n_chains, how):
    reference, dynamics = CHAINS[name]
    start = starts(n_chains)
    draws = run(dynamics, MINIBATCHES[how], *estimator_of(cv), range(n_chains), start)
    for chain in range(n_chains):
        assert_same_chain(of_chain(draws, chain), reference(Reference(how, n_chains, chain, cv), start[chain]))


@pytest.mark.parametrize(("fetch", "length"), [(Fetch.IN_PROGRAM, T), (Fetch.WHEN_NEEDED, 1), (Fetch.AHEAD, 1)])
def test_chain_whoever_fetches_and_however_long_the_blocks_are(fetch, length):
    how, start = "weighted", starts(1)
    draws = run(CHAINS["sghmc"][1], MINIBATCHES[how], *estimator_of(False), range(1), start, fetch, length)
    assert_same_chain(of_chain(draws, 0), sghmc_chain(Reference(how, 1, 0, False), start[0]))


def test_chains_may_begin_with_a_later_one():
    """They have the random numbers of their own numbers, as when the ones before run beside them."""
    how, start = "without replacement", starts(4)
    draws = run(CHAINS["sghmc"][1], MINIBATCHES[how], *estimator_of(False), range(2, 4), start[2:])
    for k, chain in enumerate((2, 3)):
        assert_same_chain(of_chain(draws, k), sghmc_chain(Reference(how, 4, chain, False), start[chain]))


@pytest.mark.parametrize("how", ["weighted", "reshuffled"])
def test_chains_may_share_their_minibatches(how):
    start = starts(2)
    draws = run(CHAINS["sghmc"][1], MINIBATCHES[how], *estimator_of(True), range(2), start, shared=True)
    for chain in range(2):
        expected = sghmc_chain(Reference(how, 2, chain, True, shared=True), start[chain])
        assert_same_chain(of_chain(draws, chain), expected)


@pytest.mark.parametrize(("how", "cv", "shared"), [("weighted", False, True), ("with replacement", True, False)])
def test_gradients_at_the_draws_have_minibatches_of_their_own(how, cv, shared):
    """Drawn for another purpose, by the number of the first gradient of their iteration; the chain is the same."""

    def record(kernel):
        def row(constants, state, inputs):
            return {"theta": kernel.params(state), "gradient": kernel.gradient(constants, state, inputs)}

        return row

    start = starts(2)
    rows = run(
        CHAINS["sghmc"][1],
        MINIBATCHES[how],
        *estimator_of(cv),
        range(2),
        start,
        record=record,
        shared=shared,
        monitored=True,
    )
    for chain in range(2):
        reference = Reference(how, 2, chain, cv, shared)
        draws, gradients = (of_chain(rows[group], chain) for group in ("theta", "gradient"))
        assert_same_chain(draws, sghmc_chain(reference, start[chain]))
        at = [{k: draws[k][t] for k in SHAPES} for t in range(T)]
        assert_same_chain(gradients, [reference.gradient(at[t], t * L, Purpose.MONITOR) for t in range(T)])


@pytest.mark.parametrize(("how", "cv"), [("without replacement", False), ("with replacement", True)])
def test_covariance_of_the_noise_is_that_of_the_minibatch(how, cv):
    """As positions: N^2/n times the variance of the terms, without the prior; times 1 - n/N without replacement."""
    start, unseen = starts(1), 1 - n / N if how == "without replacement" else 1.0
    dynamics = Dynamics(lambda theta, memory, given: (1e-2 * given.covariance, memory), covariance="diag")
    draws = of_chain(run(dict.fromkeys(SHAPES, dynamics), MINIBATCHES[how], *estimator_of(cv), range(1), start), 0)

    def terms(theta, x):
        each = [gradient(theta, x[i : i + 1], np.ones(1)) for i in range(n)]
        return {k: np.stack([g[k] + theta[k] for g in each]) for k in SHAPES}

    def chain(theta):
        for t in range(T):
            x = X[all_minibatches(how, 1)[0][t, 0]]
            here, there = terms(theta, x), terms(CENTRE, x)
            spread = {k: np.var(here[k] - there[k] if cv else here[k], axis=0, ddof=1) for k in SHAPES}
            theta = {k: 1e-2 * unseen * N**2 / n * spread[k] for k in SHAPES}
            yield theta

    assert_same_chain(draws, chain(start[0]))


# --- an estimator with a memory of its own ----------------------------------------------------------------------------

DECAY = 0.7


def averaging():
    """A running average of the estimates so far, from a constant times the first position; and all indices added up."""

    def prepare(begin, verbose):
        return {"share": tf.constant(0.5, tf.float64)}

    def init(params, given):
        return {k: given["share"] * theta for k, theta in params.items()}, tf.constant(0)

    def estimate(params, batch, given, memory):
        average, visited = memory
        value, here = MODEL.value_and_gradient(params, batch)
        average = {k: DECAY * average[k] + (1 - DECAY) * here[k] for k in params}
        shift = tf.cast(visited, tf.float64) * 1e-3
        return Estimate(
            value, {k: g + shift for k, g in average.items()}, (average, visited + tf.reduce_sum(batch.indices))
        )

    return Gradient(estimate, prepare, init)


class Averaging(Reference):
    """The same in NumPy."""

    def __init__(self, *settings):
        super().__init__(*settings)
        self.average, self.visited = None, 0

    def gradient(self, theta, t):
        here = super().gradient(theta, t)
        self.average = {k: DECAY * self.average[k] + (1 - DECAY) * here[k] for k in theta}
        shifted = {k: g + 1e-3 * self.visited for k, g in self.average.items()}
        self.visited += int(self.minibatch(t)[0].sum())
        return shifted


@pytest.mark.parametrize(("name", "n_chains"), [("sgld", 1), ("sghmc", 2)])
def test_memory_of_an_estimator_is_carried_from_gradient_to_gradient(name, n_chains):
    reference, dynamics = CHAINS[name]
    how, start, estimator = "without replacement", starts(n_chains), averaging()
    draws = run(dynamics, MINIBATCHES[how], estimator, estimator.prepare(None, verbose=False), range(n_chains), start)
    for chain in range(n_chains):
        expected = Averaging(how, n_chains, chain, False)
        expected.average = {k: 0.5 * theta for k, theta in start[chain].items()}
        assert_same_chain(of_chain(draws, chain), reference(expected, start[chain]))
