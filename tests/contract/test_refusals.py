"""Combinations of arguments that are errors: each row of the tables, by a call that asks for it.

It uses the inside of the package: it reads the tables, of which each row is a test.
"""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import adaptive, controlVariates, cyclical, preferential, runningMean, saga, shards
from sgmcmc.arguments.refusals import TABLES, Refusal

DOCS = Path(__file__).parents[2] / "docs"
N = 200
X = np.random.default_rng(0).normal(3.0, 1.0, size=N).astype("float32")
POOLS = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
PARTS = [{"x": X[:100]}, {"x": X[100:]}]


def log_lik(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * (dataset["x"] - tf.add_n([tf.reduce_sum(x) for x in params.values()])) ** 2


def log_prior(params: dict) -> tf.Tensor:
    return -0.5 * tf.add_n([tf.reduce_sum(x**2) for x in params.values()])


def log_lik_of_rows(params: dict, dataset: dict) -> tf.Tensor:
    return -0.5 * (dataset["x"] - tf.gather(params["theta"], dataset["group"])) ** 2


def gibbs(params: dict, dataset: dict, seed: tf.Tensor) -> dict:
    return {"other": params["other"] + tf.random.stateless_normal([], seed)}


def without_terms(model: Any) -> sgmcmc.Gradient:
    def estimate(params: dict, batch: sgmcmc.Batch, constants: dict, memory: Any) -> sgmcmc.Estimate:
        return sgmcmc.Estimate(*model.value_and_gradient(params, batch))

    return sgmcmc.Gradient(estimate)


def in_order(N: int, n: int) -> sgmcmc.Minibatch:
    """Observations that are not independent."""

    def draw(stream: Any, counters: tf.Tensor, constants: dict) -> tuple:
        return stream.integers(counters, tf.range(1), N // n) + N // n * tf.range(n), None

    return sgmcmc.Minibatch(n, draw, scale=N / n, without_replacement=True)


def unknown_law() -> sgmcmc.Dynamics:
    """Neither `stationary` nor a move by the gradient."""
    return sgmcmc.Dynamics(lambda theta, memory, given: (theta + tf.sqrt(given.eps) * given.noise, memory))


def known_law() -> sgmcmc.Dynamics:
    return sgmcmc.Dynamics(
        lambda theta, memory, given: (theta + given.eps / 2 * given.gradient + given.noise, memory),
        stationary=lambda eps, precision, noise: sgmcmc.Stationary(1 / precision, 1 / precision),
    )


def transition(model: Any) -> sgmcmc.Transition:
    return sgmcmc.Transition(lambda params, memory, batch, given: (params, memory, tf.zeros([])))


class NotInMemory:
    def __len__(self) -> int:
        return N

    def take(self, indices: np.ndarray) -> dict:
        return {"x": X[indices]}


AUTO, CV, TWO = {"stepsize": "auto"}, {"gradient": controlVariates()}, {"params": {"theta": 0.0, "other": 0.0}}
SANDWICH = AUTO | {"target": "sandwich"}
ADAPTIVE = CV | {"minibatchSize": adaptive()}
BY_CONSTANTS = CV | {"minibatchSize": adaptive(threshold=1.0, lipschitz=np.ones(N))}
LOCAL, REMOTE = {"dataset": shards(PARTS)}, {"dataset": shards(PARTS, executors=POOLS)}
GIBBS = TWO | {"gibbs": gibbs}
WIDE = AUTO | {"preconditioner": "lowRank"}
EXPLORING = {"stepsize": cyclical(1e-4, 10, explorationFraction=0.5)}
MANY = AUTO | {"params": {"theta": np.zeros(2001)}}
ROWS = AUTO | {
    "logLik": log_lik_of_rows,
    "dataset": {"x": X, "group": np.arange(N) % 5},
    "params": {"theta": np.zeros(5)},
    "integers": ["group"],
    "preconditioner": None,
    "logPrior": None,
}
FISHER = {"sampler": "sghmc", "betaHat": "fisher", "alpha": 0.1}
CCADL = {"sampler": "ccadl", "stepsize": 1e-5}
SAMPLE = {"sampler": "sample"}
TRANSITION = SAMPLE | {"transition": transition}
UNTIL = {"nIters": "auto", "nChains": 2}

# The calls of each row, in the order of the tables.
OF_ALL: dict[str, list[dict[str, Any]]] = {
    "`nChains=None`": [{"starts": 0.1}, {"sharedMinibatch": True}],
    "`shards` as the dataset": [LOCAL | {"subsampling": "reshuffled"}, LOCAL | ADAPTIVE],
    "`minibatchSize=adaptive()`": [ADAPTIVE | {"subsampling": "symmetric"}],
}
OF_GRADIENTS = {
    '`target="sandwich"`': [
        {"target": "sandwich"},
        SANDWICH | {"preconditioner": "diagonal"},
        SANDWICH | {"temperature": 0.5},
        SANDWICH | LOCAL,
        SANDWICH | {"gradient": saga()},
    ],
    "`minibatchSize=adaptive()`": [
        {"minibatchSize": adaptive()},
        ADAPTIVE | {"dataset": NotInMemory()},
        BY_CONSTANTS | {"temperature": 0.5},
        BY_CONSTANTS | {"params": {"theta": 1.0}, "transforms": {"theta": "positive"}},
    ],
    "`gradient=saga()`": [{"gradient": saga(), "subsampling": "reshuffled"}],
    "shards with executors": [
        REMOTE | {"gradient": saga()},
        REMOTE | {"gradient": controlVariates(optStepsize=1e-4)},
        REMOTE | GIBBS,
    ],
    "`gibbs`": [
        GIBBS | AUTO,
        GIBBS | {"subsampling": np.ones(N)},
        GIBBS | {"preconditioner": np.eye(2)},
        GIBBS | {"temperature": 0.5},
        GIBBS | CV,
    ],
    '`preconditioner="lowRank"`': [WIDE | {"gradient": saga()}, WIDE | {"subsampling": preferential()}],
    '`stepsize="auto"`': [
        AUTO | {"params": {"theta": np.zeros(100_001)}},
        MANY | {"preconditioner": "diagonal"},
        SAMPLE | AUTO | {"dynamics": unknown_law()},
        SAMPLE | AUTO | TWO | {"dynamics": {"theta": known_law(), "other": known_law()}},
        AUTO | TWO | {"sampler": "sghmc", "alpha": {"theta": 0.1, "other": 0.2}},
        AUTO | TWO | {"sampler": "sgnht", "a": {"theta": 0.1, "other": 0.2}},
        AUTO | TWO | {"sampler": "ccadl"},
        AUTO | ADAPTIVE,
        ROWS,
        AUTO | {"gradient": without_terms},
        AUTO | {"subsampling": in_order},
    ],
    '`minibatchSize="auto"`': [{"minibatchSize": "auto"}],
    "`subsampling=preferential()`": [{"gradient": without_terms, "subsampling": preferential()}],
    'an estimated covariance of the gradient noise (`covariance`, `betaHat="fisher"`)': [
        CCADL | ADAPTIVE,
        CCADL | {"subsampling": "reshuffled"},
        CCADL | {"minibatchSize": 1},
        FISHER | {"gradient": without_terms},
        FISHER | {"subsampling": in_order},
    ],
    "`cyclical(..., explorationFraction=...)`": [
        SAMPLE | EXPLORING | {"dynamics": unknown_law()},
        EXPLORING | {"sampler": "sgnht"},
    ],
}
OF_TRANSITIONS = {
    "`transition`": [
        TRANSITION | GIBBS,
        TRANSITION | {"params": {"theta": 1.0}, "transforms": {"theta": "positive"}},
        TRANSITION | AUTO | {"preconditioner": None},
        TRANSITION | {"preconditioner": np.eye(1)},
        TRANSITION | EXPLORING,
        TRANSITION | {"minibatchSize": adaptive()},
        TRANSITION | {"subsampling": preferential()},
        TRANSITION | {"logLik": None},
        TRANSITION | {"gradient": saga()},
    ],
}
OF_RUNS = {
    "a number as `nIters`": [{"ess": 100}, {"mcse": 0.1}, {"maxIters": 100}, {"maxSeconds": 1}],
    '`nIters="auto"`': [
        UNTIL | {"nChains": 1},
        UNTIL | {"reduce": runningMean()},
        UNTIL | {"ess": 100, "mcse": 0.1},
    ],
    "`gradients=True`": [
        {"gradients": True, "params": {"theta": 1.0}, "transforms": {"theta": "positive"}},
        SANDWICH | {"gradients": True},
        REMOTE | {"gradients": True},
        TRANSITION | {"gradients": True},
    ],
    "`executor`": [REMOTE | {"executor": POOLS[0], "nChains": 2}, {"executor": POOLS[0]}],
    "`executor=None`": [{"chainsPerJob": 2}],
    "`resume`": [{"resume": True}],
}
EXAMPLES = dict(zip(TABLES, (OF_ALL, OF_GRADIENTS, OF_TRANSITIONS, OF_RUNS), strict=True))
ROWS_OF_TABLES = [
    (example, row)
    for name, table in TABLES.items()
    for group in table
    for example, row in zip(EXAMPLES[name][group.given], group.rows, strict=True)
]


def label(x: Any) -> str | None:
    return x.argument if isinstance(x, Refusal) else None


@pytest.mark.parametrize(("example", "row"), ROWS_OF_TABLES, ids=label)
def test_it_is_refused_with_the_reason(example: dict[str, Any], row: Refusal) -> None:
    arguments: dict[str, Any] = {
        "logLik": log_lik,
        "dataset": {"x": X},
        "params": {"theta": 0.0},
        "stepsize": 1e-4,
        "logPrior": log_prior,
        "minibatchSize": 20,
        "nIters": 10,
        "verbose": False,
    } | example
    sampler = arguments.pop("sampler", "sgld")
    with pytest.raises(ValueError) as raised:
        getattr(sgmcmc, sampler)(**arguments)
    assert str(raised.value).startswith(f"{row.argument} of {sampler} must {row.must}; got ")


def test_the_page_has_all_rows():
    """Otherwise, run `python docs/writeCombinations.py`."""
    spec = importlib.util.spec_from_file_location("writeCombinations", DOCS / "writeCombinations.py")
    assert spec is not None and spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert (DOCS / "guide" / "combinations.md").read_text(encoding="utf-8") == writer.page()
