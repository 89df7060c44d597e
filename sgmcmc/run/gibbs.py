"""The user's own Gibbs step after each iteration of another transition.

If the step draws some parameters from their distribution given the others, the
posterior is unchanged (thesis section 4.7; Chen, Fox & Guestrin 2014, for the
precisions of a network's weights).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.random import Purpose, Stream
from sgmcmc.core.types import Dynamics, State, Supplied, Supply, Transition, Tree
from sgmcmc.kernel import MINIBATCH, key_of

SEED = "gibbs"  # the name of the random seeds of the step in the supply


class GibbsStep(NamedTuple):
    """``update(params, data, seed) -> {name: tensor}`` for one chain.

    `moves` are the names.
    """

    update: Callable[[Tree, Tree, tf.Tensor], Tree]
    moves: frozenset[str]


def at_rest() -> Dynamics:
    """The dynamics of parameters that no gradient moves."""
    return Dynamics(lambda theta, memory, given: (theta, memory), wants_noise=False)


def then(transition: Transition, gibbs: GibbsStep, n_chains: int) -> Transition:
    """The transition, and after each of its iterations the step, with the minibatch of the last gradient."""

    def supply(constants: Tree, iterations: tf.Tensor) -> Supply:
        supplied = transition.supply(constants, iterations)
        words = Stream(key_of(constants, Purpose.GIBBS)).bits(iterations, tf.zeros([1], tf.int32))  # 2 of [K, C, 1]
        seeds = tf.bitcast(tf.concat(words, axis=2), tf.int32)  # [K, C, 2]
        return supplied._replace(draws=supplied.draws | {SEED: seeds[:, None]})

    def step(constants: Tree, state: State, supplied: Supplied) -> State:
        state = transition.step(constants, state, supplied)
        params, data = transition.params(state), supplied.data(MINIBATCH, transition.leaps - 1)

        def of_one(given: tuple) -> Tree:
            return gibbs.update(*given)

        data = {name: tf.broadcast_to(x, [n_chains, *x.shape[1:]]) for name, x in data.items()}
        given = (params, data, supplied.draws(SEED))
        if n_chains == 1:
            new = over_chains(gibbs.update, 1)(*given)
        else:  # one chain after the other: rejection samplers cannot be vectorised and compiled
            specs = {name: tf.TensorSpec(params[name].shape[1:], params[name].dtype) for name in gibbs.moves}
            new = tf.map_fn(of_one, given, fn_output_signature=specs)
        places = {id(params[name]): value for name, value in new.items()}
        return tf.nest.map_structure(lambda leaf: places.get(id(leaf), leaf), state)

    return transition._replace(supply=supply, step=step)
