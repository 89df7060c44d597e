"""The statistics that are recorded with a draw."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.schedules import exploring
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics, Given, Memory
from sgmcmc.kernel.iterations import Iterations

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
    eps, n_chains = iterations.stepsizes(constants, last), iterations.n_chains
    by_name: dict[str, Tree] = {}
    for name in iterations.elements:
        if (stats := dynamics[name].stats) is not None:
            of_chains = over_chains(lambda memory, eps, stats=stats: stats(memory, Given(eps)), n_chains)
            for key, value in of_chains(memory[name], eps[name]).items():
                by_name.setdefault(key, {})[name] = value
    if now := iterations.exploring(last):
        by_name[EXPLORING] = {name: tf.fill([n_chains], is_exploring) for name, is_exploring in now.items()}
    without = iterations.unknown  # for parameters without this statistic
    each = {
        key: tf.stack([of.get(name, without) for name in iterations.elements], axis=1) for key, of in by_name.items()
    }
    return each | of_schedules(iterations, constants, last)


def of_schedules(iterations: Iterations, constants: Tree, last: tf.Tensor) -> Tree:
    """The stepsizes of iteration `last`, if any of them changes, {name: [C, P]}."""
    if not iterations.schedules:
        return {}
    eps = iterations.stepsizes(constants, last)
    return {STEPSIZE: tf.stack([eps[name] for name in iterations.elements], axis=1)}
