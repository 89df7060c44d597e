"""Estimators of the gradient and minibatches of a user's own, through the public face.

It uses the inside of the package: it compares a user's scheme with the package's.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import Estimate, Gradient, Minibatch, ccadl, preferential, scir, sghmc, sgld, sgldcv
from sgmcmc.minibatch.reshuffled import reshuffled

N = 1000
DATASET = {"x": np.sort(np.random.default_rng(0).normal(3.0, 1.0, size=N))}
PARAMS = {"theta": 3.0}
MEAN = float(DATASET["x"].mean())
RUN = {"stepsize": 1e-4, "minibatchSize": 10, "verbose": False, "seed": 1}


def logLik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


def plain(model):
    def estimate(params, batch, constants, memory):
        return Estimate(*model.value_and_gradient(params, batch))

    return Gradient(estimate, terms=lambda params, data, constants, memory: model.term_gradients(params, data))


def around_the_mode(model):
    def prepare(begin, verbose):
        return {"centre": begin.params, "full": begin.gradient}

    def estimate(params, batch, constants, memory):
        value, here = model.value_and_gradient(params, batch)
        there = model.gradient(constants["centre"], batch)
        return Estimate(value, {name: constants["full"][name] + here[name] - there[name] for name in params})

    return Gradient(estimate, prepare, wants_mode=True)


def averaged(model):
    """A table with the last gradient of each observation, as SAGA has, but begun with zeros."""

    def init(params, constants):
        return {"sum": tf.zeros([], model.dtype)}

    def estimate(params, batch, constants, memory):
        terms = model.term_gradients(params, batch.data)["theta"][:, None]
        change = terms - memory["table"]
        gradient = batch.weights * tf.reduce_sum(change) + memory["sum"] + model.prior_gradient(params)["theta"]
        after = {"table": terms, "sum": memory["sum"] + tf.reduce_sum(change)}
        return Estimate(model.log_density(params, batch), {"theta": gradient}, after)

    return Gradient(estimate, init=init, tables={"table": 1})


def renewing(model):
    """SVRG: the full gradient by the data in memory, every ten iterations."""
    x = tf.constant(DATASET["x"], model.dtype)

    def init(params, constants):
        return {"centre": params, "full": {name: tf.zeros_like(theta) for name, theta in params.items()}}

    def estimate(params, batch, constants, memory):
        value, here = model.value_and_gradient(params, batch)
        there = model.gradient(memory["centre"], batch)
        return Estimate(value, {"theta": memory["full"]["theta"] + here["theta"] - there["theta"]}, memory)

    def renew(params):
        return {"centre": params, "full": {"theta": tf.reduce_sum(x[None] - params["theta"][:, None], axis=1)}}

    return Gradient(estimate, init=init, every=10, renew=renew)


def systematic(n_data, n):
    def draw(stream, counters, constants):
        first = stream.integers(counters, tf.range(1), n_data // n)
        return first + n_data // n * tf.range(n), None

    return Minibatch(n, draw, scale=n_data / n, without_replacement=True)


def in_proportion(n_data, n):
    """With replacement, and with probabilities that fall from 3/2N to 1/2N."""

    def draw(stream, counters, constants):
        u = tf.cast(stream.uniform(counters, tf.range(n)), tf.float64)
        place = (3 - tf.sqrt(9 - 8 * u)) / 2  # the inverse of 3/2 x - x^2/2
        indices = tf.minimum(tf.cast(place * n_data, tf.int32), n_data - 1)
        i = tf.cast(indices, tf.float64)
        probability = (1.5 - (i + 0.5) / n_data) / n_data  # of the bin [i, i + 1] / N
        return indices, tf.cast(1 / (n * probability), tf.float32)

    return Minibatch(n, draw, simple=True)


@pytest.mark.parametrize("settings", [{}, {"nChains": 2}, {"stepsize": "auto"}, {"subsampling": preferential()}])
def test_an_estimator_written_again_gives_the_same_draws(settings):
    arguments = RUN | {"nIters": 100} | settings
    ours = sgld(logLik, DATASET, PARAMS, **arguments)["theta"]
    assert np.array_equal(ours, sgld(logLik, DATASET, PARAMS, gradient=plain, **arguments)["theta"])


def test_an_estimator_may_want_the_mode():
    ours = sgldcv(logLik, DATASET, {"theta": 0.0}, **RUN, nIters=100)["theta"]
    own = sgld(logLik, DATASET, {"theta": 0.0}, **RUN, nIters=100, gradient=around_the_mode)
    assert np.array_equal(ours, own["theta"])


@pytest.mark.parametrize("estimator", [averaged, renewing])
@pytest.mark.parametrize("sampler", [sgld, sghmc])
def test_memories_tables_and_renewals(sampler, estimator):
    """The variance of the noise is that of SAGA and SVRG, far below that of the plain estimate.

    With eps = 1e-4 the variance of sgld is eps / (1 - (1 - eps N / 2)^2) = 1.03/N and little more, and with plain
    estimates from 10 observations three times as large. 14000 draws with an autocorrelation time of 40 have a standard
    error of 5% for it, so that the bounds fail by chance in fewer than 1 in 10^9 runs.
    """
    eps = {sgld: 1e-4, sghmc: 1e-5}[sampler]
    arguments = RUN | {"stepsize": eps, "nIters": 4000, "burnIn": 500, "nChains": 4}
    quiet = np.var(sampler(logLik, DATASET, PARAMS, **arguments, gradient=estimator)["theta"]) * N
    plainly = np.var(sampler(logLik, DATASET, PARAMS, **arguments)["theta"]) * N
    assert 0.5 < quiet < 2.0
    assert plainly > 1.5 * quiet


def test_systematic_minibatches_of_sorted_data_have_less_noise():
    """The variance of sgld follows from that of the N/n estimates, half of what uniform minibatches give.

    14000 draws with an autocorrelation time of 40 have a standard error of 5% for it.
    """
    estimates = DATASET["x"].reshape(10, N // 10).mean(axis=0) * N
    eps, noise = 1e-4, estimates.var()
    variance = (eps + eps**2 / 4 * noise) / (1 - (1 - eps * N / 2) ** 2)
    arguments = RUN | {"nIters": 4000, "burnIn": 500, "nChains": 4}
    own = sgld(logLik, DATASET, PARAMS, **arguments, subsampling=systematic)["theta"]
    assert abs(own.mean() - MEAN) < 0.02
    assert np.var(own) == pytest.approx(variance, rel=0.25)
    assert np.var(sgld(logLik, DATASET, PARAMS, **arguments)["theta"]) > 1.5 * variance


def test_weights_of_a_scheme_make_the_estimate_unbiased():
    """The mean of 16 chains of 2000 draws has a standard error of 0.004; without weights it would be 0.5 away."""
    out = sgld(logLik, DATASET, PARAMS, **RUN, nIters=2500, burnIn=500, nChains=16, subsampling=in_proportion)["theta"]
    assert abs(out.mean() - MEAN) < 0.03


def test_a_scheme_of_independent_draws_may_have_an_automatic_stepsize():
    arguments = RUN | {"stepsize": "auto", "nIters": 50}
    assert np.isfinite(sgld(logLik, DATASET, PARAMS, **arguments, subsampling=in_proportion)["theta"]).all()


def test_on_the_simplex():
    dataset = {"z": np.eye(2)[np.arange(N) % 2]}

    def counts(params, dataset):
        return {"omega": tf.reduce_sum(dataset["z"], axis=0)}

    out = scir(counts, dataset, {"omega": [0.5, 0.5]}, 0.1, 0.5, 10, 20, False, 1, subsampling=systematic)
    assert out["omega"].shape == (20, 2)


@pytest.mark.parametrize("part", [{"gradient": around_the_mode}, {"subsampling": systematic}, {"gradient": averaged}])
def test_resumed_draws_are_the_same_and_another_part_is_refused(part, tmp_path):
    whole = sgld(logLik, DATASET, PARAMS, **RUN, nIters=60, **part)["theta"]
    stored = RUN | {"storage": tmp_path / "run.zarr"}
    sgld(logLik, DATASET, PARAMS, **stored, nIters=30, **part)
    assert np.array_equal(whole, sgld(logLik, DATASET, PARAMS, **stored, nIters=60, resume=True, **part)["theta"])
    (argument,) = part
    other = {"gradient": plain, "subsampling": in_proportion}[argument]
    with pytest.raises(ValueError, match=argument):
        sgld(logLik, DATASET, PARAMS, **stored, nIters=90, resume=True, **{argument: other})


def weighing(weight, *, at=lambda counters: 0):
    """Uniform minibatches with replacement, with the weight N/n from constants times `weight` of the draw."""

    def scheme(n_data, n):
        def draw(stream, counters, constants):
            indices = stream.integers(counters, tf.range(n), n_data) + at(counters)
            return indices, tf.broadcast_to(constants["weight"] * weight, indices.shape)

        return Minibatch(n, draw, prepare=lambda importance: {"weight": tf.constant(n_data / n)}, simple=True)

    return scheme


def renewing(value):
    """Plain gradients with a memory that is added to them, and set anew every fourth iteration."""

    def estimator(model):
        def estimate(params, batch, constants, memory):
            value, gradient = model.value_and_gradient(params, batch)
            return Estimate(value, {name: g + memory for name, g in gradient.items()}, memory)

        return Gradient(
            estimate,
            init=lambda params, constants: tf.zeros([]),
            every=4,
            renew=lambda params: tf.fill([params["theta"].shape[0]], value),
            terms=lambda params, data, constants, memory: model.term_gradients(params, data),
        )

    return estimator


def other_terms(model):
    def terms(params, data, constants, memory):
        return {name: 5 * g for name, g in model.term_gradients(params, data).items()}

    return renewing(0.0)(model)._replace(terms=terms)


@pytest.mark.parametrize(
    ("part", "other", "refused"),
    [
        ({"subsampling": weighing(1.0)}, weighing(2.0), True),
        ({"subsampling": weighing(1.0)}, weighing(1.0, at=lambda counters: 0 * tf.cast(counters, tf.int32)[0]), False),
        ({"gradient": renewing(0.0)}, renewing(40.0), True),
        ({"gradient": renewing(0.0)}, other_terms, False),
    ],
    ids=["weights", "draws beyond the trial", "renewal", "terms"],
)
@pytest.mark.filterwarnings("ignore:subsampling of sgld draws minibatches whose weighted sums are biased:UserWarning")
def test_all_functions_of_a_part_identify_a_chain(part, other, refused, tmp_path):
    """Other values are refused; another program that gives the same values is warned of."""
    stored = RUN | {"storage": tmp_path / "run.zarr"}
    (argument,) = part
    sgld(logLik, DATASET, PARAMS, **stored, nIters=30, **part)
    sgld(logLik, DATASET, PARAMS, **stored, nIters=40, resume=True, **part)
    seen = pytest.raises(ValueError, match=argument) if refused else pytest.warns(UserWarning, match="another program")
    with seen:
        sgld(logLik, DATASET, PARAMS, **stored, nIters=60, resume=True, **{argument: other})


def test_tune_prepares_a_scheme_for_each_size():
    """The scheme is "withReplacement" with its weights as constants that depend on n."""
    run = {"minibatchSize": [5, 40], "nGradients": 40_000, "seed": 1, "verbose": False}
    tables = [
        sgmcmc.tune(sgld, logLik, DATASET, PARAMS, [1e-4, 1e-3], subsampling=how, **run).table
        for how in ("withReplacement", weighing(1.0))
    ]
    assert np.allclose(tables[0]["ksd"], tables[1]["ksd"], rtol=1e-4)


def test_what_depends_on_the_history_or_on_single_observations_is_refused():
    with pytest.raises(ValueError, match=r"gradient of tune must have no memory"):
        sgmcmc.tune(sgld, logLik, DATASET, PARAMS, [1e-4], minibatchSize=10, gradient=averaged, seed=1, verbose=False)
    sampler = sgmcmc.sgldSetup(logLik, DATASET, PARAMS, 1e-4, minibatchSize=10, seed=1, subsampling=systematic)
    with pytest.raises(ValueError, match=r"sampler of pseudoVariance must draw observations independently"):
        sgmcmc.diagnostics.pseudoVariance(sampler, {"theta": [3.0]})


def test_dependent_minibatches_have_no_ratio_of_variances():
    given = {"stepsize": 1e-4, "minibatchSize": 10, "nIters": 100, "seed": 1, "verbose": False}
    out = sgld(logLik, DATASET, PARAMS, **given, subsampling=lambda N, n: reshuffled(N, n))
    assert "variance_ratio" not in out.summary() and not out.settings["independentMinibatches"]
    assert "variance_ratio" in sgld(logLik, DATASET, PARAMS, **given).summary()


@pytest.mark.parametrize("name", ["lp", "step_size", "exploring", "minibatch_size", "observations"])
def test_statistics_have_other_names_than_the_packages_own(name):
    still = sgmcmc.Dynamics(lambda theta, memory, given: (theta, memory), stats=lambda memory, given: {name: 1.0})
    with pytest.raises(ValueError, match=rf"dynamics of sample must have names of statistics other than .*{name}"):
        sgmcmc.sample(logLik, DATASET, PARAMS, stepsize=1e-3, nIters=5, dynamics=still)

    def own(model):
        return sgmcmc.Transition(lambda p, m, b, g: (p, m, tf.zeros([])), stats=lambda memory: {name: tf.ones([])})

    with pytest.raises(ValueError, match=rf"transition of sample must have names of statistics other than .*{name}"):
        sgmcmc.sample(logLik, DATASET, PARAMS, stepsize=1e-3, nIters=5, transition=own)


def test_by_steps():
    sampler = sgmcmc.sgldSetup(logLik, DATASET, PARAMS, 1e-4, minibatchSize=10, seed=1, gradient=averaged)
    sess = sgmcmc.initSess(sampler, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=25)
    run = sgld(logLik, DATASET, PARAMS, **RUN, nIters=25, gradient=averaged)["theta"]
    assert sgmcmc.getParams(sampler, sess)["theta"] == run[-1]


def of_value(value):
    return lambda model: Gradient(lambda params, batch, constants, memory: value(model, params, batch))


def prepared(constants):
    return lambda model: Gradient(lambda params, *_: Estimate(tf.zeros([]), params), lambda begin, verbose: constants)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (lambda model: None, "must return a Gradient; got None"),
        (of_value(lambda model, params, batch: 1.0), "must return an Estimate; got float"),
        (
            of_value(lambda model, params, batch: Estimate(tf.zeros([]), {"theta": tf.zeros([2])})),
            "gradients like params",
        ),
        (of_value(lambda model, params, batch: Estimate(tf.zeros([2]), params)), "a scalar"),
        (of_value(lambda model, params, batch: Estimate(tf.zeros([]), params, {"more": params})), "a memory like the"),
        (of_value(lambda model, params, batch: Estimate(tf.random.normal([]), params)), "must not draw random numbers"),
        (of_value(lambda model, params, batch: model.no_such()), "it raised AttributeError"),
        (lambda model: Gradient(None, every=5), "both `every` and `renew`"),
        (prepared({"factor": 2.0}), r"tensors, such as .*; got {'factor': 2\.0}"),
        (prepared({"factors": [np.ones(2)]}), r"tensors, such as .*; got {'factors': \[array"),
        (prepared(tf.ones([])), "a dict of tensors; got <tf.Tensor"),
        (sgmcmc.saga, r"must be None \(the plain estimate"),
    ],
)
def test_bad_estimators_are_refused_before_anything_runs(estimator, message):
    with pytest.raises(ValueError, match=f"^gradient of sgld .*{message}"):
        sgld(logLik, DATASET, PARAMS, **RUN, gradient=estimator)


def of_draws(draw, **fields):
    return lambda n_data, n: Minibatch(n, draw, **{"scale": n_data / n} | fields)


def uniform(stream, counters, constants):
    return stream.integers(counters, tf.range(10), N), None


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (lambda n_data, n: None, "must return a Minibatch; got None"),
        (lambda n_data, n: Minibatch(2 * n, uniform, 1.0), "of size 10"),
        (of_draws(uniform, scale=1.0), "must have the scale N/n, 100.0"),
        (of_draws(uniform, scale=None), "and some weights"),
        (of_draws(lambda stream, counters, constants: (uniform(stream, counters, 0)[0] + 1, None)), "from 0 to 999"),
        (
            of_draws(lambda stream, counters, constants: (uniform(stream, counters, 0)[0][:, 0], None)),
            r"int32 indices \[",
        ),
        (
            of_draws(lambda stream, counters, constants: (tf.random.uniform([4], 0, 9, tf.int32), None)),
            "random numbers",
        ),
        (of_draws(lambda stream, counters: 1 / 0), "it raised TypeError"),
        (
            of_draws(
                lambda stream, counters, constants: (
                    uniform(stream, counters, 0)[0],
                    tf.fill([counters.shape[0], 2, 10], tf.constant(100.0, tf.float64)),
                ),
                scale=None,
            ),
            "weights of type float32; got float64",
        ),
        (
            of_draws(lambda stream, counters, constants: (uniform(stream, counters, 0)[0], tf.zeros([])), scale=None),
            "positive finite weights",
        ),
    ],
)
def test_bad_schemes_are_refused_before_anything_runs(scheme, message):
    with pytest.raises(ValueError, match=f"^subsampling of sgld .*{message}"):
        sgld(logLik, DATASET, PARAMS, **RUN, subsampling=scheme)


def test_a_biased_scheme_is_warned_of():
    def draw(stream, counters, constants):
        return stream.integers(counters, tf.range(10), N // 2), None

    with pytest.warns(UserWarning, match="weighted sums are biased"):
        sgld(logLik, DATASET, PARAMS, **RUN, nIters=5, subsampling=of_draws(draw))


def test_what_needs_the_noise_of_single_observations_is_refused_without_it():
    with pytest.raises(ValueError, match=r"^gradient of sgld must have `terms` for stepsize='auto'"):
        sgld(logLik, DATASET, PARAMS, **RUN | {"stepsize": "auto"}, gradient=averaged)
    with pytest.raises(ValueError, match=r"^subsampling of sgld must draw observations independently"):
        sgld(logLik, DATASET, PARAMS, **RUN | {"stepsize": "auto"}, subsampling=systematic)
    with pytest.raises(ValueError, match=r"^subsampling of ccadl must draw observations independently"):
        ccadl(logLik, DATASET, PARAMS, **RUN, subsampling=systematic)
    with pytest.raises(ValueError, match=r"^gradient of ccadl must have `terms` for the covariance"):
        ccadl(logLik, DATASET, PARAMS, **RUN, gradient=averaged)


ONES = {"x": np.repeat([0.0, 1.0], [30, 70]).astype(np.float32)}
BETA = (71 / 102, np.sqrt(71 * 31 / 102**2 / 103))  # mean and sd of the posterior for a uniform prior
EXACTLY = {"params": {"p": 0.5}, "stepsize": 1.0, "minibatchSize": 100, "verbose": False, "seed": 1}


def beta(model):
    """Exact draws, by two Gammas: a rejection sampler."""

    def step(params, memory, batch, given):
        ones = batch.weights * tf.reduce_sum(batch.data["x"])
        gammas = tf.random.stateless_gamma([2], given.seed, alpha=tf.stack([1 + ones, 1 + 100 - ones]))
        p = gammas[0] / tf.reduce_sum(gammas)
        return {"p": p}, memory + 1, ones * tf.math.log(p) + (100 - ones) * tf.math.log1p(-p)

    def init(params, given):
        return tf.constant(0)

    def stats(memory):
        return {"made": memory}

    return sgmcmc.Transition(step, init=init, stats=stats, wants_noise=False, vectorized=False)


def odds_log_lik(params, dataset):
    return tf.reduce_sum(dataset["x"] * params["odds"] - tf.nn.softplus(params["odds"]))


def odds_log_prior(params):
    return params["odds"] - 2 * tf.nn.softplus(params["odds"])


def metropolis(model, right=True):
    def step(params, memory, batch, given):
        moved = {"odds": params["odds"] + tf.sqrt(given.eps["odds"]) * given.noise["odds"]}
        here, there = (model.log_lik(at, batch.data) + model.log_prior(at) for at in (params, moved))
        accepted = tf.math.log(tf.random.stateless_uniform([], given.seed)) < there - here
        accepted = accepted if right else tf.constant(True)
        return {"odds": tf.where(accepted, moved["odds"], params["odds"])}, memory, tf.where(accepted, there, here)

    return sgmcmc.Transition(step)


@pytest.mark.parametrize("chains", [{}, {"nChains": 3}, {"nChains": 3, "sharedMinibatch": True}])
def test_a_transition_by_rejection_draws_from_the_posterior(chains):
    """Draws are independent: means of at least 2000 fail a bound of 6 standard errors in fewer than 1 in 10^8 runs."""
    with pytest.warns(UserWarning, match="XLA cannot compile a function of yours"):
        out = sgmcmc.sample(None, ONES, **EXACTLY, nIters=2000, transition=beta, **chains)
    n = out["p"].size
    assert abs(out["p"].mean() - BETA[0]) < 6 * BETA[1] / np.sqrt(n)
    assert abs(out["p"].std() / BETA[1] - 1) < 6 / np.sqrt(2 * n)
    assert np.array_equal(np.unique(out.sampleStats["made"]), np.arange(1, 2001))
    if chains:
        assert not (out["p"][0] == out["p"][1]).any()


@pytest.mark.parametrize("right", [True, False])
def test_a_transition_may_use_the_model_and_normals(right):
    """The chain has some 2000 independent draws; one that accepts everything wanders off."""
    run = {"stepsize": 0.2, "logPrior": odds_log_prior, "minibatchSize": 100, "verbose": False, "seed": 1}
    out = sgmcmc.sample(
        odds_log_lik, ONES, {"odds": 0.8}, **run, nIters=4000, nChains=4, transition=lambda m: metropolis(m, right)
    )
    p = 1 / (1 + np.exp(-out["odds"].astype(np.float64)))
    close = abs(p.mean() - BETA[0]) < 6 * BETA[1] / np.sqrt(2000) and abs(p.std() / BETA[1] - 1) < 6 / np.sqrt(4000)
    assert close == right


def test_a_transition_is_stepped_stored_and_resumed_with_the_same_bits(tmp_path):
    run = {"stepsize": 0.2, "logPrior": odds_log_prior, "minibatchSize": 10, "seed": 1, "nChains": 2}
    arguments = (odds_log_lik, ONES, {"odds": 0.8})
    whole = sgmcmc.sample(*arguments, **run, nIters=300, verbose=False, transition=metropolis)["odds"]
    sampler = sgmcmc.sampleSetup(*arguments, **run, transition=metropolis)
    session = sgmcmc.initSess(sampler, verbose=False)
    for n in (1, 99, 200):
        sgmcmc.sgmcmcStep(sampler, session, n)
    assert np.array_equal(sgmcmc.getParams(sampler, session)["odds"], whole[:, -1])
    stored = {"storage": tmp_path / "own.zarr", "verbose": False, "resume": True}
    sgmcmc.sample(*arguments, **run, nIters=170, transition=metropolis, **stored)
    again = sgmcmc.sample(*arguments, **run, nIters=300, transition=metropolis, **stored)["odds"]
    assert np.array_equal(np.asarray(again), whole)
    for other in (
        lambda model: metropolis(model, False),
        lambda model: metropolis(model)._replace(stats=lambda memory: {"accepted": tf.constant(7.0)}),
    ):
        with pytest.raises(ValueError, match="transition of sample must be what it was"):
            sgmcmc.sample(*arguments, **run, nIters=400, transition=other, **stored)


def without_weights(params, memory, batch, given):
    return params, memory, tf.zeros([2])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"transition": None}, "dynamics of sample must be a Dynamics, or transition a function; got neither"),
        ({"dynamics": sgmcmc.Dynamics(lambda theta, memory, given: (theta, memory))}, "got both of the two"),
        ({"transition": lambda model: 3}, "transition of sample must return a Transition; got 3"),
        ({"transition": lambda model: sgmcmc.Transition(without_weights)}, "must keep a value as"),
        (
            {"transition": lambda model: sgmcmc.Transition(lambda p, m, b, g: p)},
            "must return params, memory and a value",
        ),
        (
            {"transition": lambda model: model.log_lik},
            "transition of sample must be a function in TensorFlow operations",
        ),
        ({"stepsize": "auto"}, "stepsize of sample must be given with a transition"),
        ({"stepsize": sgmcmc.cyclical(1.0, 10, 0.5)}, "stepsize of sample must have explorationFraction=0"),
        ({"gradient": sgmcmc.svrg()}, "gradient of sample must be None with a transition"),
        ({"gibbs": lambda *given: {}}, "gibbs of sample must be None with a transition"),
        ({"preconditioner": [[1.0]]}, "preconditioner of sample must be None with a transition"),
        ({"minibatchSize": sgmcmc.adaptive()}, "minibatchSize of sample must be a number with a transition"),
        ({"subsampling": preferential()}, "subsampling of sample must have weights with a transition"),
        ({"temperature": 2.0}, "logLik of sample must be a function if logPrior or a temperature is given"),
        ({"gradients": True}, "gradients of sample must be False with a transition"),
    ],
)
def test_bad_transitions_are_refused_before_anything_runs(changed, message):
    with pytest.raises(ValueError, match=message):
        sgmcmc.sample(None, ONES, **EXACTLY | {"nIters": 10, "transition": beta} | changed)


def test_a_transition_without_a_seed_is_refused_its_random_numbers():
    def step(params, memory, batch, given):
        return {"p": tf.random.uniform([])}, memory, tf.zeros([])

    with pytest.raises(ValueError, match="transition of sample must not draw random numbers by itself"):
        sgmcmc.sample(None, ONES, **EXACTLY, transition=lambda model: sgmcmc.Transition(step))


def test_tune_refuses_transitions():
    with pytest.raises(ValueError, match="transition of tune must be None"):
        sgmcmc.tune(sgmcmc.sample, odds_log_lik, ONES, {"odds": 0.8}, [0.1, 0.2], transition=metropolis)


def test_three_noises_are_standard_normal_and_independent():
    """Moments of 30,000 numbers, with a bound of 6 standard errors: a false alarm in fewer than 1 of 10^8 runs."""
    names = ("first", "second", "third")

    def step(theta, memory, given):
        return theta + 0 * given.gradient, dict(zip(names, given.noise, strict=True))

    def init(theta, given):
        return dict.fromkeys(names, given.noise)

    def stats(memory, given):
        return {name: memory[name][0] for name in names}

    rule = sgmcmc.Dynamics(step, init=init, stats=stats, noises=3)
    params = {"a": np.zeros(2), "b": np.zeros(3)}

    def log_lik(params, dataset):
        return tf.reduce_sum(dataset["x"]) * (tf.reduce_sum(params["a"]) + tf.reduce_sum(params["b"]))

    run = {"stepsize": 1e-3, "minibatchSize": 10, "nIters": 5000, "nChains": 3, "verbose": False, "seed": 1}
    out = sgmcmc.sample(log_lik, ONES, params, **run, dynamics=rule)
    z = {name: np.asarray(out.sampleStats[name], np.float64).ravel() for name in names}
    products = [z[one] * z[other] for one, other in itertools.combinations(names, 2)]
    for moment in (*z.values(), *products, *((x**2 - 1) / 2**0.5 for x in z.values())):
        assert abs(moment.mean()) < 6 / np.sqrt(30_000)
