"""The temperatures of short chains at several stepsizes.

For exact draws of theta and momentum u, and any point c that does not depend on them,

    kinetic:         E |u|^2 / (p eps) = 1
    configurational: -E <theta - c, grad log p(theta)> / p = 1

with p the number of elements of a parameter; the second is by partial integration. Here
c is where the chain is in the middle of its iterations, and the gradient at a draw is
estimated from a minibatch of its own, so that its noise averages out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import State, Supplied, Tree
from sgmcmc.run.candidates import followed, with_stepsizes
from sgmcmc.run.checkpoint import Beginning
from sgmcmc.run.plan import Plan
from sgmcmc.run.product import ProductSampler
from sgmcmc.run.recorder import Recorder

KINETIC = "kinetic_temperature"
BATCHES = 20  # of consecutive draws, whose averages give the Monte Carlo error


class Temperatures(NamedTuple):
    """Averages and their Monte Carlo standard errors, of a parameter of one chain; infinite if it diverged."""

    kinetic: float
    kinetic_error: float
    configurational: float
    configurational_error: float


def temperatures(
    sampler: ProductSampler,
    beginning: Beginning,
    stepsizes: Sequence[Mapping[str, float]],
    n_iterations: int,
    thin: int,
    progress: Callable[[int], None],
) -> list[dict[str, Temperatures]]:
    """The temperatures in the second half of chains with these stepsizes, of each parameter of each chain."""
    _, prepared = with_stepsizes(sampler, stepsizes, beginning, monitored=True)
    kernel, names = prepared.kernel, sorted(sampler.start)
    plan = Plan(n_iterations, thin, n_iterations // 2)
    per_batch = (plan.n_rows - 1) // BATCHES
    zeros = tf.zeros([BATCHES, len(stepsizes), len(names)], tf.float64)

    def init() -> dict[str, Any]:
        centre = tf.nest.map_structure(tf.zeros_like, kernel.params(prepared.state))
        return {"centre": centre, "row": tf.constant(0), "kinetic": zeros, "configurational": zeros}

    def update(sums: dict[str, Any], constants: Tree, state: State, supplied: Supplied) -> dict[str, Any]:
        assert kernel.gradient is not None
        row, params = sums["row"], kernel.params(state)
        centre = {name: tf.where(row == 0, theta, sums["centre"][name]) for name, theta in params.items()}
        gradient = kernel.gradient(constants, state, supplied)
        products = {name: (centre[name] - theta) * gradient[name] for name, theta in params.items()}
        now = {
            "kinetic": kernel.stats(constants, state, supplied.iteration + tf.constant(1, tf.uint32))[KINETIC],
            "configurational": tf.stack([_mean_of_each(products[name]) for name in names], axis=1),
        }
        batch = tf.one_hot(tf.where(row == 0, -1, (row - 1) // per_batch), BATCHES, dtype=tf.float64)
        added = {key: sums[key] + batch[:, None, None] * tf.cast(x, tf.float64) for key, x in now.items()}
        return {"centre": centre, "row": row + 1, **added}

    ran = followed(prepared, Recorder(lambda *_: {}, init, update), plan, progress)

    def of(key: str, c: int, p: int) -> tuple[float, float]:
        averages = ran.accumulated[key].numpy()[:, c, p] / per_batch
        return float(averages.mean()), float(averages.std(ddof=1) / BATCHES**0.5)

    diverged = Temperatures(*[np.inf] * 4)
    return [
        {
            name: Temperatures(*of("kinetic", c, p), *of("configurational", c, p)) if finite else diverged
            for p, name in enumerate(names)
        }
        for c, finite in enumerate(ran.finite)
    ]


def _mean_of_each(x: tf.Tensor) -> tf.Tensor:
    """[C, ...] to [C]."""
    return tf.reduce_mean(tf.reshape(x, [x.shape[0], -1]), axis=1)
