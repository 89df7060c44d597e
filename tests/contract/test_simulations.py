"""A simulation study: one model, and many data sets of one shape.

It uses the inside of the package: it counts compilations.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import preferential, sgld, sgldcv
from sgmcmc.core import compilation

PARAMS = {"w": np.zeros(2), "sd": 1.0}
CALLS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "control variates": (sgldcv, {}),
    "weights": (sgldcv, {"subsampling": preferential()}),
    "a sandwich": (sgld, {"target": "sandwich"}),
}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    errors = dataset["y"] - tf.linalg.matvec(dataset["X"], params["w"])
    return -0.5 * (errors / params["sd"]) ** 2 - tf.math.log(params["sd"])


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.reduce_sum(params["w"] ** 2) - params["sd"]


def draws(name: str, number: int) -> Any:
    """The call for the simulated data set `number`, whose noise is larger for larger numbers."""
    rng = np.random.default_rng(number)
    x = rng.normal(size=(1000, 2))
    dataset = {"X": x, "y": x @ rng.normal(size=2) + rng.normal(0, 1 + number, 1000)}
    sampler, options = CALLS[name]
    return sampler(
        log_lik, dataset, PARAMS, logPrior=log_prior, transforms={"sd": "positive"}, minibatchSize=50, nIters=200,
        nChains=2, seed=number, verbose=False, **options,
    )  # fmt: skip


def n_graphs() -> int:
    gc.collect()
    return sum(type(thing).__name__ == "FuncGraph" for thing in gc.get_objects())


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:nIters")
def test_another_data_set_is_not_compiled_and_leaves_nothing_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draws(name, 0)
    programs, graphs = set(compilation._programs), n_graphs()
    second = draws(name, 1)
    draws(name, 2)
    assert compilation._programs.keys() == programs
    assert n_graphs() <= graphs
    monkeypatch.setattr(compilation, "_programs", {})
    for parameter, of_second in draws(name, 1).items():
        np.testing.assert_array_equal(of_second, second[parameter])
