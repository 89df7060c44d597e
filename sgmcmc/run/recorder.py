"""What the loop keeps of the states: rows to be stored, and sums in constant memory.

There are sums over at most SLOTS stretches. When all are full, neighbouring pairs are
merged, and stretches are twice as long from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import over_chains
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.trees import Tree
from sgmcmc.kernel import IterationInputs, Kernel, State
from sgmcmc.run.checkpoint import function_identity, summed
from sgmcmc.storage import Reducer

SLOTS = 64
FEWEST = 16  # stretches that are enough to estimate their spread


def begin(sizes: Mapping[str, int]) -> dict[str, Any]:
    """The empty averages, for statistics {name: size}."""
    sums = {name: tf.zeros([SLOTS, size], tf.float64) for name, size in sizes.items()}
    return {"count": tf.constant(0, tf.int64), "length": tf.constant(1, tf.int64), "sums": sums}


def extended(averages: dict[str, Any], row: Tree) -> dict[str, Any]:
    """The averages with one more row, {name: [C, size]}, averaged over the chains."""
    count, length = averages["count"], averages["length"]
    full = tf.equal(count, SLOTS * length)
    length = tf.where(full, 2 * length, length)
    here = tf.one_hot(count // length, SLOTS, dtype=tf.float64)[:, None]
    sums = {}
    for name, old in averages["sums"].items():
        pairs = tf.reduce_sum(tf.reshape(old, [SLOTS // 2, 2, -1]), axis=1)
        joined = tf.concat([pairs, tf.zeros_like(pairs)], axis=0)
        new = tf.reduce_mean(tf.cast(row[name], tf.float64), axis=0)
        sums[name] = tf.where(full, joined, old) + here * new
    return {"count": count + 1, "length": length, "sums": sums}


def of_second_half(averages: dict[str, Any]) -> dict[str, np.ndarray]:
    """The averages of the second half of the full stretches, {name: [stretches, size]}; {} if they are few."""
    length = int(averages["length"])
    whole = int(averages["count"]) // length
    if whole - whole // 2 < FEWEST:
        return {}
    return {name: np.asarray(sums)[whole // 2 : whole] / length for name, sums in averages["sums"].items()}


Collect = Callable[[Tree], Tree]
"""A function from the parameters of one chain to what is stored, {name: [...]}."""


class Recorder(NamedTuple):
    """How a state becomes a row.

    ``record(constants, state, inputs) -> {group: {name: [C, ...]}}`` is the row to
    store; `inputs` are the inputs of the last iteration. ``init()`` and
    ``update(accumulated, constants, state, inputs)`` maintain a nest of tensors, the
    accumulators.
    """

    record: Callable[[Tree, State, IterationInputs], Tree]
    init: Callable[[], Any] = tuple
    update: Callable[[Any, Tree, State, IterationInputs], Any] = lambda accumulated, constants, state, inputs: (
        accumulated
    )


NOTHING = Recorder(lambda constants, state, inputs: {})
"""For a chain of which only the last state is needed."""


class Accumulated(NamedTuple):
    """The accumulators that the loop carries along."""

    reduced: dict[str, Any]  # of each reducer, [C, ...]
    averages: dict[str, tf.Tensor]  # of the statistics, by stretches; empty if rows of them are stored


@dataclass(frozen=True)
class Keep:
    """What to keep of a chain."""

    draw: Mapping[str, tf.TensorSpec]  # of one chain: its parameters, or what `collect` returns
    thin: int = 1
    burn_in: int = 0
    collect: Collect | None = None
    reducers: Mapping[str, Reducer] = field(default_factory=dict)  # if any, rows only of `collect` or gradients
    gradients: bool = False
    transforms: Transforms = field(default_factory=Transforms)  # from positions to parameters

    @property
    def stores(self) -> bool:
        return self.collect is not None or not self.reducers or self.gradients

    @property
    def settings(self) -> dict[str, Any]:
        """These settings by users' names; functions are represented by the shapes of their results."""
        return {
            "thin": self.thin,
            "burnIn": self.burn_in,
            "gradients": self.gradients,
            "collect": {name: _shapes(spec)[0] for name, spec in self.draw.items()} if self.collect else None,
            "reduce": {label: _shapes(reducer.init(self._zeros)) for label, reducer in sorted(self.reducers.items())},
        }

    def identity(self, probes: list[Tree]) -> dict[str, Any]:
        """What identifies them; functions are represented by their values at these positions."""
        probes = [self.transforms.forward(point) for point in probes]
        position = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in probes[0].items()}
        observed = [self.collect(point) if self.collect else point for point in probes]
        reducers = {}
        for label, reducer in sorted(self.reducers.items()):
            accumulated = reducer.init(self._zeros)
            specs = tf.nest.map_structure(_spec, accumulated)
            for draw in observed:
                accumulated = reducer.update(accumulated, draw)
            values = function_identity(summed(accumulated), reducer.update, specs, dict(self.draw))
            reducers[label] = {"shapes": _shapes(accumulated), "values": values}
        collected = None
        if self.collect:
            collected = {
                "shapes": _shapes(self.draw),
                "values": function_identity(summed(observed), self.collect, position),
            }
        return self.settings | {"collect": collected, "reduce": reducers}

    @property
    def _zeros(self) -> Tree:
        return {name: tf.zeros(spec.shape, spec.dtype) for name, spec in self.draw.items()}

    def _observed(self, position: Tree) -> Tree:
        params = self.transforms.forward(position)
        return self.collect(params) if self.collect else params

    def recorder(self, kernel: Kernel, n_chains: int, watched: Mapping[str, int] | None = None) -> Recorder:
        """The recorder for this kernel, which also averages the `watched` statistics, {name: size}."""
        observe = over_chains(self._observed, n_chains) if self.collect or self.transforms else dict

        def statistics_of(constants: Tree, state: State, inputs: IterationInputs) -> Tree:
            return kernel.stats(constants, state, inputs.iteration + tf.constant(1, tf.uint32))

        def record(constants: Tree, state: State, inputs: IterationInputs) -> Tree:
            if not self.stores:
                return {}
            row = {
                "posterior": observe(kernel.params(state)),
                "sample_stats": statistics_of(constants, state, inputs),
            }
            if self.gradients:
                assert kernel.gradient is not None
                row["gradients"] = kernel.gradient(constants, state, inputs)
            return row

        def init() -> Any:
            of_one = {label: reducer.init(self._zeros) for label, reducer in self.reducers.items()}
            of_all = tf.nest.map_structure(lambda x: tf.stack([x] * n_chains), of_one)
            return Accumulated(of_all, begin(watched) if watched else {})

        def update(accumulated: Accumulated, constants: Tree, state: State, inputs: IterationInputs) -> Accumulated:
            observed = observe(kernel.params(state)) if self.reducers else {}
            reduced = {
                label: over_chains(reducer.update, n_chains)(accumulated.reduced[label], observed)
                for label, reducer in self.reducers.items()
            }
            if not watched:
                return Accumulated(reduced, {})
            return Accumulated(reduced, extended(accumulated.averages, statistics_of(constants, state, inputs)))

        return Recorder(record, init, update)


def _shapes(tree: Any) -> Any:
    return [f"{spec.dtype.name}{list(spec.shape)}" for spec in map(_spec, tf.nest.flatten(tree))]


def _spec(x: Any) -> tf.TensorSpec:
    return x if isinstance(x, tf.TensorSpec) else tf.TensorSpec.from_tensor(tf.convert_to_tensor(x))
