"""Gradients from all data: against their formula, in blocks, and of all forms of draws."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import dataset as data
from sgmcmc import sgld
from sgmcmc.diagnostics import fullGradients

RNG = np.random.default_rng(0)
N = 1000
DATASET = {"x": RNG.normal(size=(N, 2)), "y": RNG.normal(size=N), "group": RNG.integers(0, 3, size=N)}
DRAWS = {"slope": RNG.normal(size=(5, 2)), "level": RNG.normal(size=(5, 3))}


def log_lik(params, dataset):
    level = tf.gather(params["level"], dataset["group"])
    return -0.5 * tf.reduce_sum((dataset["y"] - level - tf.linalg.matvec(dataset["x"], params["slope"])) ** 2)


def log_prior(params):
    return -0.5 * tf.reduce_sum(params["slope"] ** 2)


def expected(draws):
    groups = np.eye(3)[DATASET["group"]]
    left = DATASET["y"] - draws["level"] @ groups.T - draws["slope"] @ DATASET["x"].T
    return {"slope": left @ DATASET["x"] - draws["slope"], "level": left @ groups}


@pytest.mark.parametrize("block", [2**24, 1])
def test_they_are_those_of_all_data_and_the_prior(block, monkeypatch):
    monkeypatch.setattr(data, "BLOCK_BYTES", block)  # with 1, blocks of 256 observations
    found = fullGradients(DRAWS, log_lik, DATASET, log_prior, integers=["group"], verbose=False)
    for name, array in expected(DRAWS).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-10)
        assert found[name].dtype == np.float64


def test_of_many_chains():
    draws = {name: np.stack([array, array[::-1]]) for name, array in DRAWS.items()}
    found = fullGradients(draws, log_lik, DATASET, log_prior, integers=["group"], nChains=2, verbose=False)
    for name, array in expected(DRAWS).items():
        np.testing.assert_allclose(found[name], np.stack([array, array[::-1]]), rtol=1e-10)


def test_of_a_run_with_its_types():
    start = {name: array[0] for name, array in DRAWS.items()}
    given = {"minibatchSize": 50, "nIters": 20, "integers": ["group"], "verbose": False, "seed": 1}
    out = sgld(log_lik, DATASET, start, 1e-4, log_prior, **given)
    found = fullGradients(out, log_lik, DATASET, log_prior, verbose=False)
    for name, array in expected({name: np.asarray(x, np.float64) for name, x in out.items()}).items():
        np.testing.assert_allclose(found[name], array, atol=0.02)
    exact = fullGradients(out, log_lik, DATASET, log_prior, dtype="float64", verbose=False)
    assert 0 < np.abs(exact["slope"] - found["slope"]).max() < 0.02
    given["collect"] = lambda params: {"slope": params["slope"]}
    kept = sgld(log_lik, DATASET, start, 1e-4, log_prior, **given)
    with pytest.raises(
        ValueError, match=r"^draws of fullGradients must be those of the parameters; got those of collect"
    ):
        fullGradients(kept, log_lik, DATASET, log_prior)


def test_progress_is_shown_unless_it_is_unwanted(capfd):
    draws = {name: array[:2] for name, array in DRAWS.items()}
    fullGradients(draws, log_lik, DATASET, integers=["group"])
    assert "gradients" in capfd.readouterr().err
    fullGradients(draws, log_lik, DATASET, integers=["group"], verbose=False)
    assert "gradients" not in capfd.readouterr().err


NAN = DRAWS | {"slope": np.full((5, 2), np.nan)}


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (np.zeros((5, 2)), log_lik, DATASET),
            {},
            r"^draws of fullGradients must be the result of a sampler or a dict",
        ),
        (
            (NAN, log_lik, DATASET),
            {},
            r"^draws\['slope'\] of fullGradients must be finite; got nan at index \(0, 0\)\.$",
        ),
        ((DRAWS, 1, DATASET), {}, r"^logLik of fullGradients must be a function of \(params, dataset\); got 1\.$"),
        ((DRAWS, log_lik, [1]), {}, r"^dataset of fullGradients must be a dict with at least one entry"),
        (
            (DRAWS, log_lik, DATASET, 1),
            {},
            r"^logPrior of fullGradients must be None, a function of params, or a joint distribution of .*; got 1\.$",
        ),
        ((DRAWS, log_lik, DATASET), {"integers": ["z"]}, r"^integers of fullGradients must list names in dataset"),
        (
            (DRAWS, log_lik, DATASET),
            {"dtype": "int"},
            r"^dtype of fullGradients must be 'float32' or 'float64'; got 'int'",
        ),
        ((DRAWS, log_lik, DATASET), {"verbose": 1}, r"^verbose of fullGradients must be True or False; got 1\.$"),
    ],
)
def test_bad_arguments_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        fullGradients(*arguments, **options)
