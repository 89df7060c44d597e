"""What all parts of a product know of an iteration: its number, its random numbers and its stepsizes.

An iteration makes L leaps, each with its own gradient. Gradients are counted through all
iterations, and their number is the counter of their random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.parameters import Elements
from sgmcmc.core.random import Purpose, Stream
from sgmcmc.core.schedules import Schedule, exploring, stepsizes_at
from sgmcmc.core.streams import key_of
from sgmcmc.core.types import Part, Tree


class Iterations(NamedTuple):
    """The iterations of C chains.

    Parameters
    ----------
    elements : mapping of str to Elements
    schedules : mapping of str to Schedule
        The stepsizes that change.
    dtype : tf.DType
    n_chains : int
    n_batches : int
        How many minibatches a gradient takes: one for each chain, or 1 if they share it.
    leaps : int
    """

    elements: Mapping[str, Elements]
    schedules: Mapping[str, Schedule]
    dtype: tf.DType
    n_chains: int
    n_batches: int
    leaps: int

    def stream(self, constants: Tree, purpose: Purpose) -> Stream:
        """The random numbers of all chains, or of all minibatches."""
        of_batches = purpose in (Purpose.MINIBATCH, Purpose.MONITOR)
        return Stream(key_of(constants, purpose)[: self.n_batches if of_batches else self.n_chains])

    def counter(self, iteration: tf.Tensor, leap: Part = 0) -> tf.Tensor:
        """The number of a gradient."""
        return iteration * tf.constant(self.leaps, tf.uint32) + tf.cast(leap, tf.uint32)

    def counters(self, iterations: tf.Tensor, leaps: int) -> tf.Tensor:
        """The numbers of the first gradients of each iteration, [K l]."""
        return tf.reshape(self.counter(iterations[:, None], tf.range(leaps)), [-1])

    def stepsizes(self, constants: Tree, iteration: tf.Tensor) -> Tree:
        """The stepsize of each parameter, {name: [C]}."""
        return stepsizes_at(constants["stepsize"], self.schedules, list(self.elements), iteration)

    def exploring(self, iteration: tf.Tensor) -> Tree:
        """For the parameters whose schedule explores, 1 while no noise is added, and else 0."""
        at = tf.cast(iteration, self.dtype)
        return {name: tf.cast(eps.exploring(at), self.dtype) for name, eps in exploring(self.schedules).items()}
