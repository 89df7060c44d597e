"""The product: Minibatch x Gradient x Dynamics -> Transition.

The chain axis and gathered rows are handled here, by `core/chains.py` and `core/rows.py`. Gradients and dynamics are
written for one chain, and indices and noise are drawn for all chains together. If a parameter moves by rows, its
dynamics is given only these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import finite_chains, over_chains
from sgmcmc.core.coordinates import of_gradient, to_theta
from sgmcmc.core.covariance import Covariance
from sgmcmc.core.parameters import Elements, numbered, split
from sgmcmc.core.random import Purpose, Stream
from sgmcmc.core.rows import has_rows, of_table, put, take, take_memory
from sgmcmc.core.schedules import Schedule, exploring, fixed_stepsizes, stepsizes_at
from sgmcmc.core.streams import key_of, keys_of_chains
from sgmcmc.core.types import (
    FIRST,
    Batch,
    Dynamics,
    Estimate,
    Given,
    Gradient,
    Memory,
    Minibatch,
    Part,
    RowGradient,
    Supplied,
    Supply,
    Transition,
    Tree,
)
from sgmcmc.model import Model

MINIBATCH, MONITOR = "minibatch", "monitor"  # the uses of fetched observations
NOISE, REFRESH, WEIGHTS = "noise", "refresh", "weights"  # other inputs that are computed ahead
LAST, ALL = "minibatch_size", "observations"  # in an iteration, and in all iterations so far
FOUND = ("estimator", "gathered", "minibatch", "preconditioner")  # computed before the first iteration


class ProductState(NamedTuple):
    """Every leaf has a leading chain axis [C, ...]."""

    params: Tree
    memory: dict[str, Memory]  # of the dynamics, by parameter
    estimator: Any  # the memory of the gradient estimator
    log_density: tf.Tensor  # [C]: the log posterior where the last gradient was taken, by its minibatch
    observations: Tree  # with adaptive minibatches, how many there were, [C] each


class Product(NamedTuple):
    """The choices whose product is a transition.

    Parameters
    ----------
    model : Model
    minibatch : Minibatch
    gradient : Gradient
    dynamics : mapping of str to Dynamics
        One for each parameter, all with the same number of leaps.
    schedules : mapping of str to Schedule
        The stepsizes that change; all others are constants of the transition.
    shapes : mapping of str to tuple of int
        The shape of each parameter.
    n_chains : int, default 1
    shared_minibatch : bool, default False
        Whether all chains use the same observations in each step, which makes them dependent.
    monitored : bool, default False
        Whether to estimate gradients at the draws, each from its own minibatch.
    """

    model: Model
    minibatch: Minibatch
    gradient: Gradient
    dynamics: Mapping[str, Dynamics]
    schedules: Mapping[str, Schedule]
    shapes: Mapping[str, tuple[int, ...]]
    n_chains: int = 1
    shared_minibatch: bool = False
    monitored: bool = False


def constants(seed: int, stepsize: Mapping[str, float | Schedule], found: Tree, dtype: tf.DType, chains: range) -> Tree:
    """The constants of a product's transition; a stepsize that changes is NaN here.

    `found` has those that were computed before: the constants of the "estimator", the counts of each row in all data
    ("gathered"), those of the "minibatch", and the root of the "preconditioner".
    """
    found = {key: found.get(key, {}) for key in FOUND}
    return found | keys_of_chains(seed, chains) | {"stepsize": fixed_stepsizes(stepsize, len(chains), dtype)}


def statistics(dynamics: Dynamics, shape: tuple[int, ...], dtype: tf.DType) -> frozenset[str]:
    """The names of the statistics of a dynamics, for a parameter of this shape."""
    if dynamics.stats is None:
        return frozenset()
    given = Given(tf.ones([], dtype), tf.zeros(shape, dtype))
    return frozenset(dynamics.stats(dynamics.init(given.noise, given), Given(given.eps)))


def moving_by_rows(model: Model, minibatch: Minibatch, dynamics: Mapping[str, Dynamics]) -> frozenset[str]:
    """The parameters that move only by the rows that a minibatch gathers.

    Empty if observations have different weights: the number of visits would not be 1 on average.
    """
    if minibatch.scale is None:
        return frozenset()
    return frozenset(name for name in model.gathered if _may_move_by_rows(dynamics[name]))


def build(product: Product) -> Transition:
    """The transition of these choices."""
    model, minibatch, gradient, dynamics = product.model, product.minibatch, product.gradient, product.dynamics
    n_chains, elements = product.n_chains, numbered(product.shapes)
    (leaps,) = {d.leaps for d in dynamics.values()}
    n_batches = 1 if product.shared_minibatch else n_chains
    # The rows of these that move are known only in the step: their noise is drawn there.
    by_rows = {name: e for name, e in elements.items() if name in model.by_rows}
    ahead = {name: e for name, e in elements.items() if name not in by_rows and dynamics[name].wants_noise}
    refreshed = {name: e for name, e in elements.items() if dynamics[name].refresh}
    explored = exploring(product.schedules)
    spread = {name: Covariance(how) for name in elements if (how := dynamics[name].covariance)}
    # The finite-population factor: without replacement, the noise is smaller than that of independent draws.
    unseen = 1 - minibatch.size / model.data.size if minibatch.without_replacement else 1.0

    def stream(constants: Tree, purpose: Purpose) -> Stream:
        of_batches = purpose in (Purpose.MINIBATCH, Purpose.MONITOR)
        return Stream(key_of(constants, purpose)[: n_batches if of_batches else n_chains])

    def counter(iteration: tf.Tensor, leap: int | tf.Tensor = 0) -> tf.Tensor:
        """The number of a gradient, from which its random numbers follow."""
        return iteration * tf.constant(leaps, tf.uint32) + tf.cast(leap, tf.uint32)

    def stepsizes(constants: Tree, iteration: tf.Tensor) -> Tree:
        return stepsizes_at(constants["stepsize"], product.schedules, list(elements), iteration)

    def sampled(z: Tree, iteration: tf.Tensor) -> Tree:
        """The noise, which is 0 for a parameter while its schedule explores."""
        at = tf.cast(iteration, model.dtype)
        for name, schedule in explored.items():
            if name in z:
                z = z | {name: z[name] * (1 - tf.cast(schedule.exploring(at), model.dtype))}
        return z

    def supply(constants: Tree, iterations: tf.Tensor) -> Supply:
        n_iterations = iterations.shape[0]
        leap = tf.cast(tf.range(leaps), tf.uint32)
        counters = tf.reshape(counter(iterations)[:, None] + leap, [-1])  # [K L]

        def by_leap(x: tf.Tensor) -> tf.Tensor:
            return tf.reshape(x, [n_iterations, leaps, *x.shape[1:]])

        fetched, draws = {}, {}
        if not minibatch.parts:
            indices, weights = minibatch.draw(stream(constants, Purpose.MINIBATCH), counters, constants["minibatch"])
            fetched[MINIBATCH] = by_leap(indices)
            if weights is not None:
                draws[WEIGHTS] = by_leap(weights)
        if ahead:
            z = stream(constants, Purpose.NOISE).normal(counters, _numbers(ahead), model.dtype)
            draws[NOISE] = by_leap(z)  # [K, L, C, D]
        if refreshed:
            first = counter(iterations)
            z = stream(constants, Purpose.REFRESH).normal(first, _numbers(refreshed), model.dtype)
            draws[REFRESH] = z[:, None]  # [K, 1, C, D]
        if product.monitored:
            indices, weights = minibatch.draw(
                stream(constants, Purpose.MONITOR), counter(iterations), constants["minibatch"]
            )
            fetched[MONITOR] = indices[:, None]
            if weights is not None:
                draws[MONITOR + WEIGHTS] = weights[:, None]
        return Supply(fetched, draws)

    def origin(constants: Tree, params: Tree) -> Tree:
        """The point where the dynamics begin a step: params, or zero in the coordinates of a preconditioner."""
        return {name: tf.zeros_like(theta) for name, theta in params.items()} if constants["preconditioner"] else params

    def moved(constants: Tree, params: Tree, reached: Tree) -> Tree:
        """The params after a step, in which the dynamics move from the origin to `reached`."""
        root = constants["preconditioner"]
        if not root:
            return reached
        step = to_theta(reached, root, elements)
        return {name: params[name] + step[name] for name in elements}

    def init(constants: Tree, params: Tree) -> ProductState:
        at = origin(constants, params)
        eps = stepsizes(constants, tf.constant(0, tf.uint32))
        flat = stream(constants, Purpose.INITIAL).normal(tf.zeros([1], tf.uint32), _numbers(elements), model.dtype)
        z = split(flat[0], elements)
        memory = {name: _over_parts(dynamics[name].init, n_chains)(at[name], eps[name], z[name]) for name in params}
        estimator = over_chains(lambda params: gradient.init(params, constants["estimator"]), n_chains)(params)
        for key, width in gradient.tables.items():
            found = constants["estimator"].get(FIRST, {}).get(key)
            table = tf.zeros([model.data.size, width], model.dtype) if found is None else found
            estimator[key] = tf.tile(table[None], [n_chains, 1, 1])
        none = tf.zeros([n_chains], tf.float64)
        observations = {LAST: none, ALL: none} if minibatch.parts else {}
        unknown = tf.fill([n_chains], tf.constant(np.nan, model.dtype))
        return ProductState(params, memory, estimator, unknown, observations)

    def over_batches(fn: Callable, constants: Tree) -> Callable:
        """Map `fn(batch, *rest)` over the chain axis of (data, weights, indices, *rest)."""
        scale = minibatch.scale

        def of_one(data: Tree, weights: Any, indices: tf.Tensor, *rest: Any) -> Any:
            return fn(Batch(data, weights if scale is None else scale, indices, constants["gathered"]), *rest)

        def of_all(data: Tree, weights: Any, indices: tf.Tensor, *rest: Any) -> Any:
            if n_batches == n_chains:
                return over_chains(of_one, n_chains)(data, weights, indices, *rest)
            shared = tf.nest.map_structure(lambda x: x[0], (data, weights, indices))
            return over_chains(lambda *rest: of_one(*shared, *rest), n_chains)(*rest)

        return of_all

    def batch(supplied: Supplied, leap: int | tf.Tensor, of: str = MINIBATCH, weights: str = WEIGHTS) -> tuple:
        """Data, weights and indices with leaves [C, n, ...], or [1, n, ...] if shared."""
        own = () if minibatch.scale is not None else supplied.draws(weights, leap)
        return supplied.data(of, leap), own, supplied.indices(of, leap)

    def places(of_batch: tuple) -> tf.Tensor:
        return tf.broadcast_to(of_batch[2], [n_chains, minibatch.size])

    def seen(estimator: Any, of_batch: tuple) -> Any:
        """The memory for the estimator: in place of its tables, their rows for the minibatch."""
        for key in gradient.tables:
            estimator = estimator | {key: of_table(estimator[key], places(of_batch))}
        return estimator

    def estimated(constants: Tree) -> Callable:
        def estimate(batch: Batch, params: Tree, memory: Any) -> Estimate:
            return gradient.estimate(params, batch, constants["estimator"], memory)

        return over_batches(estimate, constants)

    def covariances(constants: Tree) -> Callable:
        """The covariances of the gradient's noise, in the coordinates in which the dynamics move."""

        def estimate(batch: Batch, params: Tree, memory: Any) -> Tree:
            assert gradient.terms is not None
            terms = gradient.terms(params, batch.data, constants["estimator"], memory)
            if constants["preconditioner"]:
                terms = of_gradient(terms, constants["preconditioner"], elements)
            return {name: unseen * how.of_sum(_weighted(terms[name], batch.weights)) for name, how in spread.items()}

        return over_batches(estimate, constants)

    def at_once(constants: Tree, state: ProductState, supplied: Supplied, leap: Part, params: Tree) -> tuple:
        """The log density [C], the gradient, its noise covariance, the new memory, and the number of observations."""
        of_batch = batch(supplied, leap)
        before = seen(state.estimator, of_batch)
        value, grad, after = estimated(constants)(*of_batch, params, before)
        noise = covariances(constants)(*of_batch, params, before) if spread else {}
        for key in gradient.tables:
            # The product with zero makes XLA read the rows before writing them, so that it can write in place.
            after = after | {key: put(state.estimator[key], places(of_batch), after[key] + 0.0 * before[key])}
        return value, grad, noise, after, minibatch.size

    def in_parts(constants: Tree, state: ProductState, supplied: Supplied, leap: Part, params: Tree) -> tuple:
        """The same from a minibatch with as many parts as each chain needs: the mean over the parts."""
        assert minibatch.parts is not None
        parts, of_parts = minibatch.parts, constants["minibatch"]
        wanted = over_chains(lambda params: parts(params, of_parts), n_chains)(params)  # [C]
        counters = counter(supplied.iteration, leap)[None]

        def added(part: tf.Tensor, total: Any) -> tuple:
            indices, weights = minibatch.draw(stream(constants, Purpose.MINIBATCH), counters, of_parts, part)
            own = () if weights is None else weights[0]
            value, grad, _ = estimated(constants)(supplied.fetch(indices[0]), own, indices[0], params, state.estimator)
            share = tf.cast(part < wanted, model.dtype) / tf.cast(wanted, model.dtype)
            return part + 1, tf.nest.map_structure(lambda x, y: x + _each(share, y) * y, total, (value, grad))

        zeros = (tf.zeros([n_chains], model.dtype), tf.nest.map_structure(tf.zeros_like, params))
        most = tf.reduce_max(wanted)
        _, (value, grad) = tf.while_loop(lambda part, _: part < most, added, (tf.constant(0), zeros))
        return value, grad, {}, state.estimator, tf.cast(wanted * minibatch.size, tf.float64)

    def renewed(constants: Tree, state: ProductState, eps: Tree, supplied: Supplied) -> dict[str, Memory]:
        if not refreshed:
            return state.memory
        at = origin(constants, state.params)
        z = sampled(split(supplied.draws(REFRESH), _renumbered(refreshed)), supplied.iteration)
        renew = {
            name: _over_parts(dynamics[name].refresh, n_chains)(  # type: ignore[arg-type]
                at[name], eps[name], z[name], state.memory[name]
            )
            for name in refreshed
        }
        return state.memory | renew

    def drifted(constants: Tree, state: ProductState) -> Tree:
        drifting = {name: d.drift for name, d in sorted(dynamics.items()) if d.drift}
        if not drifting:
            return state.params
        at = origin(constants, state.params)
        reached = {name: over_chains(drift, n_chains)(at[name], state.memory[name]) for name, drift in drifting.items()}
        return moved(constants, state.params, at | reached)

    def noise(constants: Tree, supplied: Supplied, leap: int | tf.Tensor, grad: Tree) -> Tree:
        """Standard normals for whole parameters, [C, *shape], or gathered rows, [C, k, ...].

        A row gets the normals that it would get if the whole parameter moved, so all occurrences of a row have equal
        noise.
        """
        z = split(supplied.draws(NOISE, leap), _renumbered(ahead)) if ahead else {}
        counters = counter(supplied.iteration, leap)[None]
        for name in by_rows:
            rows, width = grad[name].rows, elements[name].size // elements[name].shape[0]
            numbers = elements[name].start + tf.cast(rows, tf.int32)[:, :, None] * width + tf.range(width)
            flat = stream(constants, Purpose.NOISE).normal(counters, tf.reshape(numbers, [n_chains, -1]), model.dtype)
            z[name] = tf.reshape(flat, grad[name].values.shape)
        return sampled(z, supplied.iteration)

    def step(constants: Tree, state: ProductState, supplied: Supplied) -> ProductState:
        eps = stepsizes(constants, supplied.iteration)
        state = state._replace(
            memory=renewed(constants, state, eps, supplied),
            observations={key: tf.zeros_like(x) if key == LAST else x for key, x in state.observations.items()},
        )

        def leap(number: int | tf.Tensor, state: ProductState) -> ProductState:
            params = drifted(constants, state)
            value, grad, covariance, after, seen = (in_parts if minibatch.parts else at_once)(
                constants, state, supplied, number, params
            )
            z = noise(constants, supplied, number, grad)
            at = origin(constants, params)
            if constants["preconditioner"]:
                grad = of_gradient(grad, constants["preconditioner"], elements)
            updates = {
                name: (_moved_rows if name in by_rows else _moved)(
                    dynamics[name],
                    n_chains,
                    at[name],
                    state.memory[name],
                    eps[name],
                    _there({"noise": z.get(name), "gradient": grad[name], "covariance": covariance.get(name)}),
                )
                for name in elements
            }
            return ProductState(
                moved(constants, params, {name: theta for name, (theta, _) in updates.items()}),
                {name: memory for name, (_, memory) in updates.items()},
                after,
                value,
                {key: x + seen for key, x in state.observations.items()},
            )

        if leaps == 1:
            return leap(0, state)
        return tf.while_loop(
            lambda number, _: number < leaps,
            lambda number, state: (number + 1, leap(number, state)),
            (tf.constant(0), state),
        )[1]

    def stats(constants: Tree, state: ProductState, iteration: tf.Tensor) -> Tree:
        """The log posterior estimate [C], and the statistics of the dynamics of P parameters, [C, P]."""
        eps = stepsizes(constants, iteration - tf.constant(1, tf.uint32))
        told: dict[str, Tree] = {}
        for name in elements:
            if (tell := dynamics[name].stats) is not None:
                values = over_chains(lambda memory, eps, tell=tell: tell(memory, Given(eps)), n_chains)(
                    state.memory[name], eps[name]
                )
                for key, value in values.items():
                    told.setdefault(key, {})[name] = value
        if product.schedules:
            told["step_size"] = eps
        if explored:
            at = tf.cast(iteration - tf.constant(1, tf.uint32), model.dtype)
            told["exploring"] = {
                name: tf.fill([n_chains], tf.cast(schedule.exploring(at), model.dtype))
                for name, schedule in explored.items()
            }
        silent = tf.fill(
            [n_chains], tf.constant(np.nan, model.dtype)
        )  # for a parameter whose dynamics has no such statistic
        by_parameter = {
            key: tf.stack([values.get(name, silent) for name in elements], axis=1) for key, values in told.items()
        }
        return {"lp": state.log_density} | by_parameter | state.observations

    def estimated_gradient(constants: Tree, state: ProductState, supplied: Supplied) -> Tree:
        def estimate(batch: Batch, params: Tree, memory: Any) -> Tree:
            return gradient.estimate(params, batch, constants["estimator"], memory).gradient

        of_batch = batch(supplied, 0, MONITOR, MONITOR + WEIGHTS)
        memory = seen(state.estimator, of_batch)
        grad = over_batches(estimate, constants)(*of_batch, state.params, memory)
        return {
            name: put(tf.zeros_like(state.params[name]), g.rows, g.values) if isinstance(g, RowGradient) else g
            for name, g in grad.items()
        }

    def renew(state: ProductState) -> ProductState:
        assert gradient.renew is not None
        return state._replace(estimator=gradient.renew(state.params))

    return Transition(
        init=init,
        supply=supply,
        step=step,
        params=lambda state: state.params,
        log_density=lambda state: state.log_density,
        finite=lambda state: {name: finite_chains((theta, state.memory[name])) for name, theta in state.params.items()},
        stats=stats,
        gradient=estimated_gradient if product.monitored else None,
        leaps=leaps,
        fetches=minibatch.parts is not None,
        every=gradient.every,
        renew=renew if gradient.renew else None,
    )


def _may_move_by_rows(dynamics: Dynamics) -> bool:
    return dynamics.by_rows and not (dynamics.drift or dynamics.refresh or dynamics.leaps > 1 or dynamics.covariance)


def _numbers(elements: Mapping[str, Elements]) -> tf.Tensor:
    return tf.concat([tf.range(e.start, e.stop) for e in elements.values()], axis=0)


def _renumbered(elements: Mapping[str, Elements]) -> dict[str, Elements]:
    """These elements, numbered again without gaps."""
    return numbered({name: e.shape for name, e in elements.items()})


def _over_parts(fn: Callable[..., Memory], n_chains: int) -> Callable:
    """Map an `init` or a `refresh` over the chain axis of (theta, eps, noise, *memory)."""

    def of_one(theta: tf.Tensor, eps: tf.Tensor, z: tf.Tensor, *memory: Memory) -> Memory:
        return fn(theta, *memory, Given(eps, z))

    return over_chains(of_one, n_chains)


def _each(of_chains: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """`of_chains`, [C], reshaped to the rank of `like`."""
    return tf.reshape(of_chains, [-1] + [1] * (like.shape.rank - 1))


def _weighted(terms: tf.Tensor, weights: float | tf.Tensor) -> tf.Tensor:
    """The terms of a minibatch, [n, *shape], times their weights."""
    return weights * terms if isinstance(weights, float) else _each(weights, terms) * terms


def _there(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


def _moved(
    dynamics: Dynamics, n_chains: int, theta: tf.Tensor, memory: Memory, eps: tf.Tensor, given: dict[str, tf.Tensor]
) -> tuple[tf.Tensor, Memory]:
    def step(theta: tf.Tensor, memory: Memory, eps: tf.Tensor, given: dict) -> tuple[tf.Tensor, Memory]:
        return dynamics.step(theta, memory, Given(eps, **given))

    return over_chains(step, n_chains)(theta, memory, eps, given)


def _moved_rows(
    dynamics: Dynamics, n_chains: int, theta: tf.Tensor, memory: Memory, eps: tf.Tensor, given: dict[str, Any]
) -> tuple[tf.Tensor, Memory]:
    # Each row has its own time, which its visits advance; per unit of it the gradient is an unbiased estimate.
    z, grad = given["noise"], given["gradient"]
    visits = tf.reshape(grad.visits, [*grad.visits.shape, *[1] * (z.shape.rank - 2)])
    eps = tf.reshape(eps, [n_chains, *[1] * (z.shape.rank - 1)])
    part, of_rows = _moved(
        dynamics,
        n_chains,
        take(theta, theta, grad.rows),
        take_memory(theta, memory, grad.rows),
        eps * visits,
        {"noise": z, "gradient": grad.values / visits},
    )
    return put(theta, grad.rows, part), {
        key: put(memory[key], grad.rows, value) if has_rows(theta, memory[key]) else value
        for key, value in of_rows.items()
    }
