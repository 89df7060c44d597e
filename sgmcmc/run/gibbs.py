"""The user's own Gibbs step after each iteration of another kernel.

If the step draws some parameters from their distribution given the others, the
posterior is unchanged (thesis section 4.7; Chen, Fox & Guestrin 2014, for the
precisions of a network's weights).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core.chains import one_by_one
from sgmcmc.core.random import Purpose
from sgmcmc.core.types import Dynamics, Kernel, State, Supplied, Supply, Tree
from sgmcmc.kernel.estimation import MINIBATCH
from sgmcmc.kernel.supplies import Seeds, together

Update = Callable[[Tree, Tree, tf.Tensor], Tree]


class GibbsStep(NamedTuple):
    """``update(params, data, seed) -> {name: tensor}`` for one chain.

    `moves` are the names.
    """

    update: Update
    moves: frozenset[str]


def unmoved() -> Dynamics:
    """The dynamics of parameters that no gradient moves."""
    return Dynamics(lambda theta, memory, given: (theta, memory), noises=0)


def then(kernel: Kernel, gibbs: GibbsStep, n_chains: int) -> Kernel:
    """The kernel, and after each of its iterations the step, with the minibatch of the last gradient."""
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
