"""Every sampler once, with constants that work, and the models that the contract tests run them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

import sgmcmc


@dataclass(frozen=True)
class Entry:
    """One sampler of the public face."""

    name: str
    stepsize: float
    settings: dict[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    problems: tuple[str, ...] = ("dense",)

    @property
    def one_call(self) -> Callable[..., dict[str, np.ndarray]]:
        return getattr(sgmcmc, self.name)

    @property
    def setup(self) -> Callable[..., Any]:
        return getattr(sgmcmc, self.name + "Setup")


def leimkuhler_matthews() -> sgmcmc.Dynamics:
    """A rule of a user's own: SGLD, but each noise is used twice, half now and half in the next update."""

    def init(theta: tf.Tensor, given: sgmcmc.Given) -> dict[str, tf.Tensor]:
        return {"noise": given.noise}

    def step(theta: tf.Tensor, memory: dict, given: sgmcmc.Given) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        noise = (memory["noise"] + given.noise) / 2
        return theta + given.eps / 2 * given.gradient + tf.sqrt(given.eps) * noise, {"noise": given.noise}

    return sgmcmc.Dynamics(step, init=init)


MODE = {"optStepsize": 1e-4, "nItersOpt": 150}
MODE_FIELDS = ("paramsOpt", "logPostOptGrad")

BOTH = ("dense", "sparse")  # for those that move the gathered rows alone, and one of the others

CATALOGUE = (
    Entry("sgld", 1e-3, problems=BOTH),
    Entry("sghmc", 1e-4, {"alpha": 0.1, "L": 3}, ("alpha", "L"), problems=BOTH),
    Entry("sgnht", 1e-4, {"a": 0.05}, ("a",)),
    Entry("ccadl", 1e-5, {"a": 0.05}, ("a",)),
    Entry("baoab", 1e-4, {"alpha": 0.1}, ("alpha",)),
    Entry("ubu", 1e-4, {"alpha": 0.1}, ("alpha",)),
    Entry("badodab", 1e-4, {"a": 0.1}, ("a",)),
    Entry("barker", 1e-3, {"covariance": "diag"}, ("covariance",)),
    Entry("sgzigzag", 1e-4, {}, ("inclusion",)),
    Entry("samadams", 1e-5, {"alpha": 0.1}, ("alpha", "beta", "m", "M", "r", "s", "scale")),
    Entry("psgld", 1e-5, {"delta": 0.1}, ("beta", "delta", "adapt")),
    Entry("sample", 1e-3, {"dynamics": leimkuhler_matthews()}),
    Entry("sgldcv", 1e-3, MODE, MODE_FIELDS, problems=BOTH),
    Entry("sghmccv", 1e-4, MODE | {"alpha": 0.1, "L": 3}, ("alpha", "L", *MODE_FIELDS)),
    Entry("sgnhtcv", 1e-4, MODE | {"a": 0.05}, ("a", *MODE_FIELDS)),
)

SIMPLEX = (
    Entry("scir", 0.02, {"alpha": 0.5}, ("alpha",), problems=("simplex",)),
    Entry("sgrld", 0.01, {"alpha": 0.5}, ("alpha",), problems=("simplex",)),
)
EVERY = CATALOGUE + SIMPLEX


@dataclass(frozen=True)
class Problem:
    """A posterior as a user would pass it."""

    logLik: Callable
    dataset: dict[str, Any]
    params: dict[str, Any]
    logPrior: Callable | None = None
    integers: tuple[str, ...] = ()
    suffStats: Callable | None = None

    def arguments(self) -> dict[str, Any]:
        functions = ("logLik", "logPrior") if self.suffStats is None else ("suffStats",)
        return {name: getattr(self, name) for name in (*functions, "dataset", "params", "integers")}


def dense() -> Problem:
    """Regression of two responses: a scalar, a vector, a matrix and a rank-3 parameter."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = x @ rng.normal(size=(3, 2)) + rng.normal(size=(300, 2))

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        mean = params["scalar"] + params["vector"] + tf.matmul(dataset["x"], params["matrix"])
        mean += tf.reduce_sum(params["cube"]) * dataset["x"][:, :1]
        return -0.5 * tf.reduce_sum((dataset["y"] - mean) ** 2)

    def log_prior(params: dict) -> tf.Tensor:
        return -0.5 * sum(tf.reduce_sum(theta**2) for theta in params.values())

    params = {"scalar": 0.0, "vector": np.zeros(2), "matrix": np.zeros((3, 2)), "cube": np.zeros((2, 1, 2))}
    return Problem(log_lik, {"x": x, "y": y}, params, log_prior)


def sparse() -> Problem:
    """Means of 200 groups, of which a minibatch gathers a few, and a common shift."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 200, 2000)
    x = rng.normal(size=(200, 2))[group] + rng.normal(size=(2000, 2))

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        mean = tf.gather(params["groups"], dataset["group"]) + params["shift"]
        return -0.5 * tf.reduce_sum((dataset["x"] - mean) ** 2)

    def log_prior(params: dict) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(params["shift"] ** 2)

    params = {"groups": np.zeros((200, 2)), "shift": np.zeros(2)}
    return Problem(log_lik, {"x": x, "group": group}, params, log_prior, ("group",))


def simplex() -> Problem:
    """Categories of two kinds, one of them in three groups, with a category that is never seen."""
    rng = np.random.default_rng(2)
    group = rng.integers(0, 3, 300)
    x = np.eye(4)[rng.choice(4, 300, p=[0.6, 0.3, 0.1, 0.0])]
    y = np.eye(2)[rng.integers(0, 2, 300)]

    def log_lik(params: dict, dataset: dict) -> tf.Tensor:
        of_x = tf.reduce_sum(dataset["x"] * tf.math.log(tf.gather(params["topics"], dataset["group"]) + 1e-30))
        return of_x + tf.reduce_sum(dataset["y"] * tf.math.log(params["coin"]))

    def counts(params: dict, dataset: dict) -> dict[str, tf.Tensor]:
        groups = tf.one_hot(dataset["group"], 3, dtype=dataset["x"].dtype)
        return {"topics": tf.matmul(groups, dataset["x"], transpose_a=True), "coin": tf.reduce_sum(dataset["y"], 0)}

    params = {"topics": np.full((3, 4), 0.25), "coin": [0.9, 0.1]}
    return Problem(log_lik, {"x": x, "y": y, "group": group}, params, None, ("group",), counts)


PROBLEMS: dict[str, Callable[[], Problem]] = {"dense": dense, "sparse": sparse, "simplex": simplex}
PAIRS = [(entry, problem) for problem in PROBLEMS for entry in EVERY if problem in entry.problems]
