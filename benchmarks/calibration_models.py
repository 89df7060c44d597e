"""The models of calibration.py: for each a prior to draw from, data given the parameters, and the densities of a user.

Every data set of a model has the same shapes, so that nothing is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from scipy.special import expit

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Model:
    """A model as a user writes it, and how to simulate it."""

    title: str
    prior: Callable[[np.random.Generator], Arrays]
    simulate: Callable[[np.random.Generator, Arrays], Arrays]
    logLik: Callable[[dict, dict], tf.Tensor]
    logPrior: Callable[[dict], tf.Tensor]
    params: Mapping[str, Any]
    transforms: Mapping[str, str] = field(default_factory=dict)
    integers: tuple[str, ...] = ()


def normal(x: Any, mean: Any = 0.0, sd: float = 1.0) -> tf.Tensor:
    """The log density, summed over all elements, up to a constant."""
    return -0.5 * tf.reduce_sum(((x - mean) / sd) ** 2)


def lognormal(x: tf.Tensor, sd: float) -> tf.Tensor:
    """The log density of a positive number whose logarithm is N(0, sd^2), up to a constant."""
    return normal(tf.math.log(x), 0.0, sd) - tf.math.log(x)


def increasing(rng: np.random.Generator, centres: np.ndarray, sd: float) -> np.ndarray:
    """Independent normals, given that they increase."""
    while True:
        drawn = rng.normal(centres, sd)
        if np.all(np.diff(drawn) > 0):
            return drawn


# Normal observations


def prior_of_normal(rng: np.random.Generator) -> Arrays:
    return {"mu": rng.normal(0.0, 2.0), "sd": np.exp(rng.normal(0.0, 0.5))}


def simulate_normal(rng: np.random.Generator, truth: Arrays) -> Arrays:
    return {"y": rng.normal(truth["mu"], truth["sd"], 500)}


def log_lik_of_normal(params: dict, dataset: dict) -> tf.Tensor:
    z = (dataset["y"] - params["mu"]) / params["sd"]
    return -0.5 * z**2 - tf.math.log(params["sd"])


def log_prior_of_normal(params: dict) -> tf.Tensor:
    return normal(params["mu"], sd=2.0) + lognormal(params["sd"], 0.5)


# Logistic regression


def prior_of_logistic(rng: np.random.Generator) -> Arrays:
    return {"beta": rng.normal(size=4), "intercept": rng.normal()}


def simulate_logistic(rng: np.random.Generator, truth: Arrays) -> Arrays:
    X = rng.normal(size=(1000, 4))
    y = rng.random(1000) < expit(X @ truth["beta"] + truth["intercept"])
    return {"X": X, "y": y.astype(float)}


def log_lik_of_logistic(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["X"], params["beta"]) + params["intercept"]
    return dataset["y"] * eta - tf.math.softplus(eta)


def log_prior_of_logistic(params: dict) -> tf.Tensor:
    return normal(params["beta"]) + normal(params["intercept"])


# Poisson regression with exposures


def prior_of_poisson(rng: np.random.Generator) -> Arrays:
    return {"beta": rng.normal(0.0, 0.5, 3), "intercept": rng.normal(0.0, 0.5)}


def simulate_poisson(rng: np.random.Generator, truth: Arrays) -> Arrays:
    X, exposure = rng.normal(size=(1000, 3)), rng.gamma(2.0, 0.5, 1000)
    y = rng.poisson(exposure * np.exp(X @ truth["beta"] + truth["intercept"]))
    return {"X": X, "exposure": exposure, "y": y.astype(float)}


def log_lik_of_poisson(params: dict, dataset: dict) -> tf.Tensor:
    eta = tf.linalg.matvec(dataset["X"], params["beta"]) + params["intercept"]
    return dataset["y"] * eta - dataset["exposure"] * tf.exp(eta)


def log_prior_of_poisson(params: dict) -> tf.Tensor:
    return normal(params["beta"], sd=0.5) + normal(params["intercept"], sd=0.5)


# Ordered categories

CENTRES_OF_CUTS, SD_OF_CUTS = np.array([-1.5, 0.0, 1.5]), 0.75


def prior_of_ordinal(rng: np.random.Generator) -> Arrays:
    return {"beta": rng.normal(size=3), "cut": increasing(rng, CENTRES_OF_CUTS, SD_OF_CUTS)}


def simulate_ordinal(rng: np.random.Generator, truth: Arrays) -> Arrays:
    X = rng.normal(size=(1000, 3))
    latent = X @ truth["beta"] + rng.logistic(size=1000)
    return {"X": X, "y": np.searchsorted(truth["cut"], latent)}


def log_lik_of_ordinal(params: dict, dataset: dict) -> tf.Tensor:
    """The log of S(upper - eta) - S(lower - eta), where S is the logistic function, without cancellation."""
    cuts = params["cut"] - tf.linalg.matvec(dataset["X"], params["beta"])[:, None]
    far = 1e3 * tf.ones_like(cuts[:, :1])
    lower, upper = tf.concat([-far, cuts], 1), tf.concat([cuts, far], 1)
    of_all = tf.math.log_sigmoid(upper) + tf.math.log_sigmoid(-lower) + tf.math.log(-tf.math.expm1(lower - upper))
    return tf.gather(of_all, dataset["y"], batch_dims=1)


def log_prior_of_ordinal(params: dict) -> tf.Tensor:
    return normal(params["beta"]) + normal(params["cut"], CENTRES_OF_CUTS.tolist(), SD_OF_CUTS)


# Hierarchical normal

GROUPS, IN_GROUP = 20, 50


def prior_of_groups(rng: np.random.Generator) -> Arrays:
    mu, tau = rng.normal(), np.exp(rng.normal(0.0, 0.35))
    return {"effect": rng.normal(mu, tau, GROUPS), "mu": mu, "sigma": np.exp(rng.normal(0.0, 0.35)), "tau": tau}


def simulate_groups(rng: np.random.Generator, truth: Arrays) -> Arrays:
    group = np.repeat(np.arange(GROUPS), IN_GROUP)
    return {"y": rng.normal(truth["effect"][group], truth["sigma"]), "group": group}


def log_lik_of_groups(params: dict, dataset: dict) -> tf.Tensor:
    z = (dataset["y"] - tf.gather(params["effect"], dataset["group"])) / params["sigma"]
    return -0.5 * z**2 - tf.math.log(params["sigma"])


def log_prior_of_groups(params: dict) -> tf.Tensor:
    of_effects = normal((params["effect"] - params["mu"]) / params["tau"]) - GROUPS * tf.math.log(params["tau"])
    return of_effects + normal(params["mu"]) + lognormal(params["tau"], 0.35) + lognormal(params["sigma"], 0.35)


# Mixture of two normals

CENTRES_OF_MEANS, SD_OF_MEANS = np.array([-2.0, 2.0]), 0.7


def prior_of_mixture(rng: np.random.Generator) -> Arrays:
    means = increasing(rng, CENTRES_OF_MEANS, SD_OF_MEANS)
    return {"mean": means, "sd": np.exp(rng.normal(0.0, 0.2)), "weight": rng.beta(5.0, 5.0)}


def simulate_mixture(rng: np.random.Generator, truth: Arrays) -> Arrays:
    second = (rng.random(1000) > truth["weight"]).astype(int)
    return {"y": rng.normal(truth["mean"][second], truth["sd"])}


def log_lik_of_mixture(params: dict, dataset: dict) -> tf.Tensor:
    weight, sd = params["weight"], params["sd"]
    first, second = (-0.5 * ((dataset["y"] - params["mean"][k]) / sd) ** 2 for k in (0, 1))
    return tf.math.reduce_logsumexp([tf.math.log(weight) + first, tf.math.log1p(-weight) + second], 0) - tf.math.log(sd)


def log_prior_of_mixture(params: dict) -> tf.Tensor:
    of_weight = 4.0 * (tf.math.log(params["weight"]) + tf.math.log1p(-params["weight"]))  # Beta(5, 5)
    return of_weight + normal(params["mean"], CENTRES_OF_MEANS.tolist(), SD_OF_MEANS) + lognormal(params["sd"], 0.2)


MODELS = {
    "normal": Model(
        "normal, unknown scale",
        prior_of_normal,
        simulate_normal,
        log_lik_of_normal,
        log_prior_of_normal,
        {"mu": 0.0, "sd": 1.0},
        {"sd": "positive"},
    ),
    "logistic": Model(
        "logistic regression",
        prior_of_logistic,
        simulate_logistic,
        log_lik_of_logistic,
        log_prior_of_logistic,
        {"beta": np.zeros(4), "intercept": 0.0},
    ),
    "poisson": Model(
        "Poisson regression, exposures",
        prior_of_poisson,
        simulate_poisson,
        log_lik_of_poisson,
        log_prior_of_poisson,
        {"beta": np.zeros(3), "intercept": 0.0},
    ),
    "ordinal": Model(
        "ordered categories",
        prior_of_ordinal,
        simulate_ordinal,
        log_lik_of_ordinal,
        log_prior_of_ordinal,
        {"beta": np.zeros(3), "cut": CENTRES_OF_CUTS},
        {"cut": "ordered"},
        ("y",),
    ),
    "groups": Model(
        "hierarchical normal, 20 groups of 50",
        prior_of_groups,
        simulate_groups,
        log_lik_of_groups,
        log_prior_of_groups,
        {"effect": np.zeros(GROUPS), "mu": 0.0, "sigma": 1.0, "tau": 1.0},
        {"sigma": "positive", "tau": "positive"},
        ("group",),
    ),
    "mixture": Model(
        "mixture of two normals",
        prior_of_mixture,
        simulate_mixture,
        log_lik_of_mixture,
        log_prior_of_mixture,
        {"mean": CENTRES_OF_MEANS, "sd": 1.0, "weight": 0.5},
        {"mean": "ordered", "sd": "positive", "weight": "unit"},
    ),
}
