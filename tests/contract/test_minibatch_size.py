"""minibatchSize="auto": the size with which an independent draw costs least.

It uses the inside of the package: it needs the cost that the choice assumes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc import Minibatch, initSess, preferential, sghmccv, sgld, sgldcv, sgldcvSetup, sgldSetup, shards
from sgmcmc.laplace.stepsize import FIXED

N, D = 4000, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
DATA = {"x": X, "y": RNG.random(N) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5]))}
PARAMS = {"beta": np.zeros(D)}
COMMON: dict[str, Any] = {"nIters": 2000, "seed": 1, "verbose": False}


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["x"], params["beta"])
    return dataset["y"] * eta - tf.math.softplus(eta)


@pytest.mark.parametrize("of", [sgldcv, sghmccv])
@pytest.mark.parametrize(
    "more", [{}, {"subsampling": "withReplacement"}, {"subsampling": preferential(), "nChains": 2}]
)
def test_draws_are_those_of_the_same_size_by_hand(of: Any, more: dict) -> None:
    out = of(log_lik, DATA, PARAMS, minibatchSize="auto", **COMMON, **more)
    n = out.settings["minibatchSize"]
    same = of(log_lik, DATA, PARAMS, minibatchSize=n, **COMMON, **more)
    assert 1 <= n < N
    assert out.settings["expected"]["minibatchSize"] == n
    np.testing.assert_array_equal(out["beta"], same["beta"])


@pytest.mark.parametrize("of", [sgldcv, sgld])
def test_no_other_size_is_expected_to_cost_less(of: Any) -> None:
    """An independent draw costs iterations * (n + FIXED)."""

    def cost(n: int) -> float:
        out = of(log_lik, DATA, PARAMS, minibatchSize=n, **COMMON | {"nIters": 1})
        return out.settings["expected"]["iterations"] * (n + FIXED)

    n = of(log_lik, DATA, PARAMS, minibatchSize="auto", **COMMON | {"nIters": 1}).settings["minibatchSize"]
    others = {max(1, n // 2), max(1, n // 4), min(2 * n, N), min(4 * n, N)} - {n}
    assert cost(n) < 1.001 * min(map(cost, others))


def test_stored_and_stepped_like_any_other(tmp_path: Path) -> None:
    arguments = {"minibatchSize": "auto", "storage": tmp_path / "a.zarr"}
    sgldcv(log_lik, DATA, PARAMS, **arguments, **COMMON | {"nIters": 700})
    resumed = sgldcv(log_lik, DATA, PARAMS, **arguments, **COMMON, resume=True)
    whole = sgldcv(log_lik, DATA, PARAMS, minibatchSize="auto", **COMMON)
    np.testing.assert_array_equal(resumed["beta"], whole["beta"])
    sampler = sgldcvSetup(log_lik, DATA, PARAMS, minibatchSize="auto", seed=1)
    initSess(sampler, verbose=False)
    assert sampler.n == whole.settings["minibatchSize"] == resumed.settings["minibatchSize"]


def own(n_data: int, size: int) -> Minibatch:
    raise AssertionError("nothing is drawn")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"stepsize": 1e-4}, "minibatchSize of sgld must be a number unless the stepsize is 'auto'; got 'auto'"),
        ({"subsampling": own}, "minibatchSize of sgld must be an integer"),
        ({"dataset": shards([DATA, DATA])}, "minibatchSize of sgld must be an integer"),
    ],
)
def test_where_no_size_can_be_found_a_number_is_needed(more: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sgldSetup(log_lik, **{"dataset": DATA} | more, params=PARAMS, minibatchSize="auto")
