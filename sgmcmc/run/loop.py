"""The one compiled loop of the package.

One-call chains run blocks of it, stepping calls it with a few steps; both run the same compiled program, so both
give the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.core.types import State, Transition, Tree
from sgmcmc.run.recorder import Recorder

MAX_ROWS = 1024
MAX_BYTES = 2**22


class Block(NamedTuple):
    """What a call of the loop gives."""

    leaves: list[tf.Tensor]  # the new state
    rows: Tree  # what was recorded: leaves [capacity, C, ...]
    log_density: tf.Tensor  # [C]: the last estimate of the log posterior; nan if anything was not finite on the way


class Loop:
    """`advance` for one transition, compiled on first use.

    Between calls a state is the flat list of its leaves, and those of what the recorder has accumulated, which
    TensorFlow passes much faster than a structure.

    Parameters
    ----------
    transition : Transition
    recorder : Recorder
        What is kept of the states.
    example : State
        A state whose structure, shapes and types all others share.
    chain_axis : bool, default False
        Whether the parameters among the leaves keep their chain axis even if there is but one chain.
    """

    def __init__(self, transition: Transition, recorder: Recorder, example: State, chain_axis: bool = False) -> None:
        self._transition, self._recorder, self.inner_steps = transition, recorder, transition.inner_steps
        self._example = (example, recorder.init())
        traced = tf.function(recorder.record, autograph=False).get_concrete_function(_specs(example))
        self.record_specs = tf.nest.map_structure(
            lambda s: tf.TensorSpec(s.shape, s.dtype), traced.structured_outputs
        )  # {group: {name: [C, ...]}}
        row_bytes = sum(s.shape.num_elements() * s.dtype.size for s in tf.nest.flatten(self.record_specs))
        self.capacity = int(np.clip(MAX_BYTES // max(row_bytes, 1), 1, MAX_ROWS))
        self._n_leaves = len(tf.nest.flatten(self._example))
        n_chains = next(iter(example.params.values())).shape[0]
        self._without_axis = n_chains == 1 and not chain_axis
        self._compiled = Compiled(self._advance)

    def flatten(self, state: State, accumulated: list[tf.Tensor] | None = None) -> list[tf.Tensor]:
        """The leaves of a state, the parameters as users know them, and those accumulated; without any, as at first."""
        if self._without_axis:
            state = state._replace(params={name: theta[0] for name, theta in state.params.items()})
        return [*tf.nest.flatten(state), *(accumulated or tf.nest.flatten(self._example[1]))]

    def unflatten(self, leaves: list[tf.Tensor]) -> tuple[State, Any]:
        """The state of these leaves, and what accumulated."""
        state, accumulated = tf.nest.pack_sequence_as(self._example, leaves)
        if self._without_axis:
            state = state._replace(params={name: theta[None] for name, theta in state.params.items()})
        return state, accumulated

    def param_positions(self) -> dict[str, int]:
        """Where the parameters stand among the leaves."""
        return dict(tf.nest.pack_sequence_as(self._example, list(range(self._n_leaves)))[0].params)

    def advance(self, leaves: list[tf.Tensor], n_iterations: int) -> Block:
        """Make `n_iterations` iterations and record nothing."""
        return self._call(leaves, 1, n_iterations, 0)

    def advance_and_record(self, leaves: list[tf.Tensor], n_rows: int, thin: int = 1) -> Block:
        """Make ``n_rows * thin`` iterations and record the last of every `thin`; `n_rows` is at most `capacity`.

        The first `n_rows` of the rows that come back are meant.
        """
        return self._call(leaves, n_rows, thin, 1)

    def _call(self, leaves: list[tf.Tensor], n_rows: int, thin: int, keep: int) -> Block:
        n = self._n_leaves
        *results, log_density = self._compiled(*leaves, tf.constant([n_rows, thin, keep]))
        return Block(results[:n], tf.nest.pack_sequence_as(self.record_specs, results[n:]), log_density)

    def _advance(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        *leaves, orders = arguments
        n_rows, thin, keep = tf.unstack(orders)
        buffers = tf.nest.map_structure(
            lambda s: tf.TensorArray(s.dtype, size=self.capacity, element_shape=s.shape), self.record_specs
        )

        def steps(state: State, finite: tf.Tensor) -> tuple[State, tf.Tensor]:
            def body(i: tf.Tensor, state: State, finite: tf.Tensor) -> tuple[tf.Tensor, State, tf.Tensor]:
                state = self._transition.step(state)
                return i + 1, state, finite & tf.math.is_finite(state.log_density)

            n_steps = thin * self.inner_steps
            return tf.while_loop(lambda i, *_: i < n_steps, body, (tf.constant(0), state, finite))[1:]

        def row(r: tf.Tensor, state: State, finite: tf.Tensor, accumulated: Any, buffers: Tree) -> tuple:
            state, finite = steps(state, finite)
            record = self._recorder.record(state)
            updated = self._recorder.update(accumulated, state)
            accumulated = tf.nest.map_structure(lambda new, old: tf.where(keep > 0, new, old), updated, accumulated)
            return r + 1, state, finite, accumulated, tf.nest.map_structure(lambda b, x: b.write(r, x), buffers, record)

        state, accumulated = self.unflatten(leaves)
        finite = tf.ones(state.log_density.shape, tf.bool)
        _, state, finite, accumulated, buffers = tf.while_loop(
            lambda r, *_: r < n_rows, row, (tf.constant(0), state, finite, accumulated, buffers)
        )
        log_density = tf.where(finite & _all_finite(state), state.log_density, np.nan)
        rows = [buffer.stack() for buffer in tf.nest.flatten(buffers)]
        return [*self.flatten(state, tf.nest.flatten(accumulated)), *rows, log_density]


def _specs(state: State) -> State:
    return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), state)


def _all_finite(state: State) -> tf.Tensor:
    leaves = [x for x in tf.nest.flatten((state.params, state.dynamics)) if x.dtype.is_floating]
    return tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(x)) for x in leaves]))
