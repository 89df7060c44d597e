"""The stepsize for a posterior with many elements, for which there is no covariance of the gradients' noise.

With random signs r_i the sum of r_i t_i has the covariance sum_i t_i t_i^T: that of the noise, up to a factor. So sums
with signs, over all observations and at draws from the Laplace approximation, have the variance of the noise of each
element, and along the directions of the curvature, each known to some percent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Dynamics
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.stepsize import Directions, predicted
from sgmcmc.laplace.tuning import Drawn, Tuning
from sgmcmc.laplace.wide import Wide, part_of

PROBES, QUANTILES = 100, 500


class Noise(NamedTuple):
    """The variance of the noise for minibatches of one observation, in the coordinates of the chain."""

    elements: np.ndarray  # [D]
    directions: np.ndarray  # along the directions of the curvature, [K]


def noise_of_elements(
    posterior: Posterior,
    centred: bool,
    centre: np.ndarray,
    curvature: Wide,
    sd: float,
    seed: int,
    probabilities: np.ndarray | None = None,
) -> Noise:
    """The noise at draws `sd` times as wide, of gradients or, if `centred`, differences to those at the centre."""
    some, white, model = part_of(posterior, seed), curvature.whitening, posterior.model

    def signed(words: tf.Tensor, theta: tf.Tensor, centre: tf.Tensor, signs: tf.Tensor) -> list[tf.Tensor]:
        data = some.data.layout.unpack(words)

        def gradient(at: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(at)
                value = tf.reduce_sum(signs * model.log_lik_terms(some.split(at), data))
            return tape.gradient(value, at, unconnected_gradients="zero")

        found = gradient(theta) - gradient(centre) if centred else gradient(theta)
        return [tf.cast(found, tf.float64)]

    rng, sums = np.random.default_rng(seed), FullPass(some.data, signed)
    indices = getattr(some.data, "indices", slice(None))
    weights = 1.0 if probabilities is None else (model.data.size * probabilities[indices]) ** -0.5
    elements, directions = np.zeros(posterior.size), np.zeros(len(curvature.values))
    for _ in range(PROBES):
        theta = centre + white.to_theta(sd * rng.normal(size=posterior.size))
        signs = rng.choice([-1.0, 1.0], size=some.data.size) * weights
        given = [tf.constant(x, model.dtype) for x in (theta, centre)]
        (total,) = sums.summed(given, of_each=[signs.astype(model.dtype.as_numpy_dtype)])
        t = white.of_gradient(total)
        elements += t**2 / PROBES
        directions += (t @ curvature.vectors) ** 2 / PROBES
    posterior.passes.count("terms", PROBES * some.data.size)
    factor = model.data.size**2 / some.data.size
    return Noise(factor * elements, factor * directions)


def tuned_wide(
    curvature: Wide, noise: Noise, dynamics: Dynamics, drawn: Drawn, tolerance: float, heat: float = 1.0
) -> Tuning:
    """The tuning of chains in the coordinates of this curvature.

    The prediction is for the elements, and for the directions of the curvature. It treats each as an independent
    direction, of the precision 1 in these coordinates; and it has the largest and the smallest of the other precisions.
    A thermostat makes directions depend on each other, by a mean over all. So the elements are in the search for the
    stepsize by quantiles of their noise.
    """
    shares = curvature.vectors**2
    slowing = None
    if dynamics.along is not None:  # as in `directions`
        slowing = _with_largest(noise.elements)
        noise = Noise(
            heat * dynamics.along(noise.elements, noise.elements),
            heat * dynamics.along(noise.directions, noise.elements @ shares),
        )
    precision = np.append(np.ones(QUANTILES), [1.0, curvature.low, curvature.high])
    all_noise = np.append(noise.elements, noise.directions)
    typical = Directions(precision, _with_largest(noise.elements, all_noise.max()), np.empty((0, 0)), slowing=slowing)
    drawn, chosen, pays = drawn.chosen(dynamics, typical, tolerance)

    of_all = drawn.share() * all_noise
    where = Directions(np.ones_like(of_all), of_all, np.empty((0, 0)))
    of_elements, of_directions = np.split(predicted(dynamics, where, chosen.stepsize).ratios, [len(noise.elements)])
    # The variance of an element is that of its direction, but for its parts along the directions of the curvature.
    of_posterior = 1 + shares @ (1 / curvature.values - 1)
    of_chain = of_elements**2 * (1 - shares.sum(axis=1)) + shares @ (of_directions**2 / curvature.values)
    found = np.sqrt(of_chain / of_posterior)
    return Tuning(chosen.stepsize, chosen.error, chosen.iterations, pays, found * curvature.sds, found, {})


def _with_largest(noise: np.ndarray, largest: float | None = None) -> np.ndarray:
    """Quantiles, and the largest three times."""
    most = noise.max() if largest is None else largest
    return np.append(np.quantile(noise, np.linspace(0, 1, QUANTILES)), [most] * 3)
