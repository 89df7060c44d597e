"""The blocks of an iteration, drawn ahead of the chain: minibatches and standard normals.

Both depend only on the numbers of the gradients. They are drawn for all chains at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.random import Purpose, seeds
from sgmcmc.core.trees import Elements, Tree, numbered, split
from sgmcmc.dataset import Data, spaced_rows
from sgmcmc.kernel import BlockInputs, IterationInputs
from sgmcmc.kernel.iterations import Iterations
from sgmcmc.minibatch import Minibatch, Part
from sgmcmc.model import Batch

WEIGHTS = " weights"  # after the name of the observations


class Observations:
    """Minibatches for the first `leaps` gradients of each iteration."""

    def __init__(
        self, iterations: Iterations, minibatch: Minibatch, name: str, purpose: Purpose, leaps: int | None = None
    ) -> None:
        self._iterations, self._minibatch, self._name, self._purpose = iterations, minibatch, name, purpose
        self._leaps = leaps or iterations.leaps

    def draw_inputs(self, constants: Tree, iterations: tf.Tensor) -> BlockInputs:
        counters = self._iterations.counters(iterations, self._leaps)
        stream = self._iterations.stream(constants, self._purpose)
        indices, weights = self._minibatch.draw(stream, counters, constants["minibatch"])
        own = {} if weights is None else {self._name + WEIGHTS: _by_leap(weights, self._leaps)}
        return BlockInputs({self._name: _by_leap(indices, self._leaps)}, own)

    def of(self, inputs: IterationInputs, leap: Part = 0) -> tuple:
        """Data, weights and indices with leaves [C, n, ...], or [1, n, ...] if shared."""
        own = () if self._minibatch.scale is not None else inputs.draws(self._name + WEIGHTS, leap)
        return inputs.data(self._name, leap), own, inputs.indices(self._name, leap)

    def over_chains(self, fn: Callable, constants: Tree, each: Callable[..., Callable] = over_chains) -> Callable:
        """Map `fn(batch, *rest)` over the chain axis of (data, weights, indices, *rest), by `each(fn, n_chains)`."""
        scale, n_chains = self._minibatch.scale, self._iterations.n_chains

        def of_one(data: Tree, weights: Any, indices: tf.Tensor, *rest: Any) -> Any:
            return fn(Batch(data, weights if scale is None else scale, indices, constants["gathered"]), *rest)

        def of_all(data: Tree, weights: Any, indices: tf.Tensor, *rest: Any) -> Any:
            if self._iterations.n_batches == n_chains:
                return each(of_one, n_chains)(data, weights, indices, *rest)
            shared = tf.nest.map_structure(lambda x: x[0], (data, weights, indices))
            return each(lambda *rest: of_one(*shared, *rest), n_chains)(*rest)

        return of_all


class Normals:
    """Standard normals of these parameters, for the first `leaps` gradients of each iteration: draws [K, l, C, D]."""

    def __init__(
        self, iterations: Iterations, elements: Mapping[str, Elements], name: str, purpose: Purpose, leaps: int
    ) -> None:
        self._iterations, self._name, self._purpose, self._leaps = iterations, name, purpose, leaps
        self._numbers = elements
        self._places = numbered({name: e.shape for name, e in elements.items()})  # without gaps

    def draw_inputs(self, constants: Tree, iterations: tf.Tensor) -> BlockInputs:
        if not self._numbers:
            return BlockInputs({}, {})
        counters = self._iterations.counters(iterations, self._leaps)
        return BlockInputs({}, {self._name: _by_leap(self.drawn(constants, counters), self._leaps)})

    def drawn(self, constants: Tree, counters: tf.Tensor) -> tf.Tensor:
        """The normals of these gradients, [K, C, D]."""
        numbers = tf.concat([tf.range(e.start, e.stop) for e in self._numbers.values()], axis=0)
        return self._iterations.stream(constants, self._purpose).normal(counters, numbers, self._iterations.dtype)

    def of(self, inputs: IterationInputs, leap: Part = 0) -> Tree:
        """The normals of a gradient, {name: [C, *shape]}."""
        return self.split(inputs.draws(self._name, leap)) if self._places else {}

    def split(self, flat: tf.Tensor) -> Tree:
        return split(flat, self._places)


class Seeds:
    """The seeds of a user's function, two integers for each iteration and chain: draws int32 [K, 1, C, 2]."""

    def __init__(self, name: str, purpose: Purpose) -> None:
        self._name, self._purpose = name, purpose

    def draw_inputs(self, constants: Tree, iterations: tf.Tensor) -> BlockInputs:
        return BlockInputs({}, {self._name: seeds(constants, self._purpose, iterations)[:, None]})

    def of(self, inputs: IterationInputs) -> tf.Tensor:
        return inputs.draws(self._name)


def first_batch(data: Data, minibatch: Minibatch, dtype: tf.DType) -> Batch:
    """A minibatch of n observations for a trial, with the weights of the minibatch, or 1 if they differ."""
    n = minibatch.size
    weights = tf.ones([n], dtype) if minibatch.scale is None else minibatch.scale
    return Batch(spaced_rows(data, n), weights, tf.range(n))


def drawn_by(*parts: Any) -> Callable[[Tree, tf.Tensor], BlockInputs]:
    """The `draw_inputs` of these parts together."""

    def draw_inputs(constants: Tree, iterations: tf.Tensor) -> BlockInputs:
        blocks = [part.draw_inputs(constants, iterations) for part in parts]
        indices = {name: x for block in blocks for name, x in block.indices.items()}
        return BlockInputs(indices, {name: x for block in blocks for name, x in block.draws.items()})

    return draw_inputs


def data_of_chains(inputs: IterationInputs, name: str, n_chains: int, leap: int = 0) -> Tree:
    """The observations {name: [C, n, *shape]}, also if the chains share them."""
    return {key: tf.broadcast_to(x, [n_chains, *x.shape[1:]]) for key, x in inputs.data(name, leap).items()}


def _by_leap(x: tf.Tensor, leaps: int) -> tf.Tensor:
    return tf.reshape(x, [-1, leaps, *x.shape[1:]])
