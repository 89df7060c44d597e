"""Curvature and stepsize of a posterior with many elements, from Hessian-vector products.

With S = diag(-H)^(-1/2), R = S (-H) S has a unit diagonal. In a regular posterior, such as that of a generalised linear
model, nearly all its eigenvalues are near 1, and are taken as 1. Lanczos iterations at both ends of the spectrum find
the exceptions, such as the direction that an intercept shares with the effects of all categories.

The diagonal is the mean of z_i (H z)_i over random signs z, after the leading directions of H are deflated (Meyer,
Musco, Musco & Woodruff 2021). The gradient noise is that of sums of r_i t_i over all observations with random signs
r_i, since their covariance is sum_i t_i t_i^T; it has an error of several percent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.progress import Progress
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.dataset.subset import largest_subset, random_subset
from sgmcmc.dynamics import Dynamics
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.stepsize import Directions, MinibatchSampling, Tuning, predicted
from sgmcmc.laplace.whitening import Whitening

OBSERVATIONS = 10**7  # in one pass, at most
PROBES = ((16, 0), (16, 16), (64, 16))  # rounds for the diagonal: random signs, and deflated directions
POWERS = 2  # products for each deflated direction, plus one
SHRINKS = 16.0  # the largest factor by which a round changes an element of the diagonal
NEAR_ONE = 2.0  # eigenvalues of R between 1 / NEAR_ONE and NEAR_ONE count as 1
RANK, MOST = 16, 64  # directions sought at once, half of them at each end; the most that are kept
PRECISE, STEPS = 1e-2, 100  # the relative error of an eigenvalue; Lanczos restarts, or conjugate gradient steps
FLAT = 100  # machine epsilons: smaller eigenvalues of R count as 0
SOLVES, SOLVED = 32, 1e-2  # linear systems for the sds, and the relative error of a solution

Product = Callable[[np.ndarray], np.ndarray]


class LowRankCurvature(NamedTuple):
    """An approximation of -H = S^-1 R S^-1."""

    scale: np.ndarray  # the diagonal of S, [D]
    vectors: np.ndarray  # the eigenvectors of R that were found, [D, K]
    values: np.ndarray  # their eigenvalues, [K]
    low: float  # bounds of the other eigenvalues
    high: float
    sds: np.ndarray  # of the elements under a normal posterior, [D]

    @property
    def whitening(self) -> Whitening:
        """Coordinates in which the posterior is white along these directions, and nearly so along the others."""
        return _whitening(self.scale, self.values, self.vectors)


def low_rank_curvature(
    posterior: Posterior, theta: np.ndarray, diagonal: np.ndarray, seed: int, verbose: bool
) -> LowRankCurvature:
    """The curvature at theta, from a rough diagonal, [D]; the sds are NaN if it is not positive in all directions."""
    some, rng = part_of(posterior, seed), np.random.default_rng(seed)
    expected = sum(signs + (POWERS + 1) * taken for signs, taken in PROBES) + 16 * RANK + 8 * SOLVES
    with Progress(expected, "Finding the curvature", "product", verbose) as progress:
        done = 0

        def product(vector: np.ndarray) -> np.ndarray:
            nonlocal done
            done += 1
            progress.reached(min(done, expected))
            return -some.hessian_product(theta, np.ravel(vector))

        scale = _refined_scale(product, 1 / np.sqrt(np.maximum(diagonal, np.finfo(float).tiny)), rng)
        values, vectors, low, high = _extreme_eigenpairs(lambda x: scale * product(scale * x), scale.size, rng)
        white, flat = _whitening(scale, values, vectors), FLAT * np.finfo(posterior.model.dtype.as_numpy_dtype).eps
        is_peak = min([low, *values]) > flat
        sds = _sds(white, product, rng) if is_peak else np.full_like(scale, np.nan)
    return LowRankCurvature(scale, vectors, values, low, high, sds)


def part_of(posterior: Posterior, seed: int) -> Posterior:
    return posterior.of(random_subset(posterior.data, min(OBSERVATIONS, largest_subset(posterior.data)), seed))


def _refined_scale(product: Product, scale: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The square roots of 1 / diag(-H), refined in rounds from rough ones."""
    for signs, taken in PROBES:

        def times_r(x: np.ndarray, scale: np.ndarray = scale) -> np.ndarray:
            return scale * product(scale * x)

        largest = rng.normal(size=(scale.size, taken))
        for _ in range(POWERS if taken else 0):
            largest = np.linalg.qr(np.stack([times_r(x) for x in largest.T], axis=1))[0]
        diagonal = sum((x * times_r(x) for x in largest.T), np.zeros_like(scale))
        for _ in range(signs):
            z = rng.choice([-1.0, 1.0], size=scale.size)
            diagonal += z * times_r(z - largest @ (largest.T @ z)) / signs
        scale = scale / np.sqrt(np.clip(diagonal, 1 / SHRINKS, SHRINKS))
    return scale


def _extreme_eigenpairs(
    times_r: Product, d: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The eigenvalues of R that are not near 1, with their eigenvectors, and bounds on all others."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    values, vectors = np.empty(0), np.empty((d, 0))

    def times_rest(x: np.ndarray) -> np.ndarray:
        along = vectors @ (vectors.T @ x)
        rest = times_r(x - along)
        return rest - vectors @ (vectors.T @ rest) + along

    # Lanczos may miss one of several nearly equal eigenvalues, so those found are set to 1 and the search repeats.
    while True:
        operator = LinearOperator((d, d), matvec=lambda x: times_rest(np.ravel(x)), dtype=np.float64)
        given = {"k": min(RANK, d - 1), "tol": PRECISE, "maxiter": STEPS, "v0": rng.normal(size=d)}
        try:
            found, of_found = eigsh(operator, which="BE", **given)
        except ArpackNoConvergence as error:
            found, of_found = error.eigenvalues, error.eigenvectors
        far = (found < 1 / NEAR_ONE) | (found > NEAR_ONE)
        if not far.any() or len(values) + far.sum() > min(MOST, d - 2):
            return values, vectors, float(found.min(initial=1.0)), float(found.max(initial=1.0))
        values = np.append(values, found[far])
        vectors = np.linalg.qr(np.column_stack([vectors, of_found[:, far]]))[0]


def _whitening(scale: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> Whitening:
    with np.errstate(divide="ignore"):
        return Whitening(scale, int((values <= 0).sum()), vectors, np.abs(values) ** -0.5 - 1)


def _sds(white: Whitening, product: Product, rng: np.random.Generator) -> np.ndarray:
    """The square roots of the diagonal of (-H)^-1 = A A^T + A (P^-1 - 1) A^T, with P = A^T (-H) A near 1."""
    from scipy.sparse.linalg import LinearOperator, cg

    d = white.root.size
    operator = LinearOperator((d, d), matvec=lambda x: white.of_gradient(product(white.to_theta(np.ravel(x)))))
    assert white.vectors is not None and white.stretch is not None
    variances = white.root**2 * (1 + white.vectors**2 @ ((1 + white.stretch) ** 2 - 1))
    rest = np.zeros(d)  # the second term, estimated with random signs z by solving P x = z
    for _ in range(SOLVES):
        z = rng.choice([-1.0, 1.0], size=d)
        x, _ = cg(operator, z, rtol=SOLVED, maxiter=STEPS)
        rest += white.to_theta(x - z) * white.to_theta(z) / SOLVES
    return np.sqrt(np.maximum(variances + rest, variances / SHRINKS))


NOISE_PROBES, QUANTILES = 100, 500


class Noise(NamedTuple):
    """The variance of the gradient noise of one observation, in the coordinates of the chain."""

    elements: np.ndarray  # [D]
    directions: np.ndarray  # along the directions of the curvature, [K]


def noise_of_elements(
    posterior: Posterior,
    centred: bool,
    centre: np.ndarray,
    curvature: LowRankCurvature,
    sd: float,
    seed: int,
    probabilities: np.ndarray | None,
) -> Noise:
    """The noise, at draws `sd` times as wide, of gradients or, if `centred`, of their differences from the centre's."""
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
    for _ in range(NOISE_PROBES):
        theta = centre + white.to_theta(sd * rng.normal(size=posterior.size))
        signs = rng.choice([-1.0, 1.0], size=some.data.size) * weights
        given = [tf.constant(x, model.dtype) for x in (theta, centre)]
        (total,) = sums.summed(given, of_each=[signs.astype(model.dtype.as_numpy_dtype)])
        t = white.of_gradient(total)
        elements += t**2 / NOISE_PROBES
        directions += (t @ curvature.vectors) ** 2 / NOISE_PROBES
    posterior.passes.count("terms", NOISE_PROBES * some.data.size)
    factor = model.data.size**2 / some.data.size
    return Noise(factor * elements, factor * directions)


def tuned_low_rank(
    curvature: LowRankCurvature,
    noise: Noise,
    dynamics: Dynamics,
    drawn: MinibatchSampling,
    tolerance: float,
    heat: float,
) -> Tuning:
    """The tuning of chains in the coordinates of this curvature.

    The prediction treats each element and each direction of the curvature as an independent direction with precision 1
    in these coordinates, and includes the largest and the smallest of the other precisions. A thermostat couples the
    directions through their mean, so the search for the stepsize represents the elements by quantiles of their noise.
    """
    shares, slowing = curvature.vectors**2, None
    if dynamics.along is not None:  # as in `directions`
        slowing = _with_largest(noise.elements)
        of_directions = dynamics.along(noise.directions, noise.elements @ shares)
        noise = Noise(heat * dynamics.along(noise.elements, noise.elements), heat * of_directions)
    precision = np.append(np.ones(QUANTILES), [1.0, curvature.low, curvature.high])
    all_noise = np.append(noise.elements, noise.directions)
    typical = Directions(precision, _with_largest(noise.elements, all_noise.max()), np.empty((0, 0)), slowing=slowing)
    drawn, chosen, efficient = drawn.chosen(dynamics, typical, tolerance)
    of_all = drawn.share() * all_noise
    where = Directions(np.ones_like(of_all), of_all, np.empty((0, 0)))
    of_elements, of_directions = np.split(predicted(dynamics, where, chosen.stepsize).ratios, [len(noise.elements)])
    # The variance of an element is that of its own direction, except for its parts along those of the curvature.
    of_posterior = 1 + shares @ (1 / curvature.values - 1)
    of_chain = of_elements**2 * (1 - shares.sum(axis=1)) + shares @ (of_directions**2 / curvature.values)
    ratios = np.sqrt(of_chain / of_posterior)
    sds = ratios * curvature.sds
    return Tuning(chosen.stepsize, chosen.error, chosen.iterations, efficient, sds, ratios, {})


def _with_largest(noise: np.ndarray, largest: float | None = None) -> np.ndarray:
    """Quantiles of the noise, and the largest value three times."""
    most = noise.max() if largest is None else largest
    return np.append(np.quantile(noise, np.linspace(0, 1, QUANTILES)), [most] * 3)
