"""The product: Minibatch x Gradient x Dynamics -> Kernel.

Gradients and dynamics are written for one chain. Each part of the product handles the chain axis itself: an
iteration is inputs with minibatches and noise (`supplies.py`), its gradient is estimated (`estimation.py`), and the
parameters move (`movement.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core.chains import finite_chains
from sgmcmc.core.covariance import Covariance
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics, Memory
from sgmcmc.gradients import Gradient
from sgmcmc.kernel import BlockInputs, IterationInputs, Kernel
from sgmcmc.kernel.estimation import Estimation, InParts, Monitor
from sgmcmc.kernel.inputs import combined
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
    """The choices whose product is a kernel.

    Parameters
    ----------
    model : Model
    minibatch : Minibatch
    gradient : Gradient
    dynamics : mapping of str to Dynamics
        One for each parameter, all with the same number of leaps.
    iterations : Iterations
    monitored : bool
        Whether the gradient at each draw can be estimated, from a separate minibatch.
    """

    model: Model
    minibatch: Minibatch
    gradient: Gradient
    dynamics: Mapping[str, Dynamics]
    iterations: Iterations
    monitored: bool = False


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
    """The kernel of these choices."""
    minibatch, gradient, dynamics = product.minibatch, product.gradient, product.dynamics
    (leaps,) = {d.leaps for d in dynamics.values()}
    iterations = product.iterations._replace(leaps=leaps)
    covariances = {name: Covariance(how) for name in sorted(dynamics) if (how := dynamics[name].covariance)}
    estimator = InParts if minibatch.parts else Estimation
    estimation = estimator(iterations, minibatch, gradient, product.model.data.size, covariances)
    movement = Movement(iterations, dynamics, product.model.by_rows)
    monitor = Monitor(estimation) if product.monitored else None
    parts = (estimation, movement) if monitor is None else (estimation, movement, monitor)

    def draw_inputs(constants: Tree, numbers: tf.Tensor) -> BlockInputs:
        return combined(part.draw_inputs(constants, numbers) for part in parts)

    def init(constants: Tree, params: Tree) -> ProductState:
        memory, estimator = movement.begun(constants, params), estimation.begun(constants, params)
        return ProductState(params, memory, estimator, iterations.unknown, estimation.counts())

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

    def stats(constants: Tree, state: ProductState, iteration: tf.Tensor) -> Tree:
        last = iteration - tf.constant(1, tf.uint32)
        by_parameter = recorded(iterations, dynamics, constants, state.memory, last)
        return {LOG_DENSITY: state.log_density} | by_parameter | state.observations

    def monitored(constants: Tree, state: ProductState, inputs: IterationInputs) -> Tree:
        assert monitor is not None
        return monitor.gradient(constants, state.params, state.estimator, inputs)

    def renew(state: ProductState) -> ProductState:
        assert gradient.renew is not None
        return state._replace(estimator=gradient.renew(state.params))

    return Kernel(
        init=init,
        draw_inputs=draw_inputs,
        step=step,
        finite=lambda state: {name: finite_chains((theta, state.memory[name])) for name, theta in state.params.items()},
        stats=stats,
        gradient=monitored if monitor else None,
        leaps=leaps,
        fetches=minibatch.parts is not None,
        every=gradient.every,
        renew=renew if gradient.renew else None,
    )
