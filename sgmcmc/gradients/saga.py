"""SAGA (Defazio, Bach & Lacoste-Julien 2014; for sampling Dubey et al. 2016).

A table holds the last computed gradient alpha_i of each observation. For a minibatch S with weights w_i the estimate is

    grad log p(theta) + sum_{i in S} w_i (grad log p(x_i | theta) - alpha_i) + sum of all alpha_i

Then alpha_i becomes grad log p(x_i | theta) for the i in S. The table begins with the gradients at the start of the
chains.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import Elements, Tree, joined, split
from sgmcmc.dataset import derivative_block
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.gradients import FIRST, Estimate, Gradient
from sgmcmc.gradients.control_variates import differences
from sgmcmc.model import Batch, Mode, Model

TABLE, SUM = "table", "sum"  # of each chain, [N, D] and [D]


def saga(model: Model, elements: Mapping[str, Elements], repeats: bool) -> Gradient:
    # `repeats`: whether a minibatch may hold an observation twice
    n_data, size = model.data.size, sum(e.size for e in elements.values())

    def prepare(begin: Mode, verbose: bool) -> Tree:
        table = np.empty([n_data, size], model.dtype.as_numpy_dtype)

        def gradients(words: tf.Tensor, flat: tf.Tensor) -> list[tf.Tensor]:
            return [joined(model.term_gradients(split(flat, elements), model.data.layout.unpack(words)))]

        blocks, start = FullPass(model.data, gradients, derivative_block(model.data, size)), 0
        flat = joined({name: theta[None] for name, theta in begin.params.items()})[0]
        for (block,) in blocks([flat], f"Table of gradients, {table.nbytes / 1e6:.0f} MB a chain", verbose):
            table[start : start + block.shape[0]] = block.numpy()
            start += block.shape[0]
        total = tf.constant(table.sum(axis=0, dtype=np.float64))
        return {FIRST: {TABLE: tf.constant(table), SUM: total}, "centre": begin.params}

    def init(params: Tree, constants: Tree) -> Tree:
        return {SUM: tf.identity(constants[FIRST][SUM]) if FIRST in constants else tf.zeros([size], tf.float64)}

    def estimate(params: Tree, batch: Batch, constants: Tree, memory: Tree) -> Estimate:
        terms = joined(model.term_gradients(params, batch.data))  # [n, D]
        change = terms - memory[TABLE]
        if isinstance(batch.weights, float):
            of_data = batch.weights * tf.reduce_sum(change, axis=0)
        else:
            of_data = tf.linalg.matvec(change, batch.weights, transpose_a=True)
        of_data = split(of_data + tf.cast(memory[SUM], model.dtype), elements)
        prior = model.prior_gradient(params)
        # The difference is in float64, so that the sum stays that of the table in long chains.
        exact = tf.cast(terms, tf.float64) - tf.cast(memory[TABLE], tf.float64)
        total = memory[SUM] + tf.reduce_sum(_once(exact, batch.indices) if repeats else exact, axis=0)
        value = model.log_density(params, batch)
        return Estimate(value, {name: prior[name] + of_data[name] for name in params}, {TABLE: terms, SUM: total})

    terms = differences(model, lambda data, memory: split(memory[TABLE], elements))
    return Gradient(estimate, prepare, init, tables={TABLE: size}, terms=terms, centred=True, has_own_reference=True)


def _once(change: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """The changes [n, D], sorted by observation, with zeros for repeated ones."""
    order = tf.argsort(indices)
    sorted_ = tf.gather(indices, order)
    first = tf.concat([tf.ones([1], tf.bool), sorted_[1:] != sorted_[:-1]], axis=0)
    return tf.where(first[:, None], tf.gather(change, order), tf.zeros_like(change))
