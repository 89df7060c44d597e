"""Gibbs steps beside the gradients: which parameters they move, bit for bit whatever the run, and what is refused."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import controlVariates, initSess, restoreSess, saga, saveSess, sgld, sgmcmcStep, sgnht

RNG = np.random.default_rng(0)
GROUP = np.repeat(np.arange(6), 50)
DATASET = {"y": RNG.normal(size=6)[GROUP] + RNG.normal(size=300), "group": np.eye(6)[GROUP]}
PARAMS = {"theta": np.zeros(6), "lam": 1.0}
N_ITERS = 23


def logLik(params, dataset):
    return -0.5 * tf.reduce_sum((dataset["y"] - tf.linalg.matvec(dataset["group"], params["theta"])) ** 2)


def logPrior(params):
    return 3 * tf.math.log(params["lam"]) - 0.5 * params["lam"] * (tf.reduce_sum(params["theta"] ** 2) + 2)


def gibbs(params, dataset, seed):
    """Not the posterior's, but quick to compile, and it depends on all that it is given."""
    z = tf.random.stateless_normal([], seed)
    return {"lam": tf.exp(0.1 * z) + 0.01 * tf.reduce_sum(params["theta"] ** 2) + 0.001 * tf.reduce_mean(dataset["y"])}


def run(sampler=sgnht, **changed):
    given = {"stepsize": 1e-4, "minibatchSize": 20, "nIters": N_ITERS, "seed": 3, "verbose": False, "gibbs": gibbs}
    return sampler(logLik, DATASET, PARAMS, logPrior=logPrior, **given | changed)


@cache
def whole(n_chains=None):
    return run(nChains=n_chains)


def test_what_the_step_returns_is_moved_by_it_alone():
    out = whole()
    z = np.log(out["lam"] - 0.01 * (out["theta"] ** 2).sum(axis=1)) / 0.1  # but for a little of the minibatch's mean
    assert len(np.unique(out["lam"])) == N_ITERS and abs(z.mean()) < 3 / np.sqrt(N_ITERS) and 0.5 < z.std() < 1.6
    still = run(stepsize={"theta": 1e-4})
    np.testing.assert_array_equal(still["lam"], out["lam"])
    assert np.isnan(out.sampleStats["kinetic_temperature"][:, 0]).all()  # of lam, by name before theta
    assert np.isfinite(out.sampleStats["kinetic_temperature"][:, 1]).all()


@pytest.mark.parametrize("n_chains", [None, 3])
def test_the_same_bits_stepped_saved_and_resumed(n_chains, tmp_path):
    out = whole(n_chains)
    path = tmp_path / "run.zarr"
    run(nChains=n_chains, nIters=11, storage=path)
    resumed = run(nChains=n_chains, storage=path, resume=True)
    for name in out:
        np.testing.assert_array_equal(resumed[name], out[name])

    def begun():
        return sgmcmc.sgnhtSetup(logLik, DATASET, PARAMS, 1e-4, logPrior, 20, seed=3, nChains=n_chains, gibbs=gibbs)

    sampler = begun()
    session = initSess(sampler, verbose=False)
    sgmcmcStep(sampler, session, nSteps=10)
    saveSess(sampler, session, tmp_path / "session")
    other = begun()
    session = restoreSess(other, tmp_path / "session")
    sgmcmcStep(other, session, nSteps=N_ITERS - 10)
    for name, theta in sgmcmc.getParams(other, session).items():
        np.testing.assert_array_equal(theta, out[name][..., -1, :] if name == "theta" else out[name][..., -1])


def test_what_the_step_moves_need_not_be_differentiable():
    def labelled(params, dataset):
        level = tf.gather(tf.constant([0.0, 1.0]), tf.cast(params["label"], tf.int32))
        return -0.5 * tf.reduce_sum((dataset["y"] - tf.reduce_sum(params["theta"]) - level) ** 2)

    def relabel(params, dataset, seed):
        return {"label": tf.cast(tf.random.stateless_uniform([], seed) < 0.5, tf.float32)}

    start = {"theta": PARAMS["theta"], "label": 0.0}
    out = sgld(labelled, DATASET, start, 1e-4, minibatchSize=20, nIters=40, seed=3, verbose=False, gibbs=relabel)
    assert set(out["label"]) == {0.0, 1.0} and np.isfinite(out["theta"]).all()
    with pytest.raises(ValueError, match=r"got none for .'label'."):
        sgld(labelled, DATASET, start, 1e-4, minibatchSize=20, nIters=40, verbose=False)


def test_chains_are_those_of_single_runs():
    together, alone = whole(3), run(nChains=1)
    np.testing.assert_allclose(together["lam"][0], alone["lam"][0], rtol=1e-5)
    assert not np.allclose(together["lam"][0], together["lam"][1])


def test_nothing_is_told_of_the_tuning_of_what_the_step_moves():
    table = run(nIters=100).summary()
    assert np.isnan(table.loc["lam", ["kinetic_temperature", "variance_ratio"]].to_numpy(float)).all()
    assert np.isfinite(table.loc["theta[0]", ["kinetic_temperature", "variance_ratio"]].to_numpy(float)).all()


def test_another_step_is_another_chain(tmp_path):
    run(storage=tmp_path / "run.zarr")

    def another(params, dataset, seed):
        return {"lam": 1.1 * gibbs(params, dataset, seed)["lam"]}

    with pytest.raises(ValueError, match="gibbs of sgnht must be what it was"):
        run(storage=tmp_path / "run.zarr", resume=True, nIters=2 * N_ITERS, gibbs=another)


@pytest.mark.parametrize(
    "changed", [{"gradient": saga()}, {"sharedMinibatch": True, "nChains": 2}], ids=["saga", "shared"]
)
def test_beside_other_choices(changed):
    out = run(**changed)
    assert all(np.isfinite(values).all() for values in out.values())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gibbs": 3}, "gibbs of sgnht must be None or a function of .params, dataset, seed.; got 3"),
        ({"gibbs": lambda params, dataset, seed: {"mu": 1.0}}, "new values for some of .'lam', 'theta'."),
        ({"gibbs": lambda params, dataset, seed: {}}, "must return a dict with new values"),
        ({"gibbs": lambda params, dataset, seed: {"lam": tf.ones([2])}}, "must return 'lam' as float32"),
        ({"gibbs": lambda params, dataset, seed: dict(params)}, "leave at least one of params to the gradients"),
        ({"gibbs": lambda params, dataset, seed: {"lam": tf.random.normal([])}}, "must not draw random numbers by"),
        ({"stepsize": "auto"}, "stepsize of sgnht must be given with gibbs"),
        ({"preconditioner": np.eye(7)}, "preconditioner of sgnht must be None with gibbs"),
        ({"gradient": controlVariates(1e-5, 10)}, "gibbs of sgnht must be None with control variates"),
        ({"stepsize": {"lam": 1e-4}}, "must have the keys of params that gibbs does not move, .'theta'."),
        ({"temperature": 2.0}, "temperature of sgnht must be 1 with gibbs"),
        ({"subsampling": sgmcmc.preferential()}, "subsampling of sgnht must be uniform with gibbs"),
        ({"subsampling": np.arange(1.0, 301.0)}, "subsampling of sgnht must be uniform with gibbs"),
    ],
)  # fmt: skip
def test_bad_steps_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        run(**changed)
