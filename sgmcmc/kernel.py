"""The product: Minibatch x Gradient x Dynamics -> Transition.

The chain axis and gathered rows are handled here and nowhere else: gradients and dynamics are written for one chain,
indices and noise are drawn for all chains at once, and a dynamics sees of a sparse parameter only the rows that move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.random import Purpose
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.types import Batch, Dynamics, Gradient, Minibatch, RowGradient, State, Transition, Tree
from sgmcmc.model import Model


def build(
    model: Model,
    minibatch: Minibatch,
    gradient: Gradient,
    dynamics: Mapping[str, Dynamics],
    stepsize: Mapping[str, float | Schedule],
    seed: int,
    n_chains: int = 1,
) -> Transition:
    """Multiply the choices into one transition.

    Parameters
    ----------
    model : Model
    minibatch : Minibatch
    gradient : Gradient
    dynamics : mapping of str to Dynamics
        One for each parameter, all with the same number of inner steps.
    stepsize : mapping of str to float or Schedule
        One for each parameter.
    seed : int
    n_chains : int, default 1
    """
    (inner_steps,) = {d.inner_steps for d in dynamics.values()}
    minibatches, monitoring = (random.Stream(seed, p, n_chains) for p in (Purpose.MINIBATCH, Purpose.MONITOR))
    initial, refreshing, moving = (
        {name: random.Stream(seed, purpose, n_chains, name) for name in dynamics}
        for purpose in (Purpose.INITIAL, Purpose.REFRESH, Purpose.NOISE)
    )

    def stepsizes(step: tf.Tensor) -> Tree:
        iteration = tf.cast(step // tf.constant(inner_steps, tf.uint32), model.dtype)
        return {
            name: h(iteration) if callable(h) else tf.constant(h, model.dtype) for name, h in sorted(stepsize.items())
        }

    def noise(stream: random.Stream, step: tf.Tensor, theta: tf.Tensor) -> tf.Tensor:  # [C, *shape]
        elements = tf.range(theta.shape[1:].num_elements())
        return tf.reshape(stream.normal(step, elements, model.dtype), theta.shape)

    def noise_of_rows(
        stream: random.Stream, step: tf.Tensor, theta: tf.Tensor, rows: tf.Tensor
    ) -> tf.Tensor:  # rows [C, k] -> [C, k, ...]
        """A row draws what it would draw if the whole parameter moved, so all occurrences of a row draw alike."""
        width = theta.shape[2:].num_elements()
        elements = tf.cast(rows, tf.int32)[:, :, None] * width + tf.range(width)
        draws = stream.normal(step, tf.reshape(elements, [n_chains, -1]), model.dtype)
        return tf.reshape(draws, [*rows.shape, *theta.shape[2:]])

    def batch(stream: random.Stream, state: State) -> tuple[Batch, Any]:  # leaves [C, n, ...]
        indices, weights, minibatch_state = minibatch.draw(stream, state.step, state.minibatch)
        return Batch(model.data.gather(indices), weights), minibatch_state

    def init(params: Tree, centre: Tree) -> State:
        state = State(tf.constant(0, tf.uint32), params, {}, (), minibatch.init())
        eps = stepsizes(state.step)
        memory = {
            name: _over_chains(dynamics[name].init, n_chains, eps[name])(
                theta, noise(initial[name], state.step, theta)
            )
            for name, theta in params.items()
        }
        estimator = tf.nest.map_structure(lambda x: tf.tile(x[None], [n_chains] + [1] * len(x.shape)), gradient.init(centre))
        return state._replace(dynamics=memory, gradient=estimator)

    def refreshed(state: State, eps: Tree) -> Tree:
        def refresh() -> Tree:
            return {
                name: _over_chains(d.refresh, n_chains, eps[name])(
                    state.params[name],
                    state.dynamics[name],
                    noise(refreshing[name], state.step, state.params[name]),
                )
                if d.refresh
                else state.dynamics[name]
                for name, d in dynamics.items()
            }

        if not any(d.refresh for d in dynamics.values()):
            return state.dynamics
        starts_iteration = tf.equal(state.step % tf.constant(inner_steps, tf.uint32), 0)
        return tf.cond(starts_iteration, refresh, lambda: state.dynamics)

    def drifted(state: State, data: Batch) -> Tree:
        drifting = {name for name, d in dynamics.items() if d.drift}
        if not drifting:
            return state.params
        # Which rows move depends on the data alone; the values of this gradient are never computed.
        where = _gradient_over_chains(model.gradient, n_chains)(state.params, data)
        params = dict(state.params)
        for name in sorted(drifting):
            theta, memory, rows = state.params[name], state.dynamics[name], where[name]
            if isinstance(rows, RowGradient):
                part, aux = _take(theta, theta, rows.rows), _take_memory(theta, memory, rows.rows)
                params[name] = _put(theta, rows.rows, _over_chains(dynamics[name].drift, n_chains)(part, aux))
            else:
                params[name] = _over_chains(dynamics[name].drift, n_chains)(theta, memory)
        return params

    def moved(state: State, name: str, eps: tf.Tensor, grad: Any) -> tuple[tf.Tensor, Tree]:
        theta, memory = state.params[name], state.dynamics[name]
        if not isinstance(grad, RowGradient):
            def step_all(theta: tf.Tensor, aux: Tree, g: tf.Tensor, z: tf.Tensor) -> tuple[tf.Tensor, Tree]:
                return dynamics[name].step(eps, theta, aux, g, z, tf.reduce_mean)

            return _over_chains(step_all, n_chains)(theta, memory, grad, noise(moving[name], state.step, theta))

        def step_rows(
            theta: tf.Tensor, aux: Tree, g: tf.Tensor, z: tf.Tensor, share: tf.Tensor
        ) -> tuple[tf.Tensor, Tree]:
            return dynamics[name].step(eps, theta, aux, g, z, _mean_over_distinct_rows(share))

        rows = grad.rows
        part, aux = _over_chains(step_rows, n_chains)(
            _take(theta, theta, rows), _take_memory(theta, memory, rows), grad.values,
            noise_of_rows(moving[name], state.step, theta, rows), grad.share,
        )
        return _put(theta, rows, part), {
            k: _put(memory[k], rows, value) if _has_rows(theta, memory[k]) else value for k, value in aux.items()
        }

    def step(state: State) -> State:
        eps = stepsizes(state.step)
        state = state._replace(dynamics=refreshed(state, eps))
        data, minibatch_state = batch(minibatches, state)
        state = state._replace(params=drifted(state, data))
        estimate, estimator = _gradient_over_chains(gradient.estimate, n_chains)(state.params, data, state.gradient)
        updates = {name: moved(state, name, eps[name], estimate[name]) for name in sorted(state.params)}
        return State(
            step=state.step + tf.constant(1, tf.uint32),
            params={name: theta for name, (theta, _) in updates.items()},
            dynamics={name: memory for name, (_, memory) in updates.items()},
            gradient=estimator,
            minibatch=minibatch_state,
        )

    def log_density(state: State) -> tf.Tensor:
        data, _ = batch(monitoring, state)
        return _gradient_over_chains(model.log_density, n_chains)(state.params, data)

    return Transition(init, step, log_density, inner_steps)


def _over_chains(fn: Callable, n_chains: int, *shared: Any) -> Callable:
    """Map `fn(*shared, *args)` over the chain axis of args; one chain is called directly, which compiles faster."""
    def call(*args: Any) -> Any:
        if n_chains == 1:
            result = fn(*shared, *tf.nest.map_structure(lambda x: tf.squeeze(x, 0), args))
            return tf.nest.map_structure(lambda x: x[None], result)
        return tf.vectorized_map(lambda args: fn(*shared, *args), args)

    return call


def _gradient_over_chains(fn: Callable, n_chains: int) -> Callable:
    """As `_over_chains` for `fn(params, batch, *rest)`, where the weights of the batch may be one number for all."""
    def call(params: Tree, batch: Batch, *rest: Any) -> Any:
        if isinstance(batch.weights, float):
            return _over_chains(lambda p, data, *r: fn(p, Batch(data, batch.weights), *r), n_chains)(
                params, batch.data, *rest
            )
        return _over_chains(lambda p, data, w, *r: fn(p, Batch(data, w), *r), n_chains)(
            params, batch.data, batch.weights, *rest
        )

    return call


def _mean_over_distinct_rows(share: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    def mean(x: tf.Tensor) -> tf.Tensor:  # [k, ...]
        of_rows = tf.reduce_mean(tf.reshape(x, [x.shape[0], -1]), axis=1)
        return tf.reduce_sum(share * of_rows) / tf.reduce_sum(share)

    return mean


def _has_rows(theta: tf.Tensor, memory: tf.Tensor) -> bool:
    """Memory of the shape of the parameter belongs to its elements, and moves with its rows."""
    return memory.shape == theta.shape


def _take(theta: tf.Tensor, memory: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    return tf.gather(memory, rows, batch_dims=1) if _has_rows(theta, memory) else memory


def _take_memory(theta: tf.Tensor, memory: Tree, rows: tf.Tensor) -> Tree:
    return {k: _take(theta, value, rows) for k, value in memory.items()}


def _put(whole: tf.Tensor, rows: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """Write the rows back; occurrences of the same row are equal, so their order is immaterial."""
    n_chains, n_rows = whole.shape[:2]
    flat = tf.reshape(whole, [n_chains * n_rows, *whole.shape[2:]])
    positions = tf.range(n_chains)[:, None] * n_rows + tf.cast(rows, tf.int32)
    part = tf.reshape(part, [-1, *whole.shape[2:]])
    return tf.reshape(tf.tensor_scatter_nd_update(flat, tf.reshape(positions, [-1, 1]), part), whole.shape)
