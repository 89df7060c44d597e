"""Some of the chains of a run, and their draws side by side: the same as all chains at once, up to rounding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import Draws, controlVariates, runningMean, saga, sgld

RNG = np.random.default_rng(0)
DATASET = {"x": RNG.normal(3.0, 1.0, size=400), "z": RNG.normal(size=(400, 3))}
PARAMS = {"theta": 0.5, "beta": np.zeros(3)}
RUN = {"minibatchSize": 40, "nIters": 30, "seed": 1, "verbose": False}
ROUNDING = 1e-4
PARTS = (range(0, 3), range(3, 5))


def logLik(params, dataset):
    return -0.5 * (dataset["x"] - params["theta"] - tf.linalg.matvec(dataset["z"], params["beta"])) ** 2


def moving(params, dataset, seed):
    return {"theta": 3.0 + 0.05 * tf.random.stateless_normal([], seed)}


@dataclass(frozen=True)
class Case:
    sampler: str = "sgld"
    given: dict[str, Any] = field(default_factory=dict)

    def run(self, chains: Any, **changed: Any) -> Any:
        given = {"stepsize": 1e-4} | self.given | changed
        return getattr(sgmcmc, self.sampler)(logLik, DATASET, PARAMS, **RUN | given, nChains=chains)


CASES = {
    "auto": Case("sgldcv", {"stepsize": "auto", "nIters": 200}),
    "sghmccv": Case("sghmccv", {"optStepsize": 1e-4, "stepsize": 1e-5}),
    "saga": Case(given={"gradient": saga()}),
    "preferential": Case(
        given={"gradient": controlVariates(optStepsize=1e-4), "subsampling": sgmcmc.preferential(), "tolerance": 0.05}
    ),
    "shared": Case(given={"sharedMinibatch": True}),
    "scattered": Case("sgnht", {"stepsize": 1e-5, "starts": 0.1}),
    "gibbs": Case(given={"gibbs": moving}),
    "transform": Case(given={"transforms": {"theta": "positive"}}),
    "reduced, gradients": Case(
        given={"reduce": {"mean": runningMean()}, "collect": lambda params: {"t": params["theta"]}, "gradients": True}
    ),
}


def compare(one, other, rtol=0.0):
    leaves = [dict(sgmcmc.core.trees.with_paths({"groups": x.groups, "reduced": x.reduced})) for x in (one, other)]
    assert leaves[0].keys() == leaves[1].keys()
    for keys in leaves[0]:
        x, y = (np.asarray(of[keys]) for of in leaves)
        np.testing.assert_allclose(x, y, rtol, rtol * np.abs(y).max(), err_msg=str(keys))


@pytest.mark.parametrize("case", ["sghmccv", "saga", "shared", "scattered", "gibbs", "transform"])
def test_parts_side_by_side_are_all_chains_at_once(case):
    """Draws, statistics, gradients and reduced sums."""
    whole = CASES[case].run(5)
    parts = Draws.concat([CASES[case].run(chains) for chains in reversed(PARTS)])
    assert parts.chains == whole.chains == list(range(5)) and parts.nChains == 5
    compare(parts, whole, ROUNDING)
    assert parts.settings["stepsize"] == whole.settings["stepsize"]


def test_samplers_on_the_simplex_have_parts_too():
    words = {"words": np.arange(200) % 3}

    def suffStats(params, dataset):
        return {"theta": tf.reduce_sum(tf.one_hot(dataset["words"], 3), axis=0)}

    def run(chains):
        start = {"theta": np.full(3, 1 / 3)}
        return sgmcmc.sgrld(suffStats, words, start, 1e-4, alpha=1.0, **RUN, integers=["words"], nChains=chains)

    compare(Draws.concat([run(chains) for chains in PARTS]), run(5), ROUNDING)


def test_a_range_of_one_is_that_chain_up_to_rounding():
    case = Case("sghmc", {"stepsize": 1e-5})
    one, all_chains = case.run(range(3, 4)), case.run(5)
    assert one.chains == [3] and one["beta"].shape == (1, 30, 3)
    np.testing.assert_allclose(one["beta"][0], all_chains["beta"][3], rtol=1e-4, atol=1e-6)


def test_stores_of_tasks_stay_on_disk_and_resume(tmp_path):
    case = Case(given={"thin": 2})
    for k, chains in enumerate(PARTS):
        case.run(chains, nIters=20 + 10 * k, storage=tmp_path / f"{k}.zarr")
    resumed = [case.run(c, nIters=60, storage=tmp_path / f"{k}.zarr", resume=True) for k, c in enumerate(PARTS)]
    exact = Draws.concat([case.run(chains, nIters=60) for chains in PARTS])
    for runs in (resumed, [Draws.load(tmp_path / f"{k}.zarr") for k in (1, 0)]):
        out = Draws.concat(runs)
        assert not out["beta"]._in_memory and out["beta"].shape == (5, 30, 3)
        compare(out, exact)
        np.testing.assert_array_equal(out["beta"][1:4, 5:9, 1].values, exact["beta"][1:4, 5:9, 1])
        np.testing.assert_array_equal(out[10:].burnIn(30)["theta"].values, exact.burnIn(30)["theta"])
        assert out.summary().loc[["theta", "beta[2]"]].equals(exact.summary().loc[["theta", "beta[2]"]])
    with pytest.raises(ValueError, match="chains"):
        case.run(range(4, 6), nIters=60, storage=tmp_path / "1.zarr", resume=True)


def test_numbers_of_chains_are_in_arviz_and_in_a_divergence():
    out = Draws.concat([Case().run(range(6, 8)), Case().run(range(1, 3))])
    assert out.chains == [1, 2, 6, 7]
    posterior = out.toArviz()["posterior"]
    np.testing.assert_array_equal(posterior["theta"].sel(chain=6), out["theta"][2])
    starts = {"theta": np.array([0.0, 1e30]), "beta": np.zeros((2, 3))}
    with pytest.raises(sgmcmc.DivergenceError, match="of chain 9 was NaN") as error:
        Case(given={"starts": starts}).run(range(8, 10))
    assert error.value.chain == 9


def test_sessions_step_some_chains():
    sampler = sgmcmc.sgldSetup(logLik, DATASET, PARAMS, 1e-4, minibatchSize=40, seed=1, nChains=range(2, 5))
    sess = sgmcmc.initSess(sampler, verbose=False)
    sgmcmc.sgmcmcStep(sampler, sess, nSteps=30)
    np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["beta"], Case().run(range(2, 5))["beta"][:, -1])


def other(params, dataset):
    return 1.001 * logLik(params, dataset)


REFUSED = [
    (lambda: [], r"runs of concat must be a list of what a sampler returned; got \[\]"),
    (lambda: [{"theta": np.zeros((2, 3))}], "runs of concat must be a list of what a sampler returned"),
    (lambda: [Case().run(range(2)), Case().run(None)], r"must have a chain axis, .*; got none for runs \[1\]"),
    (lambda: [Case().run(3), Case().run(range(2, 4))], r"must have different chains; got \[2\] more than once"),
    (lambda: [Case().run(2), Case().run(range(2, 4), seed=2)], r"\['seed'\], such as seed: 1 and 2"),
    (lambda: [Case().run(2), Case().run(range(2, 4), stepsize=2e-4)], r"\['stepsize'\], such as stepsize: "),
    (lambda: [Case().run(2), Case().run(range(2, 4))[5:]], r"\['iterations'\], such as iterations: 30 and 25"),
    (
        lambda: [
            Case().run(range(2)),
            sgld(other, DATASET, PARAMS, 1e-4, **RUN, nChains=range(2, 4)),
        ],
        r"with the same data, functions and params; got different ones for chains \[0, 1\] and \[2, 3\]",
    ),
]


@pytest.mark.parametrize(("runs", "message"), REFUSED)
def test_what_is_not_of_one_run_is_refused(runs, message):
    with pytest.raises(ValueError, match=message):
        Draws.concat(runs())


@pytest.mark.parametrize("chains", [range(0), range(4, 2), range(0, 4, 2), range(-1, 2), range(2**31, 2**31 + 2)])
def test_bad_ranges_are_refused(chains):
    with pytest.raises(ValueError, match=r"nChains of sgld must be an integer of at least 1, or a range .*; got range"):
        Case().run(chains)
