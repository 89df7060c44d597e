"""Constrained parameters: what users see is constrained, what chains move is not, whatever the run; bad ones are named.

That the draws have the right distribution is in tests/statistical/test_transforms.py.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import bijectors as tfb

import sgmcmc
from sgmcmc import getParams, initSess, interval, restoreSess, runningMean, saveSess, sgld, sgldcv, sgmcmcStep

RNG = np.random.default_rng(0)
DATASET = {"x": RNG.normal(1.0, 2.0, size=300), "category": np.eye(4)[RNG.choice(4, size=300)]}
PARAMS = {"mu": 0.5, "sd": 1.5, "omega": np.array([0.1, 0.2, 0.3, 0.4])}
TRANSFORMS = {"sd": "positive", "omega": "simplex"}
N_ITERS = 23


def logLik(params, dataset):
    z = (dataset["x"] - params["mu"]) / params["sd"]
    of_categories = tf.linalg.matvec(dataset["category"], tf.math.log(params["omega"]))
    return tf.reduce_sum(-0.5 * z**2 - tf.math.log(params["sd"]) + of_categories)


def logPrior(params):
    return -params["sd"] + tf.reduce_sum(tf.math.log(params["omega"]))


def run(sampler=sgld, **changed):
    given = {"stepsize": 1e-3, "minibatchSize": 30, "nIters": N_ITERS, "seed": 3, "verbose": False}
    given |= {"logPrior": logPrior, "transforms": TRANSFORMS, "params": PARAMS}
    return sampler(logLik, DATASET, **given | changed)


def set_up(**changed):
    return run(lambda *given, nIters, verbose, **settings: sgmcmc.sgldSetup(*given, **settings), **changed)


@cache
def whole(n_chains=None):
    return run(nChains=n_chains)


def by_hand(function):
    """The same of u: with the sd as exp(u), and the simplex by TensorFlow Probability's bijector."""
    simplex = tfb.IteratedSigmoidCentered()

    def of_u(params, *dataset):
        theta = {"mu": params["mu"], "sd": tf.exp(params["sd"]), "omega": simplex.forward(params["omega"])}
        jacobian = 0.0
        if not dataset:
            jacobian = params["sd"] + simplex.forward_log_det_jacobian(params["omega"], event_ndims=1)
        return function(theta, *dataset) + jacobian

    return of_u


@pytest.mark.parametrize("sampler", [sgld, sgmcmc.sghmc, sgldcv])
def test_the_draws_are_those_of_a_transform_by_hand(sampler):
    auto = {"stepsize": "auto", "minibatchSize": 200} if sampler is sgldcv else {}
    ours = run(sampler, **auto)
    u = np.asarray(tfb.IteratedSigmoidCentered().inverse(tf.constant(PARAMS["omega"], tf.float32)))
    params = {"mu": 0.5, "sd": np.log(1.5), "omega": u}
    settings = {"stepsize": 1e-3, "minibatchSize": 30} | auto
    theirs = sampler(
        by_hand(logLik), DATASET, params, logPrior=by_hand(logPrior), nIters=N_ITERS, seed=3, verbose=False, **settings
    )
    np.testing.assert_allclose(ours["mu"], theirs["mu"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours["sd"], np.exp(theirs["sd"]), rtol=1e-4)
    omega = tfb.IteratedSigmoidCentered().forward(tf.constant(theirs["omega"]))
    np.testing.assert_allclose(ours["omega"], omega, rtol=1e-3)
    np.testing.assert_allclose(ours.logPosterior, theirs.logPosterior, rtol=1e-4)


def test_draws_are_constrained_and_the_settings_say_how():
    out = whole(3)
    assert out["omega"].shape == (3, N_ITERS, 4) and out["sd"].shape == (3, N_ITERS)
    np.testing.assert_allclose(out["omega"].sum(axis=-1), 1.0, rtol=1e-5)
    assert (out["sd"] > 0).all() and out.settings["transforms"] == TRANSFORMS
    assert list(out.summary(diagnostics=False).index) == ["mu", "sd", *(f"omega[{k}]" for k in range(4))]


@pytest.mark.parametrize("n_chains", [None, 3])
def test_the_same_draws_stepped_saved_and_resumed(n_chains, tmp_path):
    out, path = whole(n_chains), tmp_path / "run.zarr"
    run(nChains=n_chains, nIters=11, storage=path)
    resumed = run(nChains=n_chains, storage=path, resume=True)
    for name in PARAMS:
        np.testing.assert_array_equal(resumed[name], out[name])
    with pytest.raises(ValueError, match=r"transforms of sgld must be what it was .*'positive'.*got .*'probes'"):
        run(nChains=n_chains, storage=path, resume=True, transforms={"sd": tfb.Softplus(), "omega": "simplex"})

    sampler = set_up(nChains=n_chains)
    last = (slice(None), -1) if n_chains else -1
    sess = initSess(sampler, verbose=False)
    sgmcmcStep(sampler, sess, nSteps=10)
    saveSess(sampler, sess, tmp_path / "sess")
    sgmcmcStep(sampler, restoreSess(sampler, tmp_path / "sess"), nSteps=N_ITERS - 10)
    for name, theta in getParams(sampler, sampler.session).items():
        np.testing.assert_allclose(theta, out[name][last], rtol=1e-6)


def test_what_is_assigned_to_a_session_is_constrained():
    sampler = set_up(stepsize=1e-9)
    sess = initSess(sampler, verbose=False)
    np.testing.assert_allclose(getParams(sampler, sess)["omega"], PARAMS["omega"], rtol=1e-5)
    sampler.params["omega"].assign([0.7, 0.1, 0.1, 0.1])
    sgmcmcStep(sampler, sess)
    np.testing.assert_allclose(getParams(sampler, sess)["omega"], [0.7, 0.1, 0.1, 0.1], atol=1e-3)
    sampler.params["sd"].assign(-1.0)
    with pytest.raises(ValueError, match=r"params\['sd'\] of a session must have positive numbers; got -1.0"):
        sgmcmcStep(sampler, sess)
    sampler.params["sd"].assign(0.0)
    with pytest.raises(ValueError, match=r"params\['sd'\] of a session must have positive numbers; got 0.0"):
        sgmcmcStep(sampler, sess)
    sampler.params["sd"].assign(1.0)
    sampler.params["omega"].assign([0.2, 0.2, 0.2, 0.2])
    with pytest.raises(ValueError, match=r"params\['omega'\] of a session must have .* sum to 1"):
        sgmcmcStep(sampler, sess)


def test_other_chains_keep_their_bits_when_one_is_assigned():
    sampler, other = (set_up(nChains=3, seed=1) for _ in range(2))
    for one in (sampler, other):
        sgmcmcStep(one, initSess(one, verbose=False), nSteps=5)
    moved = sampler.params["sd"].numpy()
    moved[1] = 2.5
    sampler.params["sd"].assign(moved)
    for one in (sampler, other):
        sgmcmcStep(one, one.session, nSteps=5)
    after, unmoved = (getParams(one, one.session)["sd"] for one in (sampler, other))
    np.testing.assert_array_equal(after[[0, 2]], unmoved[[0, 2]])
    assert after[1] != unmoved[1]


def test_starts_are_constrained_and_their_spread_is_not():
    starts = {"mu": [0.0, 1.0], "sd": [0.5, 3.0], "omega": [[0.25] * 4, [0.1, 0.1, 0.1, 0.7]]}
    sampler = set_up(nChains=2, starts=starts)
    for name, theta in starts.items():
        np.testing.assert_allclose(sampler.params[name], theta, rtol=1e-5)
    sampler = set_up(nChains=500, starts=0.2)
    log_sd = np.log(sampler.params["sd"])
    assert abs(log_sd.mean() - np.log(1.5)) < 0.05 and 0.17 < log_sd.std() < 0.23
    with pytest.raises(ValueError, match=r"starts\['sd'\] of sgld must have positive numbers; got -3"):
        run(nChains=2, starts=starts | {"sd": [0.5, -3.0]})


def test_functions_of_the_user_are_given_constrained_parameters():
    def collect(params):
        return {"product": params["sd"] * params["omega"]}

    out = whole()
    collected = run(collect=collect, reduce={"mean": runningMean()})
    np.testing.assert_allclose(collected["product"], out["sd"][:, None] * out["omega"], rtol=1e-5)
    np.testing.assert_allclose(collected.reduced["mean"]["product"], collected["product"].mean(axis=0), rtol=1e-5)
    reduced = run(reduce=runningMean())
    np.testing.assert_allclose(reduced.reduced["draws"]["omega"], out["omega"].mean(axis=0), rtol=1e-5)

    def gibbs(params, dataset, seed):
        return {"sd": 2.0 + params["omega"][0]}

    moved = run(gibbs=gibbs, nChains=2)
    np.testing.assert_allclose(moved["sd"], 2.0 + moved["omega"][..., 0], rtol=1e-5)


def test_what_gibbs_returns_must_be_in_the_support():
    with pytest.raises(sgmcmc.DivergenceError, match="omega"):
        run(gibbs=lambda params, dataset, seed: {"omega": tf.constant([0.1, 0.1, 0.1, 0.1])})


class Exponential:
    """The transform "positive" without TensorFlow Probability, whose bijectors remember their results."""

    forward, inverse = staticmethod(tf.exp), staticmethod(tf.math.log)

    def forward_log_det_jacobian(self, u):
        return u


def twice(model):
    """An estimator that evaluates the model more than once in an iteration."""

    def estimate(params, batch, constants, memory):
        value, prior = model.log_density(params, batch), model.prior_gradient(params)
        likelihood = model.log_lik_gradient(params, batch.data)
        gradient = {name: batch.weights * likelihood[name] + prior[name] for name in params}
        return sgmcmc.Estimate(value, gradient, memory)

    return sgmcmc.Gradient(estimate)


@pytest.mark.parametrize(
    ("sampler", "gradient", "n_chains"),
    [
        (sgld, twice, None),
        (sgld, sgmcmc.saga(), 3),
        (sgmcmc.ccadl, sgmcmc.controlVariates(), None),
        (sgmcmc.ccadl, sgmcmc.controlVariates(), 2),
    ],
    ids=["the user's own", "saga", "ccadl", "ccadl, 2 chains"],
)
def test_every_gradient_of_an_iteration_passes_through_the_transform(sampler, gradient, n_chains):
    given = {"gradient": gradient, "nChains": n_chains, "stepsize": 1e-4}
    ours, theirs = (
        run(sampler, transforms={"sd": transform, "omega": "simplex"}, **given)
        for transform in ("positive", Exponential())
    )
    for name in PARAMS:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4)
    assert np.std(ours["sd"]) > 0


def test_expected_ratios_are_those_of_the_parameter():
    out = run(sgldcv, stepsize="auto", minibatchSize=200, nIters=100)
    told, expected = out.summary()["expected_sd_ratio"], out.settings["expected"]["sdRatio"]
    assert (told[[f"omega[{k}]" for k in range(4)]] == max(expected["omega"])).all()
    assert told["sd"] == expected["sd"] and told["mu"] == expected["mu"]


def test_what_needs_other_gradients_is_refused():
    out = run()
    gradients = sgmcmc.diagnostics.fullGradients(out, logLik, DATASET, logPrior, verbose=False)
    for function in (sgmcmc.diagnostics.ksd, sgmcmc.diagnostics.zvControlVariates):
        with pytest.raises(ValueError, match=r"draws of \w+ must be of unconstrained parameters"):
            function(out, gradients=gradients)
    size = sgmcmc.adaptive(lipschitz=np.ones(300), threshold=1.0)
    with pytest.raises(ValueError, match=r"transforms of sgldcv must be None for adaptive sizes by Lipschitz"):
        run(sgldcv, minibatchSize=size)


def test_the_mode_is_that_of_the_real_numbers():
    """For a rate with the posterior Gamma(a, b) it is a/b of the logarithm, not (a - 1)/b."""
    count = np.array([1.0, 0.0, 2.0, 1.0])
    sampler = sgmcmc.sgldcvSetup(
        lambda params, dataset: tf.reduce_sum(dataset["count"] * tf.math.log(params["rate"]) - params["rate"]),
        {"count": count},
        {"rate": 3.0},
        minibatchSize=4,
        seed=1,
        transforms={"rate": "positive"},
        verbose=False,
    )
    initSess(sampler, verbose=False)
    np.testing.assert_allclose(sampler.paramsOpt["rate"], (1 + count.sum()) / len(count), rtol=1e-3)


def test_temperature_is_that_of_the_constrained_density():
    """Of the prior density exp(-x), at T = 1/2, that is Gamma(1, 2): the Jacobian is not tempered."""
    out = sgld(
        lambda params, dataset: tf.zeros([]),
        DATASET,
        {"rate": 0.5},
        stepsize=0.05,
        logPrior=lambda params: -params["rate"],
        minibatchSize=1,
        temperature=0.5,
        transforms={"rate": "positive"},
        nChains=40,
        nIters=5000,
        burnIn=500,
        seed=1,
        verbose=False,
    )
    assert abs(out["rate"].mean() - 0.5) < 0.03 and abs(out["rate"].std() - 0.5) < 0.05


def test_gathered_rows_with_a_transform_move_as_a_whole():
    group = np.repeat(np.arange(6), 50)

    def of_groups(params, dataset):
        rate = tf.gather(params["rate"], dataset["group"])
        return tf.reduce_sum(-0.5 * (dataset["x"] - rate) ** 2)

    given = {"stepsize": 1e-3, "minibatchSize": 2, "nIters": 2, "seed": 1, "verbose": False}
    out = sgld(
        of_groups,
        {"x": DATASET["x"], "group": group},
        {"rate": np.ones(6)},
        integers=["group"],
        transforms={"rate": "positive"},
        **given,
    )
    assert (np.diff(out["rate"], axis=0) != 0).all()


class Cube:
    """An object of the user's own: theta = u^3 + u."""

    def forward(self, u):
        return u**3 + u

    def inverse(self, theta):
        u = theta
        for _ in range(60):
            u -= (u**3 + u - theta) / (3 * u**2 + 1)
        return u

    def forward_log_det_jacobian(self, u):
        return tf.math.log(3 * u**2 + 1)


@pytest.mark.parametrize(
    ("transform", "dtype"),
    [("positive", "float64"), (interval(-3, 9), "float64"), (tfb.Softplus(), "float64"), (Cube(), "float32")],
    ids=["word", "interval", "bijector", "object"],
)
def test_what_a_transform_may_be(transform, dtype):
    out = run(transforms={"sd": transform, "omega": "simplex"}, dtype=dtype, nIters=2)
    assert np.isfinite(out["sd"]).all() and out["sd"].dtype == dtype


class Wrong(Cube):
    def forward_log_det_jacobian(self, u):
        return -tf.math.log(3 * u**2 + 1)


SCALE = tf.Variable(2.0)


class Changing(Cube):
    def forward(self, u):
        return SCALE * u

    def inverse(self, theta):
        return theta / SCALE


class Random(Cube):
    def forward(self, u):
        return u**3 + u + 0 * tf.random.normal([])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"transforms": "positive"}, r"transforms of sgld must be None or a dict for some of params, \['mu', 'omega'"),
        ({"transforms": {"s": "positive"}}, r"a dict for some of params, \['mu', 'omega', 'sd'\]; got keys \['s'\]"),
        ({"transforms": {"sd": "posit"}}, r"transforms\['sd'\] of sgld must be one of 'positive', .*; got 'posit'"),
        ({"transforms": {"sd": tfb.Exp}}, r"transforms\['sd'\] of sgld must be one of .*; got <class"),
        ({"transforms": {"sd": interval(2, 1)}}, r"transforms\['sd'\] of sgld must have low below high"),
        ({"transforms": {"sd": interval(2, 3)}}, r"params\['sd'\] of sgld must have numbers between 2 and 3.*got 1.5"),
        ({"transforms": {"sd": interval(1.5, 3)}}, r"params\['sd'\] of sgld must have numbers between 1.5 and 3"),
        ({"transforms": {"sd": "unit"}}, r"params\['sd'\] of sgld must have numbers between 0 and 1, not .*; got 1.5"),
        (
            {"transforms": {"mu": "simplex"}},
            r"transforms\['mu'\] is 'simplex'|transforms\['mu'\] of sgld .* shape \(\)",
        ),
        ({"transforms": {"omega": "corr_cholesky"}}, r"transforms\['omega'\] of sgld .* shape \(4,\)"),
        (
            {"params": PARAMS | {"omega": np.ones(4)}},
            r"params\['omega'\] of sgld must have at least 2 positive numbers",
        ),
        ({"params": PARAMS | {"omega": np.eye(4)[0]}}, r"params\['omega'\] of sgld must have .*sum to 1"),
        ({"params": PARAMS | {"sd": 0.0}}, r"params\['sd'\] of sgld must have positive numbers; got 0"),
        ({"transforms": {"omega": "ordered"}, "params": PARAMS | {"omega": [4, 3, 2, 1]}}, r"numbers that increase"),
        ({"transforms": {"sd": Wrong()}}, r"forward_log_det_jacobian that is the log determinant"),
        ({"transforms": {"sd": Random()}}, r"transforms\['sd'\] of sgld .*random"),
        ({"transforms": {"sd": Changing()}}, r"transforms\['sd'\] of sgld .*the tf.Variable .*, which may change"),
        ({"gradients": True}, r"gradients of sgld must be False with transforms"),
    ],
)
def test_bad_ones_are_named(changed, message):
    with pytest.raises(ValueError, match=message):
        run(**changed)


def test_a_transition_and_a_pseudo_variance_have_none():
    sampler = set_up()
    with pytest.raises(ValueError, match=r"sampler of pseudoVariance must have no transforms"):
        sgmcmc.diagnostics.pseudoVariance(sampler, {name: np.array([x]) for name, x in PARAMS.items()})
    with pytest.raises(ValueError, match=r"transforms of sample must be None with a transition"):
        run(sgmcmc.sample, transition=lambda model: None)


def test_expected_sds_are_compared_where_the_chain_moves():
    """A parameter near its bound is skewed for the user, and normal for the chain: no warning of its shape."""
    count = RNG.poisson(3.0, size=200).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = sgldcv(
            lambda params, dataset: tf.reduce_sum(dataset["count"] * tf.math.log(params["rate"]) - params["rate"]),
            {"count": count},
            {"rate": 1000.0**0.5},
            minibatchSize=100,
            nIters=3000,
            seed=1,
            verbose=False,
            transforms={"rate": "positive"},
        )
    sd = np.sqrt(1 + count.sum()) / len(count)
    assert abs(out["rate"].std() / sd - 1) < 0.15
    assert abs(out.settings["expected"]["sd"]["rate"] * out["rate"].mean() / sd - 1) < 0.1
