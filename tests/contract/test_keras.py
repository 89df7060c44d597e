"""Networks of Keras: the same as written by hand, and refused where they are not functions of their weights.

It uses the inside of the package: it counts compilations.
"""

from __future__ import annotations

import random

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy.stats import halfcauchy, multivariate_normal
from tensorflow_probability import distributions as tfd

import sgmcmc
from sgmcmc import fromKeras, sgld, train
from sgmcmc.core import compilation, xla

L = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5)).astype(np.float32)
CLASSES = np.arange(120) % 3
DATASET = {"X": X, "y": CLASSES}
RUN = {"stepsize": 1e-4, "minibatchSize": 20, "nIters": 12, "seed": 3, "verbose": False}


def network(*last, n_inputs=5):
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input([n_inputs]), L.Dense(4, "tanh"), *(last or [L.Dense(3)])])


def by_hand(params, dataset):
    hidden = tf.tanh(dataset["X"] @ params["dense.kernel"] + params["dense.bias"])
    return hidden @ params["dense_1.kernel"] + params["dense_1.bias"]


@pytest.mark.parametrize("n_chains", [None, 3])
def test_a_network_is_what_one_would_write_by_hand(n_chains):
    """The same draws, step by step too, with the prior N(0, 2^2) of each weight."""
    arguments = fromKeras(network(), DATASET, "categorical", prior=2.0)

    def logLik(params, dataset):
        return tfd.Categorical(by_hand(params, dataset)).log_prob(dataset["y"])

    def logPrior(params):
        return tf.add_n([tf.reduce_sum(tfd.Normal(0.0, 2.0).log_prob(x)) for x in params.values()])

    ours = sgld(**arguments, **RUN, nChains=n_chains)
    theirs = sgld(logLik, DATASET, arguments["params"], logPrior=logPrior, integers=["y"], **RUN, nChains=n_chains)
    assert sorted(ours) == ["dense.bias", "dense.kernel", "dense_1.bias", "dense_1.kernel"]
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-6)


def test_a_linear_regression_has_its_exact_posterior():
    """With unknown sd: given it, the weights are normal, and it is integrated out on a grid."""
    x = RNG.normal(size=(400, 1))
    y = 0.7 * x + 0.2 + 0.5 * RNG.normal(size=(400, 1))
    arguments = fromKeras(
        keras.Sequential([keras.Input([1]), L.Dense(1)]), {"X": x, "y": y[:, 0]}, "gaussian", prior={"dense.bias": 0.1}
    )
    out = sgmcmc.sgldcv(**arguments, minibatchSize=100, nIters=20_000, burnIn=1000, seed=1, verbose=False)
    design, prior = np.hstack([x, np.ones_like(x)]), np.diag([1.0, 0.1**2])
    grid = np.linspace(0.4, 0.6, 201)
    evidence = [
        multivariate_normal(np.zeros(400), design @ prior @ design.T + sd**2 * np.eye(400)).logpdf(y[:, 0])
        + halfcauchy.logpdf(sd)
        for sd in grid
    ]
    weights = np.exp(evidence - np.max(evidence))
    weights /= weights.sum()
    covariances = [np.linalg.inv(design.T @ design / sd**2 + np.linalg.inv(prior)) for sd in grid]
    means = np.array([c @ design.T @ y[:, 0] / sd**2 for c, sd in zip(covariances, grid, strict=True)])
    mean = weights @ means
    covariance = np.einsum("g,gij->ij", weights, covariances) + np.cov(means.T, aweights=weights, ddof=0)
    sd_mean = weights @ grid
    sd_sd = np.sqrt(weights @ (grid - sd_mean) ** 2)
    exact = {"dense.kernel": (mean[0], covariance[0, 0] ** 0.5), "dense.bias": (mean[1], covariance[1, 1] ** 0.5)}
    for name, (m, s) in (exact | {"sd": (sd_mean, sd_sd)}).items():
        assert abs(out[name].mean() - m) < 0.3 * s, name
        assert 0.85 < out[name].std() / s < 1.15, name


def binary():
    return {"X": X, "y": (CLASSES > 1).astype(np.float32)}


def proportions():
    return {"X": X, "y": np.eye(3)[CLASSES]}


TERMS = {
    "logits": (network, lambda: DATASET, "categorical", lambda o, y: tfd.Categorical(o).log_prob(y)),
    "softmax": (
        lambda: network(L.Dense(3, "softmax")),
        lambda: DATASET,
        "categorical",
        lambda o, y: tfd.Categorical(o).log_prob(y),
    ),
    "softmax layer, column of classes": (
        lambda: network(L.Dense(3), L.Softmax()),
        lambda: {"X": X, "y": CLASSES[:, None]},
        "categorical",
        lambda o, y: tfd.Categorical(o).log_prob(y[:, 0]),
    ),
    "proportions": (network, proportions, "categorical", lambda o, y: tfd.OneHotCategorical(o).log_prob(y)),
    "sigmoid": (
        lambda: network(L.Dense(3), L.Dense(1, "sigmoid")),
        binary,
        "bernoulli",
        lambda o, y: tfd.Bernoulli(o[:, 0]).log_prob(y),
    ),
    "integer zeros and ones": (
        lambda: network(L.Dense(3), L.Dense(2)),
        lambda: {"X": X, "y": np.stack([CLASSES > 0, CLASSES > 1], axis=1).astype(int)},
        "bernoulli",
        lambda o, y: tf.reduce_sum(tfd.Bernoulli(o).log_prob(y), axis=1),
    ),
    "gaussian, two columns": (
        lambda: network(L.Dense(3), L.Dense(2)),
        lambda: {"X": X, "y": X[:, :2]},
        "gaussian",
        lambda o, y: tf.reduce_sum(tfd.Normal(o, [0.5, 2.0]).log_prob(y), axis=1),
    ),
    "gaussian, one output": (
        lambda: network(L.Dense(3), L.Dense(1)),
        lambda: {"X": X, "y": X[:, 0]},
        "gaussian",
        lambda o, y: tfd.Normal(o[:, 0], 0.5).log_prob(y),
    ),
}


@pytest.mark.parametrize("case", TERMS)
def test_log_likelihoods_are_those_of_the_distribution(case):
    make, data, loss, exact = TERMS[case]
    model, dataset = make(), data()
    arguments = fromKeras(model, dataset, loss)
    params = {name: tf.constant(x) for name, x in arguments["params"].items()}
    if loss == "gaussian":
        params["sd"] = tf.constant([0.5, 2.0] if dataset["y"].ndim == 2 else 0.5)
    y = tf.constant(dataset["y"].astype(np.float32) if "y" not in arguments["integers"] else dataset["y"])
    x = tf.constant(X)
    for layer in model.layers:  # up to what goes into a last activation
        if isinstance(layer, L.Softmax):
            break
        if getattr(layer, "activation", None) in (keras.activations.softmax, keras.activations.sigmoid):
            x = x @ layer.kernel + layer.bias
        else:
            x = layer(x)
    terms = arguments["logLik"](params, {"X": tf.constant(X), "y": y})
    np.testing.assert_allclose(terms, exact(x, y), rtol=1e-4, atol=1e-5)
    outputs = arguments.outputs(params, {"X": tf.constant(X)})
    links = {"categorical": tf.nn.softmax, "bernoulli": tf.sigmoid, "gaussian": tf.identity}
    shape = (len(X), 3) if loss == "categorical" else dataset["y"].shape
    np.testing.assert_allclose(outputs, tf.reshape(links[loss](x), shape), rtol=1e-4, atol=1e-6)


def test_a_loss_of_ones_own_is_given_outputs_and_observations():
    def loss(outputs, dataset):
        return tfd.StudentT(4.0, outputs[:, 0], 0.3).log_prob(dataset["height"])

    model = network(L.Dense(1))
    arguments = fromKeras(model, {"X": X, "height": X[:, 0]}, loss)
    assert arguments["transforms"] is None
    out = sgld(**arguments, **RUN)
    draw = {name: tf.constant(x[-1]) for name, x in out.items()}
    np.testing.assert_allclose(arguments.outputs(draw, {"X": tf.constant(X)}).shape, (120, 1))


@pytest.mark.parametrize(
    ("prior", "exact"),
    [
        (tfd.Laplace(0.0, 2.0), lambda p: sum(-np.abs(x).sum() / 2 for x in p.values())),
        (
            {
                "dense.kernel": 3.0,
                "dense_1.bias": tfd.MultivariateNormalDiag(tf.zeros(3), tf.constant([1.0, 2.0, 3.0])),
            },
            lambda p: (
                sum(-0.5 * (p[name] ** 2).sum() for name in ("dense.bias", "dense_1.kernel"))
                - 0.5 * (p["dense.kernel"] ** 2).sum() / 9
                - 0.5 * (p["dense_1.bias"] ** 2 / [1, 4, 9]).sum()
            ),
        ),
        (lambda p: -tf.reduce_sum(p["dense.bias"] ** 4), lambda p: -(p["dense.bias"] ** 4).sum()),
    ],
    ids=["one for all", "some", "function"],
)
def test_priors(prior, exact):
    """Up to a constant, so differences are compared."""
    arguments = fromKeras(network(), DATASET, "categorical", prior=prior)
    a = arguments["params"]
    b = {name: x + RNG.normal(size=x.shape).astype(np.float32) for name, x in a.items()}
    ours = [float(arguments["logPrior"]({n: tf.constant(x) for n, x in p.items()})) for p in (a, b)]
    assert ours[1] - ours[0] == pytest.approx(exact(b) - exact(a), rel=1e-4)


@pytest.mark.parametrize("given", [{"sd": tfd.HalfNormal(2.0)}, 1.0])
def test_the_prior_of_the_noise(given):
    arguments = fromKeras(network(L.Dense(1)), {"X": X, "y": X[:, 0]}, "gaussian", prior=given)
    params = {name: tf.constant(x) for name, x in arguments["params"].items()}
    exact = tfd.HalfNormal(2.0) if isinstance(given, dict) else tfd.HalfCauchy(0.0, 1.0)
    at = [float(arguments["logPrior"](params | {"sd": tf.constant(sd)})) for sd in (0.5, 3.0)]
    assert at[1] - at[0] == pytest.approx(float(exact.log_prob(3.0) - exact.log_prob(0.5)), rel=1e-4)


# --- weights -------------------------------------------------------------------------------------------------------


class Block(keras.Model):
    """Two branches, one of which the user has named."""

    def __init__(self):
        super().__init__()
        self.first, self.second = L.Dense(3, name="branch_2"), L.Dense(3)

    def call(self, inputs):
        return self.first(inputs[0]) + self.second(inputs[1])


def test_names_do_not_depend_on_models_made_before():
    def names():
        inner = keras.Sequential([L.Dense(4), L.LayerNormalization()])
        model = keras.Sequential([keras.Input([5]), inner, L.Dense(3), L.Dense(3, name="head")])
        return sorted(fromKeras(model, DATASET, "categorical")["params"])

    assert names() == names() == [
        "dense_1.bias",
        "dense_1.kernel",
        "head.bias",
        "head.kernel",
        "sequential.dense.bias",
        "sequential.dense.kernel",
        "sequential.layer_normalization.beta",
        "sequential.layer_normalization.gamma",
    ]  # fmt: skip


def test_a_model_of_ones_own_class_with_two_inputs_is_built():
    arguments = fromKeras(Block(), DATASET | {"Z": X[:, :2]}, "categorical", inputs=["X", "Z"])
    assert sorted(arguments["params"]) == ["branch_2.bias", "branch_2.kernel", "dense.bias", "dense.kernel"]
    assert arguments["params"]["dense.kernel"].shape == (2, 3)
    assert sgld(**arguments, **RUN)["branch_2.kernel"].shape == (12, 5, 3)


def test_frozen_layers_stay_and_are_used_as_for_predictions():
    base = keras.Sequential([L.Dense(4), L.BatchNormalization(), L.Dropout(0.5)])
    model = keras.Sequential([keras.Input([5]), base, L.Dense(3)])
    base.trainable = False
    arguments = fromKeras(model, DATASET, "categorical")
    assert sorted(arguments["params"]) == ["dense.bias", "dense.kernel"]
    params = {name: tf.constant(x) for name, x in arguments["params"].items()}
    expected = tf.nn.softmax(model(X, training=False))
    np.testing.assert_allclose(arguments.outputs(params, {"X": tf.constant(X)}), expected, rtol=1e-5)
    base.layers[0].kernel.assign(tf.zeros_like(base.layers[0].kernel))  # what was handed over does not change
    np.testing.assert_allclose(arguments.outputs(params, {"X": tf.constant(X)}), expected, rtol=1e-5)


def test_draws_go_back_into_the_model():
    model = network()
    arguments = fromKeras(model, DATASET, "categorical")
    out = sgld(**arguments, **RUN)
    draw = {name: x[5] for name, x in out.items()}
    assert not np.allclose(tf.nn.softmax(model(X)), arguments.outputs(draw, {"X": X}))
    arguments.setWeights(draw | {"sd": 1.0})
    np.testing.assert_allclose(tf.nn.softmax(model(X)), arguments.outputs(draw, {"X": X}), rtol=1e-5)
    with pytest.raises(ValueError, match=r"got 'dense.bias' of shape \(12, 4\) for \(4,\)"):
        arguments.setWeights(out)
    with pytest.raises(ValueError, match=r"one draw of \['dense.bias', .*; got 'dense_1.kernel' missing"):
        arguments.setWeights({name: x for name, x in draw.items() if name != "dense_1.kernel"})


def test_a_model_that_is_frozen_or_trained_later_does_not_matter():
    """Here two layers have weights of the same shapes, which must not change places."""

    def made():
        keras.utils.set_random_seed(1)
        return keras.Sequential([keras.Input([5]), L.Dense(5), L.Dense(5), L.Dense(3)])

    model = made()
    arguments = fromKeras(model, DATASET, "categorical")
    model.layers[0].trainable = False
    exact = sgld(**fromKeras(made(), DATASET, "categorical"), **RUN)
    np.testing.assert_array_equal(sgld(**arguments, **RUN)["dense_1.kernel"], exact["dense_1.kernel"])


def test_a_table_with_categories_as_targets():
    """Three inputs of one column each, and a column of words."""
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["kind"] = pd.Categorical(np.array(["low", "mid", "top"])[CLASSES])
    inputs = [keras.Input([1]) for _ in "abc"]
    keras.utils.set_random_seed(1)
    model = keras.Model(inputs, L.Dense(3)(L.Concatenate()(inputs)))
    arguments = fromKeras(model, frame, "categorical", inputs=list("abc"), targets="kind")
    exact = fromKeras(
        model, {name: X[:, k] for k, name in enumerate("abc")} | {"kind": CLASSES}, "categorical",
        inputs=["a", "b", "c"], targets="kind",
    )  # fmt: skip
    out = sgld(**arguments, **RUN)
    np.testing.assert_array_equal(out["dense.kernel"], sgld(**exact, **RUN)["dense.kernel"])
    assert out.predict(arguments.outputs, frame)["mean"].shape == (120, 3)
    integer = frame.assign(kind=CLASSES)
    network = fromKeras(model, integer, "categorical", inputs=list("abc"), targets="kind")
    np.testing.assert_array_equal(sgld(**network, **RUN)["dense.kernel"], out["dense.kernel"])


@pytest.mark.parametrize("labels", [CLASSES.tolist(), tf.constant(CLASSES), CLASSES.astype(np.uint8)])
def test_integer_targets_need_not_be_named(labels):
    arguments = fromKeras(network(), {"X": X, "y": labels}, "categorical")
    np.testing.assert_array_equal(
        sgld(**arguments, **RUN)["dense.bias"],
        sgld(**fromKeras(network(), DATASET, "categorical"), **RUN)["dense.bias"],
    )


def test_weights_of_float64():
    model = keras.Sequential([keras.Input([5]), L.Dense(3, dtype="float64")])
    out = sgld(**fromKeras(model, DATASET, "categorical", dtype="float64"), **RUN)
    assert out["dense.kernel"].dtype == np.float64


def test_a_prior_of_a_layer_is_that_of_its_weights():
    by_layer = fromKeras(network(), DATASET, "categorical", prior={"dense": 0.3, "dense.bias": 2.0})
    by_name = fromKeras(network(), DATASET, "categorical", prior={"dense.kernel": 0.3, "dense.bias": 2.0})
    params = {name: tf.constant(x) + 1.0 for name, x in by_layer["params"].items()}
    assert float(by_layer["logPrior"](params)) == float(by_name["logPrior"](params))
    with pytest.raises(ValueError, match=r"must be for some of \['dense', 'dense.bias', .*\['dens'\]"):
        fromKeras(network(), DATASET, "categorical", prior={"dens": 0.3})


def test_the_temperature_is_that_of_the_sampler():
    cold = fromKeras(network(), DATASET, "categorical", temperature=0.25)
    out = sgld(**cold, **RUN)
    exact = sgld(**fromKeras(network(), DATASET, "categorical"), temperature=0.25, **RUN)
    np.testing.assert_array_equal(out["dense.kernel"], exact["dense.kernel"])
    with pytest.raises(ValueError, match="temperature of fromKeras must be a positive number; got 0"):
        fromKeras(network(), DATASET, "categorical", temperature=0)


def test_untrained_networks_have_weights_of_the_layers_initializers():
    model = network()
    arguments = fromKeras(model, DATASET, "categorical")
    state = random.getstate()
    drawn, again = arguments.initial(3, seed=1), arguments.initial(3, seed=1)
    assert random.getstate() == state
    assert len(drawn) == 3
    for one, other in zip(drawn, again, strict=True):
        assert one.keys() == arguments["params"].keys()
        for name, x in one.items():
            assert x.shape == arguments["params"][name].shape
            np.testing.assert_array_equal(x, other[name])
    kernels = np.array([one["dense.kernel"] for one in drawn])
    assert np.abs(kernels[0] - kernels[1]).max() > 0.1
    fan = sum(kernels.shape[1:])
    assert 0.8 < kernels.std() / np.sqrt(2 / fan) < 1.2  # Glorot's
    assert (drawn[0]["dense.bias"] == 0).all()
    np.testing.assert_array_equal(model.trainable_variables[0], arguments["params"]["dense.kernel"])  # as before


def test_trained_networks_are_starts():
    """The log posterior is higher there than at the weights that the layers drew, and chains begin there."""
    arguments = fromKeras(network(), DATASET, "categorical")
    starts = arguments.initial(2, seed=1)
    trained = train(**arguments, stepsize=0.02, minibatchSize=30, nIters=300, starts=starts, verbose=False, seed=1)
    dataset = {"X": tf.constant(X), "y": tf.constant(CLASSES, tf.int32)}

    def density(weights):
        params = {name: tf.constant(x) for name, x in weights.items()}
        return float(tf.reduce_sum(arguments["logLik"](params, dataset)) + arguments["logPrior"](params))

    assert all(density(end) > density(start) + 5 for start, end in zip(starts, trained, strict=True))
    out = sgld(**arguments, **RUN | {"stepsize": 1e-12, "nIters": 1}, starts=trained)
    for c in range(2):
        np.testing.assert_allclose(out["dense.kernel"][c, 0], trained[c]["dense.kernel"], atol=1e-4)


# --- predictions ---------------------------------------------------------------------------------------------------


IMAGES = RNG.normal(size=(60, 6, 6, 1)).astype(np.float32)


def convolutional():
    keras.utils.set_random_seed(1)
    layers = [L.Conv2D(3, 3, activation="relu"), L.MaxPooling2D(2), L.Flatten(), L.Dense(3)]
    return fromKeras(
        keras.Sequential([keras.Input([6, 6, 1]), *layers]), {"X": IMAGES, "y": CLASSES[:60]}, "categorical"
    )


@pytest.mark.parametrize("n_chains", [None, 2])
def test_convolutions_are_computed_without_xla(n_chains, monkeypatch):
    """All else is as with it: the same draws but for rounding, and the same bits step by step and from a store."""
    arguments, plain = convolutional(), []
    run = {**RUN, "nChains": n_chains}

    def choice(graph):
        plain.append(xla.is_unsuited(graph))
        return plain[-1]

    monkeypatch.setattr(compilation, "is_unsuited", choice)
    out = sgld(**arguments, **run)
    assert sum(plain) == 1  # the loop; what draws the minibatches and the noise is compiled
    sampler = sgmcmc.sgldSetup(**arguments, **{k: v for k, v in run.items() if k not in ("nIters", "verbose")})
    sess = sgmcmc.initSess(sampler, verbose=False)
    for _ in range(4):
        sgmcmc.sgmcmcStep(sampler, sess, nSteps=3)
    monkeypatch.setattr(compilation, "_programs", {})
    monkeypatch.setattr(compilation, "is_unsuited", lambda graph: False)
    with_xla = sgld(**arguments, **run)
    for name, theta in sgmcmc.getParams(sampler, sess).items():
        np.testing.assert_array_equal(out[name].take(-1, axis=0 if n_chains is None else 1), theta)
        np.testing.assert_allclose(out[name], with_xla[name], rtol=1e-3, atol=1e-5)


def test_an_interrupted_run_of_a_convolution_goes_on_with_the_same_bits(tmp_path):
    arguments, path = convolutional(), tmp_path / "draws.zarr"
    whole = sgld(**arguments, **RUN)
    sgld(**arguments, **{**RUN, "nIters": 5}, storage=str(path))
    resumed = sgld(**arguments, **RUN, storage=str(path), resume=True)
    for name in whole:
        np.testing.assert_array_equal(whole[name], resumed[name])


def test_likelihoods_are_those_of_the_targets():
    arguments = fromKeras(network(), DATASET, "categorical")
    out = sgld(**arguments, **RUN)
    probabilities = out.predict(arguments.outputs, DATASET, quantiles=())["mean"]
    found = out.predict(arguments.likelihoods, DATASET, quantiles=(), batchSize=50)["mean"]
    np.testing.assert_allclose(found, probabilities[np.arange(120), CLASSES], rtol=1e-5)
    total = fromKeras(network(), DATASET, lambda outputs, dataset: tf.reduce_sum(outputs))
    with pytest.raises(ValueError, match="a term for each observation, for likelihoods; got a sum"):
        total.likelihoods(total["params"], {"X": tf.constant(X)})


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("size", [50, 1000])
def test_predictions_in_batches_are_those_of_all_rows(size, on_disk, tmp_path):
    arguments = fromKeras(network(), DATASET, "categorical")
    out = sgld(**arguments, **RUN, nChains=2, **({"storage": tmp_path / "run.zarr"} if on_disk else {}))
    dataset = DATASET
    if on_disk:
        np.save(tmp_path / "X.npy", X.astype(np.float64))
        dataset = {"X": np.load(tmp_path / "X.npy", mmap_mode="r")}
    whole = out.predict(arguments.outputs, DATASET)
    parts = out.predict(arguments.outputs, dataset, batchSize=size)
    assert whole.keys() == parts.keys() and whole["5%"].shape == (120, 3)
    for name in whole:
        np.testing.assert_allclose(parts[name], whole[name], rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("function", "dataset", "size", "message"),
    [
        (lambda p, d: tf.reduce_sum(d["X"]), DATASET, 50, "function of predict must return a row for each .* for 50"),
        (lambda p: p["dense.bias"], None, 50, r"dataset of predict must have entries of one length .*; got \{\}"),
        (lambda p, d: d["X"], {"X": X, "z": X[:3]}, 50, "entries of one length .*'X': 120, 'z': 3"),
        (lambda p, d: d["X"], DATASET, 0, "batchSize of predict must be an integer of at least 1; got 0"),
    ],
)
def test_bad_batches_of_predictions_are_refused(function, dataset, size, message):
    out = sgld(**fromKeras(network(), DATASET, "categorical"), **RUN)
    with pytest.raises(ValueError, match=message):
        out.predict(function, dataset, batchSize=size)


# --- what is refused -----------------------------------------------------------------------------------------------


class Mixing(L.Layer):
    """A layer that counts its calls."""

    def build(self, shape):
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.calls.assign_add(1.0)
        return x + self.calls


class Centred(L.Layer):
    """A layer that subtracts the mean of the minibatch."""

    def call(self, x):
        return x - keras.ops.mean(x, axis=0)


class Unseeded(L.Layer):
    """A layer that adds noise in predictions too."""

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x))


class NamedSd(keras.Model):
    """A model with a weight by the name of a parameter of the loss."""

    def __init__(self):
        super().__init__()
        self.dense, self.scale = L.Dense(1), self.add_weight(shape=(), name="sd")

    def call(self, x):
        return self.dense(x) * self.scale


MODELS = {
    "dropout": (lambda: network(L.Dropout(0.5), L.Dense(3)), r".*got 'dropout\w*', Dropout: leave it out"),
    "noise": (lambda: network(L.GaussianNoise(0.5), L.Dense(3)), r".*GaussianNoise: leave it out"),
    "batches": (
        lambda: network(L.BatchNormalization(), L.Dense(3)),
        ".*BatchNormalization: use LayerNormalization or GroupNormalization in its place",
    ),
    "a state": (lambda: network(Mixing(trainable=False), L.Dense(3)), ".*Mixing: leave it out"),
    "mean over the minibatch": (
        lambda: network(Centred(), L.Dense(3)),
        "have outputs that .*the other observations of a minibatch; got different ones for one observation alone",
    ),
    "random numbers without a seed": (
        lambda: network(Unseeded(), L.Dense(3)),
        "have outputs that .*not on random numbers .*; got different ones for one observation alone",
    ),
    "regularizer": (
        lambda: network(L.Dense(3, kernel_regularizer="l2")),
        "have no regularizers and no losses .*; got 1",
    ),
    "loss": (
        lambda: network(L.Dense(3), L.ActivityRegularization(0.1)),
        "have no regularizers and no losses .*; got 1",
    ),
    "constraint": (
        lambda: network(L.Dense(3, kernel_constraint="non_neg")),
        r"have no constraints; got one on 'dense_1.kernel'.*network\['transforms'\]",
    ),
    "half": (
        lambda: network(L.Dense(3, dtype="mixed_float16")),
        r"have layers of float32, .*; got \{'dense_?\d*': 'mixed_float16'\}",
    ),
    "double": (
        lambda: network(L.Dense(3, dtype="float64")),
        r"have layers of float32, .*; got \{'dense_?\d*': 'float64'\}",
    ),
    "no weights": (lambda: keras.Sequential([keras.Input([5]), L.Softmax()]), "have trainable weights; got none"),
    "not of Keras": (lambda: lambda x: x, "be a model of Keras 3; got function"),
    "layer": (lambda: L.Dense(3), "be a model of Keras 3; got Dense"),
    "other inputs": (
        lambda: network(n_inputs=7),
        r"be a model that can be called with dataset\['X'\]; it raised ValueError",
    ),
    "probabilities": (
        lambda: network(L.Dense(3, "softmax"), L.Reshape([3])),
        "end in logits, or in the activation 'softmax' as its last operation",
    ),
    "another activation": (lambda: network(L.Dense(3, "sigmoid")), "end in logits, or in the activation 'softmax'"),
    "one output": (lambda: network(L.Dense(1)), r"have an output for each class.*; got \[n, 1\].*loss='bernoulli'"),
    "two outputs": (
        lambda: keras.Model(i := keras.Input([5]), [L.Dense(3)(i), L.Dense(3)(i)]),
        "return one float32 tensor with a row for each observation; got list for 3",
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_models_that_cannot_be_used_are_refused(case):
    make, message = MODELS[case]
    with pytest.raises(ValueError, match="model of fromKeras must " + message):
        fromKeras(make(), DATASET, "categorical")


ARGUMENTS = [
    ({"loss": "normal"}, "loss of fromKeras must be one of 'categorical', 'bernoulli', 'gaussian', or a function"),
    ({"loss": "mse"}, r"not a loss of Keras, which is a mean over observations; got 'mse'\. Use loss='gaussian'\."),
    ({"loss": keras.losses.BinaryCrossentropy(from_logits=True)}, "got 'binary_crossentropy'. Use loss='bernoulli'."),
    ({"loss": keras.losses.sparse_categorical_crossentropy}, "Use loss='categorical'."),
    ({"loss": 3}, "loss of fromKeras must be .*; got 3"),
    ({"inputs": "images"}, r"inputs of fromKeras must be in dataset, \['X', 'y'\]; got 'images'"),
    ({"inputs": []}, r"inputs of fromKeras must be a name in dataset or a list of them; got \[\]"),
    ({"targets": "z"}, r"targets of fromKeras must be in dataset, \['X', 'y'\]; got 'z'"),
    ({"prior": 0}, "prior of fromKeras must be a positive number; got 0"),
    ({"prior": "wide"}, r"prior\['\w+.\w+'\] of fromKeras must be a positive number, or a distribution .*; got 'wide'"),
    ({"prior": {"kernel": 2.0}}, r"prior of fromKeras must be for some of \['dense', .*; got \['kernel'\]"),
    (
        {"prior": {"dense.bias": tfd.Normal(tf.zeros([4, 1]), 1.0)}},
        r"prior\['dense.bias'\] of fromKeras must be .* of shape \(4,\); got densities of shape \(4, 4\)",
    ),
    ({"dtype": "float16"}, "dtype of fromKeras must be 'float32' or 'float64'"),
    ({"dataset": {"X": X, "y": CLASSES + 1}}, r"dataset\['y'\] of fromKeras must be classes from 0 to 2.*; got 1 to 3"),
    ({"dataset": {"X": X, "y": CLASSES * 1.0}}, r"must be integers from 0 to 2.*; got float32 of shape \[n\]"),
    ({"dataset": {"X": X, "y": X[:, :3]}}, r"or have 3 proportions in each row; got float32 of shape \[n, 3\]"),
    (
        {"dataset": {"X": X, "y": X[:, 0]}, "loss": "gaussian"},
        r"dataset\['y'\] of fromKeras must have the shape of the outputs of model, \[n, 3\]; got \[n\]",
    ),
    (
        {"dataset": {"X": X, "y": X[:, 0]}, "loss": "gaussian", "model": NamedSd()},
        r"model of fromKeras must have no weights with the names of parameters of the loss; got \['sd'\]",
    ),
    (
        {"dataset": {"X": X, "y": X[:, :3]}, "loss": "bernoulli"},
        r"dataset\['y'\] of fromKeras must be in \[0, 1\] for the loss 'bernoulli'",
    ),
]


@pytest.mark.parametrize(("given", "message"), ARGUMENTS)
def test_arguments_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        fromKeras(**{"model": network(), "dataset": DATASET, "loss": "categorical"} | given)


def test_classes_out_of_range_that_are_read_later_are_refused():
    """Of data elsewhere only some rows are seen before the run; XLA would take another class without a word."""

    class Source:
        def __len__(self):
            return 120

        def take(self, indices):
            return {"X": X[indices], "y": np.where(indices == 61, 3, CLASSES[indices])}

    arguments = fromKeras(network(), Source(), "categorical", integers=["y"])
    with pytest.raises(sgmcmc.DivergenceError, match="was NaN or infinite"):
        sgld(**arguments, **RUN | {"nIters": 100})


def test_a_network_is_printed_without_its_data():
    arguments = fromKeras(network(), DATASET, "categorical")
    printed = " ".join(repr(arguments).split())
    elements = sum(np.size(x) for x in arguments["params"].values())
    assert printed.startswith(f"KerasNetwork of {elements:,} parameters: ")
    assert all(f"{name} {list(np.shape(x))}" in printed for name, x in arguments["params"].items())
