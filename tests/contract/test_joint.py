"""Joint distributions of TensorFlow Probability as priors, and whole models: the same as written by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

import sgmcmc
from sgmcmc import fromTfp, sgld, sgldcv

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)).astype(np.float32)
GROUP = np.repeat(np.arange(4), 50)
DATASET = {"X": X, "y": X @ [1.0, -1.0] + 0.5 * RNG.normal(size=200), "group": GROUP}
PARAMS = {"beta": np.zeros(2), "sd": 1.0, "share": np.full(3, 1 / 3)}
RUN = {"stepsize": 1e-4, "minibatchSize": 20, "nIters": 12, "seed": 3, "verbose": False}


def parts():
    return {
        "beta": tfd.Normal(tf.zeros(2), 5.0),
        "sd": tfd.HalfNormal(2.0),
        "share": tfd.Dirichlet(tf.constant([1.0, 2.0, 3.0])),
    }


def in_order():
    yield tfd.JointDistributionCoroutine.Root(tfd.Normal(tf.zeros(2), 5.0, name="beta"))
    yield tfd.JointDistributionCoroutine.Root(tfd.HalfNormal(2.0, name="sd"))
    yield tfd.JointDistributionCoroutine.Root(tfd.Dirichlet(tf.constant([1.0, 2.0, 3.0]), name="share"))


JOINTS = {
    "Named": lambda: tfd.JointDistributionNamed(parts()),
    "NamedAutoBatched": lambda: tfd.JointDistributionNamedAutoBatched(parts()),
    "Coroutine": lambda: tfd.JointDistributionCoroutine(in_order),
    "CoroutineAutoBatched": lambda: tfd.JointDistributionCoroutineAutoBatched(in_order),
}


def logLik(params, dataset):
    mean = tf.linalg.matvec(dataset["X"], params["beta"])
    return tfd.Normal(mean, params["sd"]).log_prob(dataset["y"]) + tf.math.log(params["share"][0])


def logPrior(params):
    return (
        tf.reduce_sum(tfd.Normal(0.0, 5.0).log_prob(params["beta"]))
        + tfd.HalfNormal(2.0).log_prob(params["sd"])
        + tfd.Dirichlet(tf.constant([1.0, 2.0, 3.0])).log_prob(params["share"])
    )


def by_hand(**changed):
    transforms = {"sd": tfb.Softplus(), "share": "simplex"}
    return sgld(logLik, DATASET, PARAMS, logPrior=logPrior, **RUN | {"transforms": transforms} | changed)


@pytest.mark.parametrize("joint", JOINTS)
def test_a_joint_prior_is_its_density_with_its_bijectors(joint):
    """Parts of any shape count once for each of their elements, also without AutoBatched."""
    ours, theirs = sgld(logLik, DATASET, PARAMS, logPrior=JOINTS[joint](), **RUN), by_hand()
    for name in PARAMS:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.logPosterior, theirs.logPosterior, rtol=1e-5)


def test_a_transform_that_is_given_wins():
    ours = sgld(logLik, DATASET, PARAMS, logPrior=JOINTS["Named"](), **RUN, transforms={"sd": "positive"})
    theirs = by_hand(transforms={"sd": "positive", "share": "simplex"})
    np.testing.assert_allclose(ours["sd"], theirs["sd"], rtol=1e-5)
    assert ours.settings["transforms"]["sd"] == "positive" and "share" in ours.settings["transforms"]


@pytest.mark.parametrize("joint", JOINTS)
def test_without_params_a_chain_begins_amid_the_prior(joint):
    sampler = sgmcmc.sgldSetup(logLik, DATASET, None, 1e-4, logPrior=JOINTS[joint](), minibatchSize=20, seed=1)
    assert (abs(sampler.params["beta"].numpy()) < 3).all() and 0.5 < float(sampler.params["sd"]) < 3
    np.testing.assert_allclose(tf.reduce_sum(sampler.params["share"]), 1.0, rtol=1e-5)
    other = sgmcmc.sgldSetup(logLik, DATASET, None, 1e-4, logPrior=JOINTS[joint](), minibatchSize=20, seed=2)
    np.testing.assert_array_equal(sampler.params["beta"], other.params["beta"])  # whatever the seed


def test_other_functions_take_it_too():
    joint = JOINTS["Named"]()
    out = by_hand()
    ours, theirs = (
        sgmcmc.diagnostics.fullGradients(out, logLik, DATASET, prior, verbose=False) for prior in (joint, logPrior)
    )
    np.testing.assert_allclose(ours["sd"], theirs["sd"], rtol=1e-5)
    given = {"logPrior": joint, "minibatchSize": 20, "seed": 1, "verbose": False}
    tuned = sgmcmc.tune(sgld, logLik, DATASET, None, [1e-6, 1e-4], nGradients=40_000, **given)
    assert tuned.settings["stepsize"] in (1e-6, 1e-4)
    table = sgmcmc.checkStepsize(sgld, logLik, DATASET, None, stepsize=1e-4, nIters=400, **given)
    assert "sd" in table.index


def test_a_transition_moves_the_parameters_themselves():
    def still(model):
        return sgmcmc.Transition(lambda params, memory, batch, given: (params, memory, model.log_prior(params)))

    out = sgmcmc.sample(logLik, DATASET, PARAMS, logPrior=JOINTS["Named"](), transition=still, **RUN)
    assert (out["sd"] == 1.0).all() and "transforms" not in out.settings
    start = {name: tf.constant(x, tf.float32) for name, x in PARAMS.items()}
    np.testing.assert_allclose(out.logPosterior[-1], logPrior(start), rtol=1e-5)


def upper_bound():
    low = yield tfd.JointDistributionCoroutine.Root(tfd.HalfNormal(1.0, name="sd"))
    yield tfd.Uniform(0.0, low, name="below")


def model(dataset):
    beta = yield tfd.Normal(tf.zeros(2), 5.0, name="beta")
    scale = yield tfd.HalfNormal(1.0, name="scale")
    effect = yield tfd.Normal(tf.zeros(4), scale, name="effect")
    sd = yield tfd.HalfNormal(2.0, name="sd")
    mean = tf.linalg.matvec(dataset["X"], beta) + tf.gather(effect, dataset["group"])
    yield tfd.Normal(mean, sd, name="y")


def log_lik_of_model(params, dataset):
    mean = tf.linalg.matvec(dataset["X"], params["beta"]) + tf.gather(params["effect"], dataset["group"])
    return tfd.Normal(mean, params["sd"]).log_prob(dataset["y"])


def log_prior_of_model(params):
    return (
        tf.reduce_sum(tfd.Normal(0.0, 5.0).log_prob(params["beta"]))
        + tfd.HalfNormal(1.0).log_prob(params["scale"])
        + tf.reduce_sum(tfd.Normal(0.0, params["scale"]).log_prob(params["effect"]))
        + tfd.HalfNormal(2.0).log_prob(params["sd"])
    )


def returning(dataset):
    return tfd.JointDistributionCoroutineAutoBatched(lambda: model(dataset))


@pytest.mark.parametrize("model", [model, returning], ids=["parts", "a joint distribution"])
def test_a_whole_model_is_split_into_likelihood_and_prior(model):
    arguments = fromTfp(model, DATASET, observed=["y"], integers=["group"])
    ours = sgld(**arguments, **RUN)
    transforms = {"sd": tfb.Softplus(), "scale": tfb.Softplus()}
    given = {"integers": ["group"], "transforms": transforms, "logPrior": log_prior_of_model}
    theirs = sgld(log_lik_of_model, DATASET, arguments["params"], **given, **RUN)
    for name in arguments["params"]:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.logPosterior, theirs.logPosterior, rtol=1e-4)


def test_a_whole_model_with_all_that_is_automatic():
    """The posterior of a mean with a known sd is normal; within 5 standard errors, with 300 draws or more."""

    def known(dataset):
        theta = yield tfd.Normal(0.0, 1.0, name="theta")
        yield tfd.Normal(theta * tf.ones_like(dataset["x"]), 2.0, name="x")

    x = np.random.default_rng(3).normal(1.0, 2.0, size=500)
    out = sgldcv(**fromTfp(known, {"x": x}, ["x"]), minibatchSize=100, nIters=4000, seed=1, verbose=False)
    variance = 1 / (1 + 500 / 4)
    mean = variance * x.sum() / 4
    assert abs(out["theta"].mean() - mean) < 5 * np.sqrt(variance / 300) and "transforms" not in out.settings
    assert abs(out["theta"].std() / np.sqrt(variance) - 1) < 0.12


def latent(dataset):
    z = yield tfd.Normal(tf.zeros_like(dataset["y"]), 1.0, name="z")
    yield tfd.Normal(z, 1.0, name="y")


def of_data(dataset):
    m = yield tfd.Normal(tf.reduce_mean(dataset["y"]), 1.0, name="m")
    yield tfd.Normal(m * tf.ones_like(dataset["y"]), 1.0, name="y")


def bounded(dataset):
    m = yield tfd.HalfNormal(1.0, name="m")
    u = yield tfd.Uniform(0.0, m, name="u")
    yield tfd.Normal(u * tf.ones_like(dataset["y"]), 1.0, name="y")


def discrete(dataset):
    k = yield tfd.Poisson(3.0, name="k")
    yield tfd.Normal(k * tf.ones_like(dataset["y"]), 1.0, name="y")


def single(dataset):
    m = yield tfd.HalfNormal(1.0, name="m")
    yield tfd.Normal(m, 1.0, name="y")


def column(dataset):
    m = yield tfd.HalfNormal(1.0, name="m")
    yield tfd.Normal(m * tf.ones_like(dataset["y"])[:, None], 1.0, name="y")


@pytest.mark.parametrize(
    ("model", "observed", "message"),
    [
        (latent, ["y"], r"the same parameters for all observations; got 'z' of shape \(2,\)"),
        (of_data, ["y"], r"a prior that does not depend on the observations; got a part 'm' that does"),
        (bounded, ["y"], r"supports do not depend on other parts; got 'u', whose support does. Give transforms\['u'\]"),
        (discrete, ["y"], r"model of fromTfp must have parts with a density; got the discrete 'k'"),
        (single, ["y"], r"one element or row for each observation; got 'y' of shape \(\)"),
        (column, ["y"], r"dataset\['y'\] of fromTfp must have the shape that the model draws, \(2, 1\)"),
        (single, "y", r"observed of fromTfp must be a list of at least one name; got 'y'"),
        (single, ["x"], r"names of parts of the model, \['m', 'y'\], that are entries of dataset.*; got \['x'\]"),
        (lambda dataset: 3, ["y"], r"model of fromTfp must be a function of a minibatch .*; got int"),
        (lambda dataset: tfd.Normal(0.0, 1.0), ["y"], r"model of fromTfp must be .*; got Normal"),
        (lambda dataset: 1 / 0, ["y"], r"model of fromTfp must be .*it raised ZeroDivisionError"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_models_that_cannot_be_split_are_refused(model, observed, message):
    with pytest.raises(ValueError, match=message):
        fromTfp(model, DATASET, observed)


@pytest.mark.parametrize(
    ("params", "prior", "message"),
    [
        (
            {"b": np.zeros(2), "sd": 1.0},
            JOINTS["Named"],
            r"names of params, \['b', 'sd'\]; got .*\['beta', 'sd', 'share'\]",
        ),
        (PARAMS | {"beta": np.zeros(3)}, JOINTS["Named"], r"params\['beta'\] of sgld must have the shape .*\(2,\)"),
        (PARAMS | {"sd": -1.0}, JOINTS["Named"], r"params\['sd'\] of sgld must have values that the bijector softplus"),
        (None, lambda: None, r"params of sgld must be a dict unless logPrior is a joint distribution; got None"),
        (PARAMS, lambda: tfd.Normal(0.0, 1.0), r"logPrior of sgld must be None, a function of params, or a joint"),
        ({"sd": 1.0, "below": 0.5}, lambda: tfd.JointDistributionCoroutine(upper_bound), r"got 'below', whose"),
        (PARAMS, lambda: tfd.JointDistributionSequential([tfd.Normal(0.0, 1.0)]), r"with a name for each part"),
    ],
)
def test_priors_that_do_not_fit_are_refused(params, prior, message):
    with pytest.raises(ValueError, match=message):
        sgld(logLik, DATASET, params, logPrior=prior(), **RUN)


def test_indices_that_are_floats_are_named() -> None:
    def model(dataset):
        effect = yield tfd.Sample(tfd.Normal(0.0, 1.0), 3, name="effect")
        yield tfd.Normal(tf.gather(effect, dataset["group"]), 1.0, name="y")

    with pytest.raises(ValueError, match=r"Name index entries of dataset in integers, such as integers=\['group'\]"):
        fromTfp(model, {"y": np.linspace(0.1, 1.0, 30), "group": np.arange(30) % 3}, observed=["y"])
