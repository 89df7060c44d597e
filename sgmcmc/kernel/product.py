"""The product: Minibatch x Gradient x Dynamics -> Kernel.

Gradients and dynamics are written for one chain. `inputs.py`, `estimation.py` and `movement.py` handle the chain axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core.chains import finite_chains
from sgmcmc.core.covariance import Covariance
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics, Memory
from sgmcmc.gradients import Gradient
from sgmcmc.kernel import IterationInputs, Kernel
from sgmcmc.kernel.estimation import Estimation, InParts, Monitor
from sgmcmc.kernel.inputs import drawn_by
from sgmcmc.kernel.iterations import LAST, LOG_DENSITY, Iterations, recorded
from sgmcmc.kernel.movement import Movement
from sgmcmc.minibatch import Minibatch, Part
from sgmcmc.model import Model


class ProductState(NamedTuple):
    """Every leaf has a leading chain axis [C, ...]."""

    params: Tree
    memory: dict[str, Memory]  # of the dynamics, by parameter
    estimator: Any  # the memory of the gradient estimator
    log_density: tf.Tensor  # [C]: the log posterior where the last gradient was taken, estimated from its minibatch
    observations: Tree  # with adaptive minibatches, the numbers of observations, [C] each


class Product(NamedTuple):
    model: Model
    minibatch: Minibatch
    gradient: Gradient
    dynamics: Mapping[str, Dynamics]  # of each parameter, all with the same number of leaps
    iterations: Iterations
    monitored: bool = False  # whether the gradient at each draw can be estimated, from a separate minibatch


def moving_by_rows(model: Model, minibatch: Minibatch, dynamics: Mapping[str, Dynamics]) -> frozenset[str]:
    """The parameters that move only by the rows that a minibatch gathers.

    Empty if observations have different weights, since the number of visits would not be 1 on average, or if a step
    needs the whole gradient.
    """
    if minibatch.scale is None or any(one.wants_norm for one in dynamics.values()):
        return frozenset()
    return frozenset(name for name in model.gathered if _may_move_by_rows(dynamics[name]))


def _may_move_by_rows(dynamics: Dynamics) -> bool:
    more = dynamics.drift or dynamics.refresh or dynamics.leaps > 1 or dynamics.covariance or dynamics.noises > 1
    return dynamics.by_rows and not more


def build(product: Product) -> Kernel:
    minibatch, gradient, dynamics = product.minibatch, product.gradient, product.dynamics
    (leaps,) = {d.leaps for d in dynamics.values()}
    iterations = product.iterations._replace(leaps=leaps)
    covariances = {name: Covariance(how) for name in sorted(dynamics) if (how := dynamics[name].covariance)}
    estimation = (InParts if minibatch.parts else Estimation)(
        iterations, minibatch, gradient, product.model.data.size, covariances
    )
    movement = Movement(iterations, dynamics, product.model.by_rows)
    monitor = Monitor(estimation) if product.monitored else None
    parts = (estimation, movement) if monitor is None else (estimation, movement, monitor)

    def init(constants: Tree, params: Tree) -> ProductState:
        memory, estimator = movement.begun(constants, params), estimation.begun(constants, params)
        return ProductState(params, memory, estimator, iterations.unknown, estimation.counts())

    def stats(constants: Tree, state: ProductState, iteration: tf.Tensor) -> Tree:
        last = iteration - tf.constant(1, tf.uint32)
        by_parameter = recorded(iterations, dynamics, constants, state.memory, last)
        return {LOG_DENSITY: state.log_density} | by_parameter | state.observations

    def renew(state: ProductState) -> ProductState:
        assert gradient.renew is not None
        return state._replace(estimator=gradient.renew(state.params))

    def finite(state: ProductState) -> Tree:
        return {name: finite_chains((theta, state.memory[name])) for name, theta in state.params.items()}

    return Kernel(
        init,
        drawn_by(*parts),
        _step(iterations, movement, estimation),
        finite,
        stats,
        gradient=monitor.gradient if monitor else None,
        leaps=leaps,
        fetches=minibatch.parts is not None,
        every=gradient.every,
        renew=renew if gradient.renew else None,
    )


def _step(iterations: Iterations, movement: Movement, estimation: Estimation) -> Callable[..., ProductState]:
    leaps = iterations.leaps

    def step(constants: Tree, state: ProductState, inputs: IterationInputs) -> ProductState:
        eps = iterations.stepsizes(constants, inputs.iteration)
        state = state._replace(
            memory=movement.renewed(constants, state.params, state.memory, eps, inputs),
            observations={key: tf.zeros_like(x) if key == LAST else x for key, x in state.observations.items()},
        )

        def leap(number: Part, state: ProductState) -> ProductState:
            at = movement.drifted(constants, state.params, state.memory)
            estimated = estimation.at(constants, at, state.estimator, inputs, number)
            params, memory = movement.moved(constants, at, state.memory, eps, inputs, number, estimated)
            counts = {key: x + estimated.n_observations for key, x in state.observations.items()}
            return ProductState(params, memory, estimated.memory, estimated.log_density, counts)

        if leaps == 1:
            return leap(0, state)
        return tf.while_loop(
            lambda number, _: number < leaps,
            lambda number, state: (number + 1, leap(number, state)),
            (tf.constant(0), state),
        )[1]

    return step
