"""What leaves the package: data frames, ArviZ's trees with log likelihoods, draws of predictions, pickles."""

from __future__ import annotations

import pickle

import arviz_stats
import keras
import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.draws.draws import Draws

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
DATASET = {"x": X, "y": 1.0 + 0.5 * X + RNG.normal(size=N)}
PARAMS = {"beta": np.array([1.0, 0.5]), "sd": 1.0}
OPTIONS = {"minibatchSize": 50, "nIters": 60, "seed": 1, "verbose": False, "transforms": {"sd": "positive"}}


def mean(params, dataset):
    return params["beta"][0] + params["beta"][1] * dataset["x"]


def terms(params, dataset):
    return -0.5 * ((dataset["y"] - mean(params, dataset)) / params["sd"]) ** 2 - tf.math.log(params["sd"])


def total(params, dataset):
    return tf.reduce_sum(terms(params, dataset))


@pytest.fixture(scope="module", params=[None, 2])
def out(request) -> Draws:
    return sgmcmc.sgldcv(total, DATASET, PARAMS, **OPTIONS, nChains=request.param)


def exact_terms(out: Draws) -> np.ndarray:
    """[C, T, N], in NumPy."""
    beta, sd = (np.asarray(x, np.float64) for x in (out.groups["posterior"]["beta"], out.groups["posterior"]["sd"]))
    residuals = DATASET["y"] - beta[..., :1] - beta[..., 1:] * X
    return -0.5 * (residuals / sd[..., None]) ** 2 - np.log(sd[..., None])


def test_a_data_frame_has_a_column_for_each_element(out):
    frame = out[::2].toDataFrame()
    assert list(frame.columns) == ["beta[0]", "beta[1]", "sd"]
    assert frame.index.names == ["chain", "draw"]
    last = out.groups["posterior"]["beta"][-1, -2, 1]
    assert frame.loc[((out.nChains or 1) - 1, 59), "beta[1]"] == last
    np.testing.assert_array_equal(frame["sd"].to_numpy(), np.ravel(out["sd"][..., ::2]))


@pytest.mark.parametrize("log_lik", [total, terms])
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_log_likelihoods_are_those_of_each_observation_and_draw(log_lik, temperature):
    draws = sgmcmc.sgldcv(log_lik, DATASET, PARAMS, **OPTIONS, nChains=2, temperature=temperature)
    tree = draws[::3].toArviz(logLikelihood=True)
    found = tree["log_likelihood"]["logLik"]
    assert found.dims == ("chain", "draw", "observation")
    np.testing.assert_allclose(found, exact_terms(draws[::3]), rtol=1e-3, atol=1e-4)
    assert tree["log_likelihood"].coords["draw"].equals(tree["posterior"].coords["draw"])


def test_models_can_be_compared_by_loo():
    """The slope of 0.5 is worth about N/2 log(1 + 0.25), which is 22, with a standard deviation of 6."""
    options = OPTIONS | {"nIters": 2000}

    def constant(params, dataset):
        return terms({"beta": tf.stack([params["beta"][0], 0.0 * params["beta"][1]]), "sd": params["sd"]}, dataset)

    def prior(params):
        return -0.5 * tf.reduce_sum(params["beta"] ** 2)

    found = [
        arviz_stats.loo(
            sgmcmc.sgldcv(f, DATASET, PARAMS, logPrior=prior, **options, nChains=2)[::10].toArviz(True)
        ).elpd
        for f in (terms, constant)
    ]
    assert 10 < found[0] - found[1] < 40


def test_log_likelihoods_need_the_arguments_of_the_call(out, tmp_path):
    out.save(tmp_path / "out.npz")
    for draws, message in (
        (Draws.load(tmp_path / "out.npz"), "for draws without the arguments of their call"),
        (
            sgmcmc.sgld(total, DATASET, PARAMS, 1e-5, **OPTIONS, collect=lambda p: {"sum": p["sd"]}),
            r"got no \['beta', ",
        ),
    ):
        with pytest.raises(ValueError, match=f"logLikelihood of toArviz must be False {message}|{message}"):
            draws.toArviz(logLikelihood=True)


def test_predictions_of_all_draws(out):
    rows = {"x": np.array([0.0, 1.0, 2.0])}
    found, in_batches = (out.predict(mean, rows, draws=True, batchSize=size) for size in (None, 2))
    lead = () if out.nChains is None else (out.nChains,)
    assert found["draws"].shape == (*lead, 60, 3)
    np.testing.assert_allclose(found["draws"], out["beta"][..., :1] + out["beta"][..., 1:] * rows["x"], rtol=1e-5)
    np.testing.assert_array_equal(found["draws"], in_batches["draws"])
    assert "draws" not in out.predict(mean, rows)


def test_new_observations_have_noise_of_their_own(out):
    """Standard deviations of 60 or 120 draws, to 4 of their standard errors of at most 9%."""

    def observed(params, dataset, seed):
        return mean(params, dataset) + params["sd"] * tf.random.stateless_normal(dataset["x"].shape, seed)

    rows = {"x": np.zeros(40)}
    found, again, batches = (out.predict(observed, rows, draws=True, batchSize=size) for size in (None, None, 20))
    np.testing.assert_array_equal(found["draws"], again["draws"])
    noise = found["draws"] - out["beta"][..., :1]
    assert abs(noise.std() / out["sd"].mean() - 1) < 0.05
    assert abs(np.corrcoef(batches["draws"].reshape(-1, 40)[:, 0], batches["draws"].reshape(-1, 40)[:, 20])[0, 1]) < 0.5
    assert len(np.unique(noise)) > 0.99 * noise.size


def test_networks_and_samplers_can_be_pickled():
    network = sgmcmc.fromKeras(
        keras.Sequential([keras.Input([1]), keras.layers.Dense(1)]), {"x": X[:, None], "y": DATASET["y"][:, None]},
        "gaussian", inputs="x", targets="y",
    )  # fmt: skip
    options = {"stepsize": 1e-5, "minibatchSize": 50, "nIters": 20, "seed": 1, "verbose": False}
    copy = pickle.loads(pickle.dumps(network))
    first, second = (sgmcmc.sgld(**one, **options) for one in (network, copy))
    np.testing.assert_array_equal(first["dense.kernel"], second["dense.kernel"])
    np.testing.assert_allclose(first.predict(copy.outputs, {"x": X[:, None]})["mean"],
                               first.predict(network.outputs, {"x": X[:, None]})["mean"])  # fmt: skip

    sampler = sgmcmc.sgldSetup(total, DATASET, PARAMS, 1e-5, minibatchSize=50, seed=1, transforms={"sd": "positive"})
    stepped = []
    for one in (pickle.loads(pickle.dumps(sampler)), sampler):
        session = sgmcmc.initSess(one, verbose=False)
        sgmcmc.sgmcmcStep(one, session)
        stepped.append(sgmcmc.getParams(one, session)["beta"])
        pickle.loads(pickle.dumps(one))  # with a session
    np.testing.assert_array_equal(*stepped)
