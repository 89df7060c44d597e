"""Several chains: where they start, and what they share with one; of all samplers see test_samplers.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import sgmcmc
from tests.catalogue import CATALOGUE, Entry, dense


def draws_of(entry: Entry, **changes: Any) -> dict[str, np.ndarray]:
    arguments = dense().arguments() | entry.settings
    own = {"stepsize": entry.stepsize, "seed": 5, "minibatchSize": 30, "nIters": 20, "verbose": False}
    return entry.one_call(**arguments | own | changes)


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)


DATA = {"x": np.random.default_rng(0).normal(2.0, 1.0, size=(200, 2))}
STILL = {"stepsize": 1e-12, "minibatchSize": 20, "nIters": 1, "seed": 1, "verbose": False}


def begun(set_up: Any, params: Any, **settings: Any) -> np.ndarray:
    """Where the chains stand before the first iteration."""
    quiet = {"verbose": False} if set_up is sgmcmc.sgldcvSetup else {}
    own = {"stepsize": 1e-12, "minibatchSize": 20, "seed": 1}
    sampler = set_up(log_lik, DATA, {"theta": params}, **own | quiet | settings)
    return sgmcmc.getParams(sampler, sgmcmc.initSess(sampler))["theta"]


def test_chains_start_where_they_are_told_to() -> None:
    positions = np.arange(6.0).reshape(3, 2)
    theta = begun(sgmcmc.sgldSetup, [0, 0], nChains=3, starts={"theta": positions})
    np.testing.assert_array_equal(theta, positions)


def test_scattered_starts_have_the_standard_deviation_given() -> None:
    """4000 standard normals: the sum of squares is chi-square; false alarm 1e-6."""
    theta = begun(sgmcmc.sgldSetup, [5.0, -5.0], nChains=2000, starts=0.1)
    z = (theta - [5.0, -5.0]) / 0.1
    low, high = scipy.stats.chi2.ppf([5e-7, 1 - 5e-7], z.size)
    assert low < (z**2).sum() < high and not low < 2 * (z**2).sum() < high
    assert abs(z.mean()) < 4.9 / np.sqrt(z.size)
    few = begun(sgmcmc.sgldSetup, [5.0, -5.0], nChains=2, starts=0.1)
    np.testing.assert_allclose(few, theta[:2], rtol=1e-5)


def test_with_control_variates_chains_scatter_around_one_mode() -> None:
    theta = begun(sgmcmc.sgldcvSetup, [0, 0], nChains=500, starts=0.01, optStepsize=1e-3, nItersOpt=2000)
    np.testing.assert_allclose(theta.mean(axis=0), DATA["x"].mean(axis=0), atol=0.15)
    assert 0.005 < theta.std(axis=0).min() < 0.015


def test_with_control_variates_chains_may_start_elsewhere() -> None:
    positions = np.arange(4.0).reshape(2, 2)
    settings = {key: STILL[key] for key in ("stepsize", "minibatchSize", "seed")}
    sampler = sgmcmc.sgldcvSetup(
        log_lik, DATA, {"theta": [0, 0]}, nChains=2, starts={"theta": positions}, optStepsize=1e-3, nItersOpt=2000,
        verbose=False, **settings,
    )  # fmt: skip
    sess = sgmcmc.initSess(sampler)
    np.testing.assert_array_equal(sgmcmc.getParams(sampler, sess)["theta"], positions)
    np.testing.assert_allclose(sampler.paramsOpt["theta"], DATA["x"].mean(axis=0), atol=0.15)


def test_weights_with_several_chains() -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    one, two = (draws_of(CATALOGUE[0], subsampling=weights, nChains=n) for n in (None, 2))
    for name, array in two.items():
        np.testing.assert_allclose(array[0], one[name], rtol=2e-4, atol=2e-5)
        assert (array[0] != array[1]).any()


@pytest.mark.parametrize(
    ("chains", "plans"), [(None, [(7, 0), (5, 12), (103, 0)]), (2, [(1, 40), (63, 40), (5, 12)])], ids=["one", "two"]
)
def test_thinning_and_burn_in_choose_among_the_same_draws(chains: int | None, plans: list[tuple[int, int]]) -> None:
    entry = CATALOGUE[1]
    whole = draws_of(entry, nChains=chains, nIters=103)
    for thin, burn_in in plans:
        some = draws_of(entry, nChains=chains, nIters=103, thin=thin, burnIn=burn_in)
        for name, array in some.items():
            kept = slice(burn_in + thin - 1, None, thin)
            np.testing.assert_array_equal(array, whole[name][kept] if chains is None else whole[name][:, kept])


def test_a_divergence_among_several_chains_names_the_chain_and_keeps_the_draws() -> None:
    starts = {"theta": np.array([[0.0, 0.0], [0.0, 0.0], [1e18, 0.0]])}
    settings = STILL | {"stepsize": 0.021, "nIters": 3000}
    with pytest.raises(sgmcmc.DivergenceError, match="of chain 2 was NaN or infinite after iteration") as caught:
        sgmcmc.sgld(log_lik, DATA, {"theta": [0, 0]}, nChains=3, starts=starts, **settings)
    error = caught.value
    assert error.chain == 2 and error.draws["theta"].shape == (3, error.iteration - 1, 2)
    assert f"the {error.iteration - 1} draws" in str(error) or error.iteration == 1
