"""Kernels with a user's step: a whole transition, or a Gibbs step after each iteration.

A step that draws parameters from their full conditional leaves the posterior invariant
(thesis section 4.7; Chen, Fox & Guestrin 2014, for the precisions of a network's
weights).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core.chains import finite_chains, one_by_one, over_chains
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics, Given
from sgmcmc.kernel import Kernel, State, Supplied, Supply, Transition
from sgmcmc.kernel.estimation import MINIBATCH
from sgmcmc.kernel.iterations import Iterations
from sgmcmc.kernel.movement import NOISE
from sgmcmc.kernel.statistics import LOG_DENSITY, of_schedules
from sgmcmc.kernel.supplies import Normals, Observations, Seeds, together
from sgmcmc.minibatch import Minibatch
from sgmcmc.model import Batch


class OwnState(NamedTuple):
    """Every leaf has a leading chain axis [C, ...]."""

    params: Tree
    memory: Any
    log_density: tf.Tensor


def build_transition(transition: Transition, minibatch: Minibatch, iterations: Iterations) -> Kernel:
    """The kernel of this transition."""
    n_chains, elements = iterations.n_chains, iterations.elements
    observations = Observations(iterations, minibatch, MINIBATCH, Purpose.MINIBATCH)
    normals = Normals(iterations, elements if transition.wants_noise else {}, NOISE, Purpose.NOISE, 1)
    random_seeds = Seeds("seed", Purpose.LATENT)
    initial = Normals(iterations, elements, "initial", Purpose.INITIAL, 1)

    def supply(constants: Tree, numbers: tf.Tensor) -> Supply:
        return together(part.supply(constants, numbers) for part in (observations, normals, random_seeds))

    def init(constants: Tree, params: Tree) -> OwnState:
        first = tf.constant(0, tf.uint32)
        eps, z = iterations.stepsizes(constants, first), initial.split(initial.drawn(constants, first[None])[0])
        memory = over_chains(lambda params, *given: transition.init(params, Given(*given)), n_chains)(params, eps, z)
        return OwnState(params, memory, iterations.unknown)

    def step(constants: Tree, state: OwnState, supplied: Supplied) -> OwnState:
        def of_one(batch: Batch, params: Tree, memory: Any, given: Tree) -> tuple:
            return transition.step(params, memory, batch, Given(**given))

        def one_after_the_other(fn: Callable, n_chains: int) -> Callable:
            specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), tuple(state))
            return one_by_one(fn, n_chains, specs)

        eps, z = iterations.stepsizes(constants, supplied.iteration), normals.of(supplied)
        given = {"eps": eps, "noise": z, "seed": random_seeds.of(supplied)}
        each = over_chains if transition.vectorized else one_after_the_other
        mapped = observations.over_chains(of_one, constants, each)
        return OwnState(*mapped(*observations.of(supplied), state.params, state.memory, given))

    def stats(constants: Tree, state: OwnState, iteration: tf.Tensor) -> Tree:
        last = iteration - tf.constant(1, tf.uint32)
        own = {} if transition.stats is None else over_chains(transition.stats, n_chains)(state.memory)
        return {LOG_DENSITY: state.log_density} | of_schedules(iterations, constants, last) | own

    return Kernel(
        init=init,
        supply=supply,
        step=step,
        finite=lambda state: {name: finite_chains(theta) for name, theta in state.params.items()},
        stats=stats,
    )


Update = Callable[[Tree, Tree, tf.Tensor], Tree]


class GibbsStep(NamedTuple):
    """``update(params, data, seed) -> {name: tensor}`` for one chain.

    `moves` are the names that it returns.
    """

    update: Update
    moves: frozenset[str]


def unmoved() -> Dynamics:
    """The dynamics of parameters that no gradient moves."""
    return Dynamics(lambda theta, memory, given: (theta, memory), noises=0)


def then(kernel: Kernel, gibbs: GibbsStep, n_chains: int) -> Kernel:
    """The kernel with the step after each of its iterations, on the minibatch of the last gradient."""
    random_seeds = Seeds("gibbs", Purpose.GIBBS)

    def supply(constants: Tree, iterations: tf.Tensor) -> Supply:
        return together((kernel.supply(constants, iterations), random_seeds.supply(constants, iterations)))

    def step(constants: Tree, state: State, supplied: Supplied) -> State:
        state = kernel.step(constants, state, supplied)
        params, data = kernel.params(state), supplied.data(MINIBATCH, kernel.leaps - 1)

        data = {name: tf.broadcast_to(x, [n_chains, *x.shape[1:]]) for name, x in data.items()}
        specs = {name: tf.TensorSpec(params[name].shape[1:], params[name].dtype) for name in gibbs.moves}
        new = one_by_one(gibbs.update, n_chains, specs)(params, data, random_seeds.of(supplied))
        return kernel.with_params(state, params | new)

    return kernel._replace(supply=supply, step=step)
