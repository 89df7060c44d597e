"""The conditional distributions of a Dirichlet process mixture: assignments, sticks and components.

    w_j = v_j (1 - v_1) ... (1 - v_{j-1}),   v_j | alpha ~ Beta(1, alpha)

A stick v_j is stored as the logarithms of two Gamma draws, [C, K, 2]: it is the first
divided by their sum. In the prior they are Gamma(1) and Gamma(alpha). Given the assignments
z of all observations, of which m_j are in component j,

    v_j | z, alpha ~ Beta(1 + m_j, alpha + sum_{l > j} m_l).

The concentration has the prior Gamma(b1, rate b2). Let Z* be the last component that has
observations. The assignments do not depend on the sticks beyond it. With these sticks
integrated out, the density of alpha given z and v_1, ..., v_Z* is its prior times
prod_{j <= Z*} alpha (1 - v_j)^(alpha - 1):

    alpha | v_1, ..., v_Z*, z ~ Gamma(b1 + Z*, rate b2 - sum_{j <= Z*} log(1 - v_j)).

The sticks beyond Z* must then be redrawn, from their prior with the new alpha. Both
together are a draw of (alpha, v_{Z*+1}, v_{Z*+2}, ...) given z and v_1, ..., v_Z*.

Sticks and components are both stored as logarithms of Gamma draws. Divided by their sum, the
draws of a component, or the pair of a stick, have a Dirichlet distribution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.random import Purpose, Stream, keys
from sgmcmc.core.trees import Tree
from sgmcmc.simplex import Numbers, Rule, expected_counts

CATEGORIES, COUNTS = "categories", "counts"  # of an observation, [longest] each, padded with counts of 0


def log_likelihoods(log_theta: tf.Tensor, data: Tree) -> tf.Tensor:
    """sum_l x_il log theta_jl for each observation and component, [C, n, K], from log_theta [C, K, d].

    Only the categories that an observation has are used.
    """
    of_entries = tf.gather(tf.transpose(log_theta, [0, 2, 1]), data[CATEGORIES], batch_dims=1)  # [C, n, longest, K]
    return tf.reduce_sum(tf.cast(data[COUNTS], log_theta.dtype)[..., None] * of_entries, axis=2)


def chosen(logits: tf.Tensor, allowed: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """One of the allowed components, with probabilities proportional to exp(logits): int32 [C, n].

    By inversion, from logits and flags [C, n, K] and uniforms on (0, 1], [C, n]. At least one must be allowed.
    """
    logits = tf.where(allowed, logits, tf.constant(float("-inf"), logits.dtype))
    mass = tf.exp(logits - tf.reduce_max(logits, axis=2, keepdims=True))
    n_components = mass.shape[2]
    running = tf.matmul(mass, tf.linalg.band_part(tf.ones([n_components, n_components], mass.dtype), 0, -1))
    # Despite rounding, a component with positive mass is chosen.
    reached = (running >= uniforms[:, :, None] * tf.reduce_max(running, axis=2, keepdims=True)) & (mass > 0)
    first = tf.argmax(tf.cast(reached, tf.int32), axis=2, output_type=tf.int32)
    largest = tf.argmax(mass, axis=2, output_type=tf.int32)
    return tf.where(tf.reduce_any(reached, axis=2), first, largest)


def added(
    sizes: tf.Tensor, counts: tf.Tensor, assignments: tf.Tensor, data: Tree, sign: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sizes [C, K] and counts [C, K, d] plus sign times those of a minibatch."""
    n_chains, n_components, n_categories = counts.shape
    place = tf.range(n_chains)[:, None] * n_components + assignments  # [C, n], of all components of all chains
    cells = place[:, :, None] * n_categories + data[CATEGORIES]
    ones = tf.fill([tf.size(place)], sign)
    return _added(sizes, place, ones), _added(counts, cells, sign * tf.reshape(data[COUNTS], [-1]))


def _added(totals: tf.Tensor, places: tf.Tensor, terms: tf.Tensor) -> tf.Tensor:
    flat = tf.tensor_scatter_nd_add(tf.reshape(totals, [-1]), tf.reshape(places, [-1, 1]), terms)
    return tf.reshape(flat, totals.shape)


def last_occupied(sizes: tf.Tensor) -> tf.Tensor:
    """Z*, counted from 1, [C], from the sizes of the components, [C, K]."""
    return tf.reduce_max(tf.where(sizes > 0, tf.range(1, sizes.shape[1] + 1), 0), axis=1)


def counts_of_sticks(sizes: tf.Tensor) -> tf.Tensor:
    """What the data add to the shapes (1, alpha): m_j and sum_{l > j} m_l, [C, K, 2]."""
    return tf.stack([sizes, tf.cumsum(sizes, axis=1, exclusive=True, reverse=True)], axis=2)


def prior_of_sticks(alpha: tf.Tensor, n_components: int) -> tf.Tensor:
    """The shapes (1, alpha), [C, K, 2], for alpha [C]."""
    shapes = tf.stack([tf.ones_like(alpha), alpha], axis=1)
    return tf.tile(shapes[:, None], [1, n_components, 1])


def log_rests(sticks: tf.Tensor) -> tf.Tensor:
    """log(1 - v_j), [C, K]."""
    return -tf.math.softplus(sticks[..., 0] - sticks[..., 1])


def log_weights(sticks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """log w_j, [C, K], and the logarithm of the weight of all components beyond the K, [C]."""
    rests = log_rests(sticks)
    of_stick = -tf.math.softplus(sticks[..., 1] - sticks[..., 0])
    return of_stick + tf.cumsum(rests, axis=-1, exclusive=True), tf.reduce_sum(rests, axis=-1)


def concentration(sticks: tf.Tensor, last: tf.Tensor, prior: tuple[float, float]) -> tuple[tf.Tensor, tf.Tensor]:
    """The shape and the rate of alpha, [C] each, given the sticks up to the last occupied component."""
    b1, b2 = prior
    upto = tf.range(sticks.shape[1]) < last[:, None]
    rests = tf.where(upto, log_rests(sticks), tf.zeros([], sticks.dtype))
    return b1 + tf.cast(last, sticks.dtype), b2 - tf.reduce_sum(rests, axis=1)


class Both(NamedTuple):
    """An array for the sticks, [C, K, 2], and one for the components, [C, K, d]."""

    sticks: tf.Tensor
    theta: tf.Tensor


def drawn(stream: Stream, iteration: tf.Tensor, shapes: Both) -> Both:
    flat = _joined(shapes)
    return _split(Numbers(stream, iteration, tf.range(flat.shape[1])).log_gamma(flat), shapes)


def moved_by(
    rule: Rule, stream: Stream, iteration: tf.Tensor, at: Both, prior: Both, counts: Both, h: Both, last: tf.Tensor
) -> Both:
    """One step of a rule; components beyond the last occupied one are drawn from the prior.

    Both use the same random numbers, but for each component only one result is kept.
    """
    theta = tf.nest.map_structure(tf.exp, at)
    # By softmax: a whole component may be too small for a float.
    expected = tf.nest.map_structure(lambda x, count: expected_counts(tf.nn.softmax(x), count), at, counts)
    steps = tf.nest.map_structure(lambda step, x: tf.broadcast_to(step, x.shape), h, prior)
    flat = [_joined(x) for x in (theta, prior, counts, expected, steps)]
    by_rule = _split(rule.step(Numbers(stream, iteration, tf.range(flat[0].shape[1])), *flat), prior)
    anew = drawn(stream, iteration, prior)
    return tf.nest.map_structure(lambda x, y: tf.where(upto(last, x), x, y), by_rule, anew)


def scaled(rule: Rule, at: Both, prior: Both, counts: Both) -> Both:
    """The same sticks and components, rescaled to the sums at which a chain of this rule begins."""

    def of_one(x: tf.Tensor, a: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        return tf.nn.log_softmax(x) + tf.math.log(rule.total(a, tf.reduce_sum(count, axis=-1)))[..., None]

    return tf.nest.map_structure(of_one, at, prior, counts)


def _joined(both: Both) -> tf.Tensor:
    return tf.concat([tf.reshape(x, [x.shape[0], -1]) for x in both], axis=1)


def _split(flat: tf.Tensor, like: Both) -> Both:
    parts = tf.split(flat, [math.prod(x.shape[1:]) for x in like], axis=1)
    return Both(*(tf.reshape(part, x.shape) for part, x in zip(parts, like, strict=True)))


def upto(last: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Which components are up to the last occupied one, [C, K, 1]."""
    return (tf.range(like.shape[1]) < last[:, None])[:, :, None]


def at_random(seed: int, chains: range, n_data: int, n_components: int) -> np.ndarray:
    stream = Stream(keys(seed, Purpose.START, chains))
    return stream.integers(tf.zeros([1], tf.uint32), tf.range(n_data), n_components)[0].numpy()


def counted(
    assignments: np.ndarray, categories: np.ndarray, counts: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Sizes [C, K] and category counts [C, K, d], from assignments [C, N] and rows [N, longest]; all int32."""
    n_components, n_categories = shape
    sizes = np.stack([np.bincount(z, minlength=n_components) for z in assignments])
    cells = assignments[:, :, None] * n_categories + categories
    tables = [np.bincount(c.ravel(), counts.ravel(), n_components * n_categories) for c in cells]
    return sizes.astype(np.int32), np.stack(tables).reshape(-1, *shape).astype(np.int32)
