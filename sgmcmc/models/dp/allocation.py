"""The observations of a minibatch: likelihoods, assignments and counts."""

from __future__ import annotations

import tensorflow as tf

from sgmcmc.core.types import Tree

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
    # In spite of rounding, a component with positive mass is chosen.
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
    sizes_flat, flat = tf.reshape(sizes, [-1]), tf.reshape(counts, [-1])
    signs = tf.fill([tf.size(place)], sign)
    sizes_flat = tf.tensor_scatter_nd_add(sizes_flat, tf.reshape(place, [-1, 1]), signs)
    cells = place[:, :, None] * n_categories + data[CATEGORIES]
    flat = tf.tensor_scatter_nd_add(flat, tf.reshape(cells, [-1, 1]), sign * tf.reshape(data[COUNTS], [-1]))
    return tf.reshape(sizes_flat, sizes.shape), tf.reshape(flat, counts.shape)
