"""The one compiled loop of the package.

A run in one call makes long stretches of it, and a session makes a few iterations at a
time. Both use the same compiled program and the same blocks of supplies, so their draws
are identical bit by bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.compilation import Compiled, OneThread
from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Tree
from sgmcmc.core.xla import carried, written
from sgmcmc.dataset import Layout, aligned_zeros, on_gpu, shared_tensor
from sgmcmc.dataset.memory import InMemory
from sgmcmc.kernel import BlockInputs, State
from sgmcmc.run import Prepared, Stretch
from sgmcmc.run.feed import Feed, Fetch
from sgmcmc.run.recorder import Recorder

SMALL_LEAF = 1024  # elements of all chains: writing an array takes 0.2 us, as long as copying this many


class Packing:
    """The small leaves [C, ...] of a row in one array per type: XLA takes as long to write one of them as all."""

    def __init__(self, specs: list[tf.TensorSpec]) -> None:
        small: dict[tf.DType, list[int]] = {}
        self._leaves, self._groups = specs, []
        for k, spec in enumerate(specs):
            if spec.shape.num_elements() <= SMALL_LEAF:
                small.setdefault(spec.dtype, []).append(k)
            else:
                self._groups.append([k])
        self._groups += small.values()
        self._sizes = [[specs[k].shape[1:].num_elements() for k in group] for group in self._groups]
        self.specs = [
            tf.TensorSpec([specs[group[0]].shape[0], sum(sizes)], specs[group[0]].dtype)
            for group, sizes in zip(self._groups, self._sizes, strict=True)
        ]

    def packed(self, row: Tree) -> list[tf.Tensor]:
        """A row in arrays [C, width]."""
        flat = [tf.reshape(leaf, [leaf.shape[0], -1]) for leaf in tf.nest.flatten(row)]
        return [tf.concat([flat[k] for k in group], axis=1) for group in self._groups]

    def unpacked(self, rows: list[tf.Tensor]) -> list[tf.Tensor]:
        """The leaves [T, C, ...] of T rows in arrays [T, C, width]."""
        leaves: dict[int, tf.Tensor] = {}
        for packed, group, sizes in zip(rows, self._groups, self._sizes, strict=True):
            for k, part in zip(group, tf.split(packed, sizes, axis=2), strict=True):
                leaves[k] = tf.reshape(part, [packed.shape[0], *self._leaves[k].shape])
        return [leaves[k] for k in range(len(leaves))]


MAX_ROWS = 4096
MAX_BYTES = 2**22
N_ORDERS = 5
LARGE_STATE = 2**24  # bytes


class Outcome(NamedTuple):
    """The results of a call of the loop."""

    leaves: list[tf.Tensor]  # the new state
    rows: list[tf.Tensor]  # the recorded rows, flat: [at least as many as were due, C, ...]
    log_density: np.ndarray  # [C]: the last estimate of the log posterior; NaN if a number was not finite on the way


class Loop:
    """Iterations of one kernel, compiled on first use, on a flat list of leaves: states and accumulators."""

    def __init__(
        self, prepared: Prepared, recorder: Recorder, fetch: Fetch | None = None, block_length: int | None = None
    ) -> None:
        self._kernel, self._recorder, self._data = prepared.kernel, recorder, prepared.data
        self._constants, self._flat_constants = prepared.constants, tf.nest.flatten(prepared.constants)
        self._table = _table(prepared)
        self.leaps = prepared.kernel.leaps
        self.feed = Feed(prepared, fetch, block_length)
        self._example = (prepared.state, recorder.init())
        self._n_leaves = len(tf.nest.flatten(self._example))
        numbered = tf.nest.pack_sequence_as(self._example, list(range(self._n_leaves)))
        self.positions = dict(self._kernel.params(numbered[0]))  # of the parameters among the leaves
        self._without_axis = prepared.n_chains is None
        self.row_specs = self._row_specs()  # {group: {name: [C, ...]}}
        self._packing = Packing(tf.nest.flatten(self.row_specs))
        row_bytes = sum(s.shape.num_elements() * s.dtype.size for s in tf.nest.flatten(self.row_specs))
        self.capacity = int(np.clip(MAX_BYTES // max(row_bytes, 1), 1, min(MAX_ROWS, self.feed.length)))
        self._compiled, self._begun = Compiled(self._advance), False
        self.alone = OneThread()  # the arguments of a call are written in place, so only one thread may call
        # Written in place if possible: making a tensor of a few numbers takes as long as an iteration.
        self._orders = aligned_zeros(1, N_ORDERS)
        self._shared_orders = None if on_gpu() else shared_tensor(self._orders)

    @property
    def shortest(self) -> int:
        """The fewest iterations worth a call: a whole block if the state, which each call copies, is large."""
        return self.feed.length if self.feed.state_bytes > LARGE_STATE else 1

    def flatten(self, state: State, accumulated: list[tf.Tensor] | None = None) -> list[tf.Tensor]:
        """The leaves of a state and of the accumulators; parameters of a single chain have no chain axis."""
        leaves = [*tf.nest.flatten(state), *(accumulated or tf.nest.flatten(self._example[1]))]
        return self._with_axis_changed(leaves, lambda theta: theta[0])

    def unflatten(self, leaves: list[tf.Tensor]) -> tuple[State, Any]:
        """The state of these leaves, and the accumulators."""
        leaves = self._with_axis_changed(list(leaves), lambda theta: theta[None])
        return tf.nest.pack_sequence_as(self._example, leaves)

    def of_chains(self, keys: tf.Tensor) -> None:
        """Go on with other chains, as many as before, given the keys of their random numbers, [purposes, C, 2]."""
        self._constants = self._constants | {"keys": keys}
        self._flat_constants = tf.nest.flatten(self._constants)
        self.feed.of_chains(self._constants)

    def params_of_chains(self, leaves: list[tf.Tensor]) -> dict[str, np.ndarray]:
        """The parameters among these leaves, {name: [C, ...]}."""
        return {name: theta.numpy() for name, theta in self._kernel.params(self.unflatten(leaves)[0]).items()}

    def finite(self, leaves: list[tf.Tensor]) -> dict[str, np.ndarray]:
        """Which parameters and their memories are finite, {name: [C]}."""
        return {name: of_chains.numpy() for name, of_chains in self._kernel.finite(self.unflatten(leaves)[0]).items()}

    def call_end(self, iteration: int) -> int:
        """Where a call must end: at the end of its block, or at a renewal."""
        ends = [(iteration // every + 1) * every for every in (self.feed.length, self._kernel.every) if every]
        return min(ends)

    def advance(self, leaves: list[tf.Tensor], stretch: Stretch) -> Outcome:
        """Make the iterations of a stretch, which must not cross `call_end`, and record its rows."""
        if self._kernel.renew and stretch.begin % self._kernel.every == 0:
            leaves = self._renewed(leaves)
        number, first = divmod(stretch.begin, self.feed.length)
        last = first + stretch.end - stretch.begin
        start = number * self.feed.length
        due, thin = (stretch.due - start, min(stretch.thin, self.feed.length)) if stretch.n_rows else (last + 1, 1)
        if not self._begun:
            self._begin(leaves, number)
        self._orders[0] = first, last, due, thin, start % 2**32
        orders = tf.constant(self._orders) if self._shared_orders is None else self._shared_orders
        results = self._compiled(*leaves, *self._flat_constants, *self._table, *self.feed.block(number), orders)
        n = self._n_leaves
        return Outcome(results[:n], results[n:-1], results[-1].numpy())

    def _renewed(self, leaves: list[tf.Tensor]) -> list[tf.Tensor]:
        assert self._kernel.renew is not None
        state, accumulated = self.unflatten(leaves)
        return self.flatten(self._kernel.renew(state), tf.nest.flatten(accumulated))

    def _begin(self, leaves: list[tf.Tensor], number: int) -> None:
        """Trace this program while the thread compiles that of the feed."""
        self._begun = True
        self.feed.begin(number)
        orders = tf.TensorSpec(self._orders.shape, tf.int64)
        self._compiled.trace([*leaves, *self._flat_constants, *self._table, *self.feed.specs, orders])

    def _advance(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        # The last of the rows is scratch for states that are not due.
        n, c, n_rows = self._n_leaves, len(self._flat_constants), self.capacity + 1
        state, accumulated = self.unflatten(list(arguments[:n]))
        first, last, *_ = tf.unstack(tf.cast(arguments[-1][0], tf.int32))
        buffers = [tf.TensorArray(s.dtype, size=n_rows, element_shape=s.shape) for s in self._packing.specs]

        def row(
            k: tf.Tensor,
            r: tf.Tensor,
            state: State,
            finite: tf.Tensor,
            accumulated: Any,
            buffers: list[tf.TensorArray],
            given: list[tf.Tensor],
        ) -> tuple:
            constants = tf.nest.pack_sequence_as(self._constants, given[:c])
            table = given[c : c + len(self._table)]
            block, fetched = self.feed.structure(given[c + len(table) : -1])
            _, last, due, thin = tf.unstack(tf.cast(given[-1][0, :-1], tf.int32))
            start = tf.cast(given[-1][0, -1], tf.uint32)

            def inputs(k: tf.Tensor) -> BlockOfInputs:
                return BlockOfInputs(k, start + tf.cast(k, tf.uint32), block, fetched, self._data.layout, table)

            def step(k: tf.Tensor, state: State, finite: tf.Tensor) -> tuple[tf.Tensor, State, tf.Tensor]:
                state = self._kernel.step(constants, state, inputs(k))
                return k + 1, state, finite & tf.math.is_finite(self._kernel.log_density(state))

            end = tf.minimum(due + r * thin, last)
            _, state, finite = tf.while_loop(lambda k, *_: k < end, step, (k, state, finite))
            record = self._recorder.record(constants, state, inputs(end - 1))
            buffers = [buffer.write(r, x) for buffer, x in zip(buffers, self._packing.packed(record), strict=True)]
            is_due = tf.equal(end, due + r * thin)
            updated = self._recorder.update(accumulated, constants, state, inputs(end - 1))
            accumulated = tf.nest.map_structure(lambda new, old: tf.where(is_due, new, old), updated, accumulated)
            return end, r + 1, state, finite, accumulated, buffers, [carried(x) for x in given]

        finite = tf.ones(self._kernel.log_density(state).shape, tf.bool)
        _, _, state, finite, accumulated, buffers, _ = tf.while_loop(
            lambda k, *_: k < last,
            row,
            (first, tf.constant(0), state, finite, accumulated, buffers, list(arguments[n:])),
        )
        finite &= tf.reduce_all(tf.stack(list(self._kernel.finite(state).values())), axis=0)
        log_density = tf.where(finite, self._kernel.log_density(state), np.nan)
        rows = self._packing.unpacked([buffer.stack() for buffer in buffers])
        return [*self.flatten(state, tf.nest.flatten(accumulated)), *rows, log_density]

    def _row_specs(self) -> Tree:
        def record(state: State) -> Tree:
            zeros = [tf.zeros(spec.shape, spec.dtype) for spec in self.feed.specs]
            inputs = BlockOfInputs(
                tf.constant(0), tf.constant(0, tf.uint32), *self.feed.structure(zeros), self._data.layout, self._table
            )
            return self._recorder.record(self._constants, state, inputs)

        specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), self._example[0])
        traced = trace(record, specs)
        return tf.nest.map_structure(lambda s: tf.TensorSpec(s.shape, s.dtype), traced.structured_outputs)

    def _with_axis_changed(self, leaves: list[tf.Tensor], change: Any) -> list[tf.Tensor]:
        for position in self.positions.values() if self._without_axis else ():
            leaves[position] = change(leaves[position])
        return leaves


class BlockOfInputs(NamedTuple):
    """`IterationInputs` sliced from a block when they are used."""

    k: tf.Tensor  # the place of the iteration in the block
    iteration: tf.Tensor
    block: BlockInputs
    rows: dict[str, tf.Tensor]
    layout: Layout
    table: list[tf.Tensor]  # all observations, if the state determines which are fetched

    def indices(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        return self._cut(self.block.indices[name], leap)

    def draws(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        return self._cut(self.block.draws[name], leap)

    def data(self, name: str, leap: int | tf.Tensor = 0) -> Tree:
        block = self.rows[name]
        if on_gpu():
            return self.layout.unpack(self._cut(block, leap))
        n_batches, n = block.shape[2:4]
        # One minibatch gets the shape that a chain uses, so that no reshape comes between.
        lead = [n] if n_batches == 1 else [n_batches, n]

        def cut() -> Tree:
            return self.layout.unpack(tf.reshape(self._cut(block, leap), [*lead, self.layout.width]))

        data = written(cut, self.k < 0, self.layout.specs(lead))
        return {name: x[None] for name, x in data.items()} if n_batches == 1 else data

    def fetch(self, indices: tf.Tensor) -> Tree:
        (table,) = self.table
        return self.layout.unpack(tf.gather(table, indices))

    def _cut(self, block: tf.Tensor, leap: int | tf.Tensor) -> tf.Tensor:
        shape = block.shape[2:]
        begin = tf.stack([self.k, tf.convert_to_tensor(leap), *[0] * len(shape)])
        return tf.reshape(tf.slice(block, begin, [1, 1, *shape]), shape)


def _table(prepared: Prepared) -> list[tf.Tensor]:
    """All observations, packed, if the loop needs them."""
    if not prepared.kernel.fetches:
        return []
    assert isinstance(prepared.data, InMemory)
    return [prepared.data.rows]
