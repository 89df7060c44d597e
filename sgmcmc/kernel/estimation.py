"""Estimates of all chains, from minibatches; an estimator sees the rows of its minibatch in place of its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core import xla
from sgmcmc.core.chains import over_chains
from sgmcmc.core.covariance import Covariance
from sgmcmc.core.random import Purpose
from sgmcmc.core.transforms import Coordinates
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Memory
from sgmcmc.gradients import FIRST, Estimate, Gradient
from sgmcmc.kernel import BlockInputs, IterationInputs
from sgmcmc.kernel.inputs import Observations
from sgmcmc.kernel.iterations import ALL, LAST, Iterations
from sgmcmc.kernel.rows import of_table, put
from sgmcmc.minibatch import Minibatch, Part
from sgmcmc.model import Batch, RowGradient


class Tables:
    """The tables {name: width} of C chains over N observations."""

    def __init__(self, widths: Mapping[str, int], n_chains: int, n_data: int, dtype: tf.DType) -> None:
        self._widths, self._n_chains, self._n_data, self._dtype = widths, n_chains, n_data, dtype

    def begun(self, constants: Tree) -> Memory:
        """Each table before the first estimate, [C, N, width]."""
        tables = {}
        for name, width in self._widths.items():
            first = constants.get(FIRST, {}).get(name)
            table = tf.zeros([self._n_data, width], self._dtype) if first is None else first
            tables[name] = tf.tile(table[None], [self._n_chains, 1, 1])
        return tables

    def rows_of_batch(self, memory: Memory, indices: tf.Tensor) -> Memory:
        """The memory with rows in place of the tables; indices are [C, n], or [1, n] if shared."""
        if not self._widths:
            return memory
        places = self._places(indices)
        return memory | self._each(lambda name: of_table(memory[name], places))

    def written(self, memory: Memory, indices: tf.Tensor, before: Memory, after: Memory) -> Memory:
        """The memory after an estimate, which was given `before` and returned `after`."""
        if not self._widths:
            return after
        places = self._places(indices)
        return after | self._each(lambda name: put(memory[name], places, xla.after(before[name], after[name])))

    def _places(self, indices: tf.Tensor) -> tf.Tensor:
        return tf.broadcast_to(indices, [self._n_chains, indices.shape[1]])

    def _each(self, table: Callable[[str], tf.Tensor]) -> Memory:
        return {name: table(name) for name in self._widths}


MINIBATCH, MONITOR = "minibatch", "monitor"  # the uses of fetched observations


class Estimated(NamedTuple):
    log_density: tf.Tensor  # [C]
    gradient: Tree  # {name: [C, *shape]}
    covariance: Tree  # of the gradient noise, for the parameters that want it
    memory: Any  # of the estimator
    n_observations: int | tf.Tensor


class Estimation:
    """Estimates from one minibatch, with the `covariances` of the gradient noise of these parameters."""

    def __init__(
        self,
        iterations: Iterations,
        minibatch: Minibatch,
        gradient: Gradient,
        n_data: int,
        covariances: Mapping[str, Covariance],
    ) -> None:
        self.iterations, self.minibatch, self.gradient, self._covariances = iterations, minibatch, gradient, covariances
        self.tables = Tables(gradient.tables, iterations.n_chains, n_data, iterations.dtype)
        self.observations = Observations(iterations, minibatch, MINIBATCH, Purpose.MINIBATCH)
        # The finite-population factor: without replacement, the noise is smaller than that of independent draws.
        self._finite_population = 1 - minibatch.size / n_data if minibatch.without_replacement else 1.0

    def draw_inputs(self, constants: Tree, iterations: tf.Tensor) -> BlockInputs:
        return self.observations.draw_inputs(constants, iterations)

    def counts(self) -> Tree:
        """The numbers of observations before the first iteration, [C] each, if they are counted."""
        return {}

    def begun(self, constants: Tree, params: Tree) -> Any:
        of_estimator = constants["estimator"]
        memory = over_chains(lambda params: self.gradient.init(params, of_estimator), self.iterations.n_chains)(params)
        return memory | self.tables.begun(of_estimator) if self.gradient.tables else memory

    def at(self, constants: Tree, params: Tree, memory: Any, inputs: IterationInputs, leap: Part) -> Estimated:
        of_batch = self.observations.of(inputs, leap)
        *_, indices = of_batch
        before = self.tables.rows_of_batch(memory, indices)
        value, grad, after = self.mapped(constants, self.observations)(*of_batch, params, before)
        noise = self._noise(constants)(*of_batch, params, before) if self._covariances else {}
        after = self.tables.written(memory, indices, before, after)
        return Estimated(value, grad, noise, after, self.minibatch.size)

    def mapped(self, constants: Tree, observations: Observations) -> Callable[..., Estimate]:
        """The estimator, over (data, weights, indices, params, memory) of all chains."""

        def estimate(batch: Batch, params: Tree, memory: Any) -> Estimate:
            return self.gradient.estimate(params, batch, constants["estimator"], memory)

        return observations.over_chains(estimate, constants)

    def _noise(self, constants: Tree) -> Callable[..., Tree]:
        """The covariances of the gradient noise, in the coordinates in which the dynamics move."""
        assert self.gradient.terms is not None
        of_terms = self.gradient.terms
        coordinates = Coordinates(constants["preconditioner"], self.iterations.elements)

        def estimate(batch: Batch, params: Tree, memory: Any) -> Tree:
            terms = coordinates.of_gradient(of_terms(params, batch.data, constants["estimator"], memory))
            return {
                name: self._finite_population * how.of_sum(_weighted(terms[name], batch.weights))
                for name, how in self._covariances.items()
            }

        return self.observations.over_chains(estimate, constants)


class InParts(Estimation):
    """Estimates from minibatches of as many parts as each chain needs: the mean over the parts."""

    def draw_inputs(self, constants: Tree, iterations: tf.Tensor) -> BlockInputs:
        """Nothing, since the number of parts depends on the state."""
        return BlockInputs({}, {})

    def counts(self) -> Tree:
        none = tf.zeros([self.iterations.n_chains], tf.float64)
        return {LAST: none, ALL: none}

    def at(self, constants: Tree, params: Tree, memory: Any, inputs: IterationInputs, leap: Part) -> Estimated:
        parts, of_parts, n_chains = self.minibatch.parts, constants["minibatch"], self.iterations.n_chains
        assert parts is not None
        wanted = over_chains(lambda params: parts(params, of_parts), n_chains)(params)  # [C]
        counters = self.iterations.counter(inputs.iteration, leap)[None]
        stream = self.iterations.stream(constants, Purpose.MINIBATCH)
        estimate = self.mapped(constants, self.observations)

        def added(part: tf.Tensor, total: Any) -> tuple:
            indices, weights = self.minibatch.draw(stream, counters, of_parts, part)
            own = () if weights is None else weights[0]
            value, grad, _ = estimate(inputs.fetch(indices[0]), own, indices[0], params, memory)
            share = tf.cast(part < wanted, self.iterations.dtype) / tf.cast(wanted, self.iterations.dtype)
            return part + 1, tf.nest.map_structure(lambda x, y: x + _each(share, y) * y, total, (value, grad))

        zeros = (tf.zeros([n_chains], self.iterations.dtype), tf.nest.map_structure(tf.zeros_like, params))
        most = tf.reduce_max(wanted)
        _, (value, grad) = tf.while_loop(lambda part, _: part < most, added, (tf.constant(0), zeros))
        return Estimated(value, grad, {}, memory, tf.cast(wanted * self.minibatch.size, tf.float64))


class Monitor:
    """Estimates of the gradient at the draws, of whole parameters, each from a separate minibatch."""

    def __init__(self, estimation: Estimation) -> None:
        self._estimation, batches = estimation, (estimation.iterations, estimation.minibatch)
        self._observations = Observations(*batches, MONITOR, Purpose.MONITOR, leaps=1)
        self.draw_inputs = self._observations.draw_inputs

    def gradient(self, constants: Tree, state: Any, inputs: IterationInputs) -> Tree:
        params, of_batch = state.params, self._observations.of(inputs)
        memory = self._estimation.tables.rows_of_batch(state.estimator, of_batch[-1])
        grad = self._estimation.mapped(constants, self._observations)(*of_batch, params, memory).gradient
        return {
            name: put(tf.zeros_like(params[name]), g.rows, g.values) if isinstance(g, RowGradient) else g
            for name, g in grad.items()
        }


def _each(of_chains: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """`of_chains`, [C], with the rank of `like`."""
    return tf.reshape(of_chains, [-1] + [1] * (like.shape.rank - 1))


def _weighted(terms: tf.Tensor, weights: float | tf.Tensor) -> tf.Tensor:
    """The terms of a minibatch, [n, *shape], times their weights."""
    return weights * terms if isinstance(weights, float) else _each(weights, terms) * terms
