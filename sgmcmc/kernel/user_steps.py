"""Kernels with a user's step: a whole transition, or a Gibbs step after each iteration.

A step that draws parameters from their full conditional leaves the posterior invariant (thesis section 4.7; Chen, Fox &
Guestrin 2014, for the precisions of a network's weights).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core.chains import finite_chains, one_by_one, over_chains
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics, Given
from sgmcmc.kernel import IterationInputs, Kernel, State, Transition
from sgmcmc.kernel.estimation import MINIBATCH
from sgmcmc.kernel.inputs import Normals, Observations, Seeds, data_of_chains, drawn_by
from sgmcmc.kernel.iterations import LOG_DENSITY, Iterations, of_schedules
from sgmcmc.kernel.movement import NOISE
from sgmcmc.minibatch import Minibatch
from sgmcmc.model import Batch


class TransitionState(NamedTuple):
    """Every leaf has a leading chain axis [C, ...]."""

    params: Tree
    memory: Any
    log_density: tf.Tensor


def build_transition(transition: Transition, minibatch: Minibatch, iterations: Iterations) -> Kernel:
    n_chains, elements = iterations.n_chains, iterations.elements
    observations = Observations(iterations, minibatch, MINIBATCH, Purpose.MINIBATCH)
    normals = Normals(iterations, elements if transition.wants_noise else {}, NOISE, Purpose.NOISE, 1)
    random_seeds = Seeds("seed", Purpose.LATENT)
    initial = Normals(iterations, elements, "initial", Purpose.INITIAL, 1)

    def init(constants: Tree, params: Tree) -> TransitionState:
        first = tf.constant(0, tf.uint32)
        eps, z = iterations.stepsizes(constants, first), initial.split(initial.drawn(constants, first[None])[0])
        memory = over_chains(lambda params, *given: transition.init(params, Given(*given)), n_chains)(params, eps, z)
        return TransitionState(params, memory, iterations.unknown)

    def step(constants: Tree, state: TransitionState, inputs: IterationInputs) -> TransitionState:
        def of_one(batch: Batch, params: Tree, memory: Any, given: Tree) -> tuple:
            return transition.step(params, memory, batch, Given(**given))

        def one_after_the_other(fn: Callable, n_chains: int) -> Callable:
            specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), tuple(state))
            return one_by_one(fn, n_chains, specs)

        eps, z = iterations.stepsizes(constants, inputs.iteration), normals.of(inputs)
        given = {"eps": eps, "noise": z, "seed": random_seeds.of(inputs)}
        each = over_chains if transition.vectorized else one_after_the_other
        mapped = observations.over_chains(of_one, constants, each)
        return TransitionState(*mapped(*observations.of(inputs), state.params, state.memory, given))

    def stats(constants: Tree, state: TransitionState, iteration: tf.Tensor) -> Tree:
        last = iteration - tf.constant(1, tf.uint32)
        own = {} if transition.stats is None else over_chains(transition.stats, n_chains)(state.memory)
        return {LOG_DENSITY: state.log_density} | of_schedules(iterations, constants, last) | own

    def finite(state: TransitionState) -> Tree:
        return {name: finite_chains(theta) for name, theta in state.params.items()}

    return Kernel(init, drawn_by(observations, normals, random_seeds), step, finite, stats)


Update = Callable[[Tree, Tree, tf.Tensor], Tree]


class GibbsStep(NamedTuple):
    """``update(params, data, seed) -> {name: tensor}`` for one chain."""

    update: Update
    moves: frozenset[str]  # the names that it returns


def not_moved() -> Dynamics:
    return Dynamics(lambda theta, memory, given: (theta, memory), noises=0)


def with_gibbs(kernel: Kernel, gibbs: GibbsStep, n_chains: int) -> Kernel:
    """The kernel with the step after each of its iterations, on the minibatch of the last gradient."""
    random_seeds = Seeds("gibbs", Purpose.GIBBS)

    def step(constants: Tree, state: State, inputs: IterationInputs) -> State:
        state = kernel.step(constants, state, inputs)
        params, data = kernel.params(state), data_of_chains(inputs, MINIBATCH, n_chains, kernel.leaps - 1)
        specs = {name: tf.TensorSpec(params[name].shape[1:], params[name].dtype) for name in gibbs.moves}
        new = one_by_one(gibbs.update, n_chains, specs)(params, data, random_seeds.of(inputs))
        return kernel.with_params(state, params | new)

    return kernel._replace(draw_inputs=drawn_by(kernel, random_seeds), step=step)
