"""What all parts of a kernel know about its iterations, and the statistics that are recorded after one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.random import OF_MINIBATCHES, Purpose, Stream, key_of, keys_of_chains
from sgmcmc.core.schedules import Schedule, exploring, fixed_stepsizes, stepsizes_at
from sgmcmc.core.trees import Elements, Tree, numbered
from sgmcmc.dynamics import Dynamics, Given, Memory
from sgmcmc.minibatch import Part

# Computed before the first iteration: those of the estimator, the counts of each row in all data, and the root A.
FOUND = ("estimator", "gathered", "minibatch", "preconditioner")


def constants(
    seed: int,
    stepsize: Mapping[str, float | Schedule],
    found: Tree,
    dtype: tf.DType,
    chains: range,
    shared_minibatch: bool = False,
) -> Tree:
    """The constants of a kernel, with those `found` before; a stepsize that changes is NaN here."""
    found = {key: found.get(key, {}) for key in FOUND}
    keys = keys_of_chains(seed, chains, shared_minibatch)
    return found | keys | {"stepsize": fixed_stepsizes(stepsize, len(chains), dtype)}


class Iterations(NamedTuple):
    """The iterations of C chains."""

    shapes: Mapping[str, tuple[int, ...]]  # of the parameters
    dtype: tf.DType
    schedules: Mapping[str, Schedule] = MappingProxyType({})  # the stepsizes that change
    n_chains: int = 1
    shared_minibatch: bool = False  # whether all chains use the same observations
    leaps: int = 1

    @property
    def elements(self) -> dict[str, Elements]:
        """The numbers of each parameter's elements, by which their random numbers are drawn."""
        return numbered(self.shapes)

    @property
    def n_batches(self) -> int:
        return 1 if self.shared_minibatch else self.n_chains

    @property
    def unknown(self) -> tf.Tensor:
        """NaN for each chain, [C], in place of a number that is not known yet."""
        return tf.fill([self.n_chains], tf.constant(np.nan, self.dtype))

    def stream(self, constants: Tree, purpose: Purpose) -> Stream:
        """The random numbers of all chains, or of all minibatches."""
        return Stream(key_of(constants, purpose)[: self.n_batches if purpose in OF_MINIBATCHES else self.n_chains])

    def counter(self, iteration: tf.Tensor, leap: Part = 0) -> tf.Tensor:
        return iteration * tf.constant(self.leaps, tf.uint32) + tf.cast(leap, tf.uint32)

    def counters(self, iterations: tf.Tensor, leaps: int) -> tf.Tensor:
        """The numbers of the first gradients of each iteration, [K l]."""
        return tf.reshape(self.counter(iterations[:, None], tf.range(leaps)), [-1])

    def stepsizes(self, constants: Tree, iteration: tf.Tensor) -> Tree:
        return stepsizes_at(constants["stepsize"], self.schedules, sorted(self.shapes), iteration)

    def exploring(self, iteration: tf.Tensor) -> Tree:
        """For the parameters whose schedule explores, 1 while no noise is added, and otherwise 0."""
        at = tf.cast(iteration, self.dtype)
        return {name: tf.cast(eps.exploring(at), self.dtype) for name, eps in exploring(self.schedules).items()}


LOG_DENSITY, STEPSIZE, EXPLORING = "lp", "step_size", "exploring"
LAST, ALL = "minibatch_size", "observations"  # in an iteration, and in all iterations so far
RESERVED = frozenset({LOG_DENSITY, STEPSIZE, EXPLORING, LAST, ALL})  # not available for a user's statistics


def of_dynamics(dynamics: Dynamics, shape: tuple[int, ...], dtype: tf.DType) -> frozenset[str]:
    """The names of the statistics of a dynamics, for a parameter of this shape."""
    if dynamics.stats is None:
        return frozenset()
    given = Given(tf.ones([], dtype), tf.zeros(shape, dtype))
    return frozenset(dynamics.stats(dynamics.init(given.noise, given), Given(given.eps)))


def count(iterations: Iterations, dynamics: Mapping[str, Dynamics], adaptive: bool) -> int:
    """The number of statistics of each draw of a chain: the log density and those of `recorded`."""
    shapes, dtype = iterations.shapes, iterations.dtype
    by_parameter = set().union(*(of_dynamics(one, shapes[name], dtype) for name, one in dynamics.items()))
    by_parameter |= {STEPSIZE} if iterations.schedules else set()
    by_parameter |= {EXPLORING} if exploring(iterations.schedules) else set()
    return 1 + (2 if adaptive else 0) + len(by_parameter) * len(shapes)


def recorded(
    iterations: Iterations,
    dynamics: Mapping[str, Dynamics],
    constants: Tree,
    memory: dict[str, Memory],
    last: tf.Tensor,
) -> Tree:
    """The statistics of P parameters after iteration `last`, {name: [C, P]}."""
    eps, n_chains, elements = iterations.stepsizes(constants, last), iterations.n_chains, iterations.elements
    by_name: dict[str, Tree] = {}
    for name in elements:
        if (stats := dynamics[name].stats) is not None:
            of_chains = over_chains(lambda memory, eps, stats=stats: stats(memory, Given(eps)), n_chains)
            for key, value in of_chains(memory[name], eps[name]).items():
                by_name.setdefault(key, {})[name] = value
    if now := iterations.exploring(last):
        by_name[EXPLORING] = {name: tf.fill([n_chains], is_exploring) for name, is_exploring in now.items()}
    without = iterations.unknown  # for parameters without this statistic
    each = {key: tf.stack([of.get(name, without) for name in elements], axis=1) for key, of in by_name.items()}
    return each | of_schedules(iterations, constants, last)


def of_schedules(iterations: Iterations, constants: Tree, last: tf.Tensor) -> Tree:
    """The stepsizes of iteration `last`, if any of them changes, {name: [C, P]}."""
    if not iterations.schedules:
        return {}
    eps = iterations.stepsizes(constants, last)
    return {STEPSIZE: tf.stack([eps[name] for name in iterations.elements], axis=1)}
