"""The product: Minibatch x Gradient x Dynamics -> Transition.

The chain axis and gathered rows are handled here and nowhere else: gradients and dynamics are written for one chain,
indices and noise are drawn for all chains at once, and a dynamics sees of a sparse parameter only the rows that move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
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
    shared_minibatch: bool = False,
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
    shared_minibatch : bool, default False
        Whether all chains look at the same observations in each step, which makes them dependent.
    """
    (inner_steps,) = {d.inner_steps for d in dynamics.values()}
    names = sorted(dynamics)
    n_batches = 1 if shared_minibatch else n_chains
    minibatches, monitoring = (random.Stream(seed, p, n_batches) for p in (Purpose.MINIBATCH, Purpose.MONITOR))
    initial, refreshing, moving = (
        random.Stream(seed, p, n_chains) for p in (Purpose.INITIAL, Purpose.REFRESH, Purpose.NOISE)
    )

    def stepsizes(step: tf.Tensor) -> Tree:
        iteration = tf.cast(step // tf.constant(inner_steps, tf.uint32), model.dtype)
        values = {name: h(iteration) if callable(h) else h for name, h in stepsize.items()}
        # The hint keeps Python's numbers from passing through float32.
        return {
            name: tf.cast(tf.convert_to_tensor(h, dtype_hint=model.dtype), model.dtype) for name, h in values.items()
        }

    def noise(stream: random.Stream, state: State, rows: Tree) -> Tree:
        """Standard normals for all that moves: whole parameters, [C, *shape], or their `rows` [C, k], [C, k, ...].

        All parameters are numbered through, and a row draws what it would draw if the whole parameter moved; so all
        occurrences of a row draw alike. One draw for everything compiles much faster than one for each.
        """
        elements, shapes, offset = [], [], 0
        for name in names:
            shape = state.params[name].shape
            if name in rows:
                width = shape[2:].num_elements()
                of_rows = offset + tf.cast(rows[name], tf.int32)[:, :, None] * width + tf.range(width)
                elements.append(tf.reshape(of_rows, [n_chains, -1]))
                shapes.append([*rows[name].shape, *shape[2:]])
            else:
                elements.append(tf.tile(tf.range(offset, offset + shape[1:].num_elements())[None], [n_chains, 1]))
                shapes.append(shape)
            offset += shape[1:].num_elements()
        draws = stream.normal(state.step, tf.concat(elements, axis=1) if rows else tf.range(offset), model.dtype)
        parts = tf.split(draws, [part.shape[1] for part in elements], axis=1)
        return {name: tf.reshape(z, shape) for name, z, shape in zip(names, parts, shapes, strict=True)}

    def batch(state: State, stream: random.Stream) -> tuple[Tree, Any, Any]:
        """Leaves [C, n, ...], or [1, n, ...] if shared."""
        indices, weights, minibatch_state = minibatch.draw(stream, state.step, state.minibatch)
        return model.data.gather(indices), weights, minibatch_state

    def over_batches(fn: Callable, scale: float | None) -> Callable:
        """Map `fn(params, batch, *rest)` over the chain axis of (params, data, weights, *rest)."""

        def of_one(params: Tree, data: Tree, weights: Any, *rest: Any) -> Any:
            return fn(params, Batch(data, weights if scale is None else scale), *rest)

        def of_all(params: Tree, data: Tree, weights: Any, *rest: Any) -> Any:
            if n_batches == n_chains:
                return over_chains(of_one, n_chains)(params, data, weights, *rest)
            data, weights = tf.nest.map_structure(lambda x: x[0], (data, weights))
            return over_chains(lambda params, *rest: of_one(params, data, weights, *rest), n_chains)(params, *rest)

        return of_all

    def init(params: Tree, centre: Tree) -> State:
        unknown = tf.fill([n_chains], tf.constant(np.nan, model.dtype))
        state = State(tf.constant(0, tf.uint32), params, {}, (), minibatch.init(), unknown)
        eps, z = stepsizes(state.step), noise(initial, state, {})
        memory = {name: over_chains(dynamics[name].init, n_chains, eps[name])(params[name], z[name]) for name in names}
        estimator = tf.nest.map_structure(
            lambda x: tf.tile(x[None], [n_chains] + [1] * len(x.shape)), gradient.init(centre)
        )
        return state._replace(dynamics=memory, gradient=estimator)

    def refreshed(state: State, eps: Tree) -> Tree:
        renewals = {name: d.refresh for name, d in sorted(dynamics.items()) if d.refresh}
        if not renewals:
            return state.dynamics

        # Chosen, not branched: a branch costs as much as the noise it would save.
        starts_iteration = tf.equal(state.step % tf.constant(inner_steps, tf.uint32), 0)
        z = noise(refreshing, state, {})
        memory = dict(state.dynamics)
        for name, renew in renewals.items():
            fresh = over_chains(renew, n_chains, eps[name])(state.params[name], memory[name], z[name])
            memory[name] = {key: tf.where(starts_iteration, fresh[key], old) for key, old in memory[name].items()}
        return memory

    def drifted(state: State, data: Tree, weights: Any) -> Tree:
        drifting = {name: d.drift for name, d in sorted(dynamics.items()) if d.drift}
        if not drifting:
            return state.params
        # Which rows move depends on the data alone; the values of this gradient are never computed.
        where = over_batches(model.gradient, minibatch.scale)(state.params, data, weights)
        params = dict(state.params)
        for name, drift in drifting.items():
            theta, memory, rows = state.params[name], state.dynamics[name], where[name]
            if isinstance(rows, RowGradient):
                part, aux = _take(theta, theta, rows.rows), _take_memory(theta, memory, rows.rows)
                params[name] = _put(theta, rows.rows, over_chains(drift, n_chains)(part, aux))
            else:
                params[name] = over_chains(drift, n_chains)(theta, memory)
        return params

    def moved(state: State, eps: Tree, grad: Tree) -> dict[str, tuple[tf.Tensor, Tree]]:
        z = noise(moving, state, {name: g.rows for name, g in grad.items() if isinstance(g, RowGradient)})
        return {
            name: (_moved_rows if isinstance(grad[name], RowGradient) else _moved)(
                dynamics[name], n_chains, eps[name], state.params[name], state.dynamics[name], grad[name], z[name]
            )
            for name in names
        }

    def step(state: State) -> State:
        eps = stepsizes(state.step)
        state = state._replace(dynamics=refreshed(state, eps))
        data, weights, minibatch_state = batch(state, minibatches)
        state = state._replace(params=drifted(state, data, weights))
        estimate = over_batches(gradient.estimate, minibatch.scale)
        value, grad, estimator = estimate(state.params, data, weights, state.gradient)
        updates = moved(state, eps, grad)
        return State(
            step=state.step + tf.constant(1, tf.uint32),
            params={name: theta for name, (theta, _) in updates.items()},
            dynamics={name: memory for name, (_, memory) in updates.items()},
            gradient=estimator,
            minibatch=minibatch_state,
            log_density=value,
        )

    def stats(state: State) -> Tree:
        """The log posterior estimate [C], and [C, P] of what the dynamics of P parameters tell of themselves."""
        eps = stepsizes(state.step - tf.constant(1, tf.uint32))
        told: dict[str, list[tf.Tensor]] = {}
        for name in names:
            if (tell := dynamics[name].stats) is not None:
                for key, values in over_chains(tell, n_chains, eps[name])(state.dynamics[name]).items():
                    told.setdefault(key, []).append(values)
        if any(callable(h) for h in stepsize.values()):
            told["step_size"] = [tf.fill([n_chains], eps[name]) for name in names]
        return {"lp": state.log_density} | {key: tf.stack(values, axis=1) for key, values in told.items()}

    def estimated_gradient(state: State) -> Tree:
        data, weights, _ = batch(state, monitoring)
        _, grad, _ = over_batches(gradient.estimate, minibatch.scale)(state.params, data, weights, state.gradient)
        return {
            name: _put(tf.zeros_like(state.params[name]), g.rows, g.values) if isinstance(g, RowGradient) else g
            for name, g in grad.items()
        }

    return Transition(init, step, stats, estimated_gradient, inner_steps)


def over_chains(fn: Callable, n_chains: int, *shared: Any) -> Callable:
    """Map `fn(*shared, *args)` over the chain axis of args; one chain is called directly, which compiles faster."""

    def call(*args: Any) -> Any:
        if n_chains == 1:
            result = fn(*shared, *tf.nest.map_structure(lambda x: tf.squeeze(x, 0), args))
            return tf.nest.map_structure(lambda x: x[None], result)
        return tf.vectorized_map(lambda args: fn(*shared, *args), args)

    return call


def _moved(
    dynamics: Dynamics, n_chains: int, eps: tf.Tensor, theta: tf.Tensor, memory: Tree, grad: tf.Tensor, z: tf.Tensor
) -> tuple[tf.Tensor, Tree]:
    def step(theta: tf.Tensor, aux: Tree, g: tf.Tensor, z: tf.Tensor) -> tuple[tf.Tensor, Tree]:
        return dynamics.step(eps, theta, aux, g, z, tf.reduce_mean)

    return over_chains(step, n_chains)(theta, memory, grad, z)


def _moved_rows(
    dynamics: Dynamics, n_chains: int, eps: tf.Tensor, theta: tf.Tensor, memory: Tree, grad: RowGradient, z: tf.Tensor
) -> tuple[tf.Tensor, Tree]:
    def step(theta: tf.Tensor, aux: Tree, g: tf.Tensor, z: tf.Tensor, share: tf.Tensor) -> tuple[tf.Tensor, Tree]:
        return dynamics.step(eps, theta, aux, g, z, _mean_over_distinct_rows(share))

    part, aux = over_chains(step, n_chains)(
        _take(theta, theta, grad.rows), _take_memory(theta, memory, grad.rows), grad.values, z, grad.share
    )
    return _put(theta, grad.rows, part), {
        key: _put(memory[key], grad.rows, value) if _has_rows(theta, memory[key]) else value
        for key, value in aux.items()
    }


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
