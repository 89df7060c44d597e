"""The log posterior of a linear regression, estimated from a part of the observations."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sgmcmc.dataset.memory import InMemory, Subset
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.model import Model, Returns


def log_lik(params, dataset):
    return -0.5 * (dataset["y"] - tf.linalg.matvec(dataset["X"], params["w"])) ** 2


def test_scores_of_a_part_are_those_of_as_many_observations_as_there_are():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(200, 3)), rng.normal(size=200), rng.normal(size=3)
    model = Model(log_lik, None, InMemory({"X": X, "y": y}), Returns.TERMS, tf.float64)
    part = Posterior(model, {"w": (3,)}).of(Subset(model.data, np.arange(50)))
    s = (X * (y - X @ w)[:, None])[:50]
    root = rng.normal(size=(3, 3))
    np.testing.assert_allclose(part.scores(w), 4 * (s**2).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(part.score_products(w, root), 4 * (s @ root).T @ (s @ root), rtol=1e-9)
