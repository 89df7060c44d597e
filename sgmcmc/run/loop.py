"""The one compiled loop of the package.

One-call chains run blocks of it, stepping calls it with a few steps; both run the same compiled program, so both
give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.core.types import State, Transition, Tree

MAX_ROWS = 1024
MAX_BYTES = 2**22

Recorder = Callable[[State], Tree]


class Block(NamedTuple):
    """What a call of the loop gives."""

    leaves: list[tf.Tensor]  # the new state
    draws: dict[str, tf.Tensor]  # {name: [capacity, ...]}
    log_density: tf.Tensor  # [C]: an estimate of the log posterior at the new state, nan if that is not finite


class Loop:
    """`advance` for one transition, compiled on first use.

    Between calls a state is the flat list of its leaves, which TensorFlow passes much faster than a structure.

    Parameters
    ----------
    transition : Transition
    recorder : callable
        What is kept of a state, {name: [...]}.
    example : State
        A state whose structure, shapes and types all others share.
    chain_axis : bool, default False
        Whether the parameters among the leaves keep their chain axis even if there is but one chain.
    """

    def __init__(self, transition: Transition, recorder: Recorder, example: State, chain_axis: bool = False) -> None:
        self._transition, self._recorder, self._example = transition, recorder, example
        records = tf.function(recorder, autograph=False).get_concrete_function(_specs(example)).structured_outputs
        self.record_specs = {name: (tuple(s.shape), s.dtype.as_numpy_dtype) for name, s in records.items()}
        row_bytes = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in self.record_specs.values())
        self.capacity = int(np.clip(MAX_BYTES // max(row_bytes, 1), 1, MAX_ROWS))
        self._n_leaves = len(tf.nest.flatten(example))
        n_chains = next(iter(example.params.values())).shape[0]
        self._without_axis = n_chains == 1 and not chain_axis
        self._compiled = Compiled(self._advance)

    def flatten(self, state: State) -> list[tf.Tensor]:
        """The leaves of a state, the parameters as users know them."""
        if self._without_axis:
            state = state._replace(params={name: theta[0] for name, theta in state.params.items()})
        return tf.nest.flatten(state)

    def unflatten(self, leaves: list[tf.Tensor]) -> State:
        """The state of these leaves."""
        state = tf.nest.pack_sequence_as(self._example, leaves)
        if self._without_axis:
            state = state._replace(params={name: theta[None] for name, theta in state.params.items()})
        return state

    def param_positions(self) -> dict[str, int]:
        """Where the parameters stand among the leaves."""
        return dict(tf.nest.pack_sequence_as(self._example, list(range(self._n_leaves))).params)

    def advance(self, leaves: list[tf.Tensor], n_iterations: int, thin: int = 1) -> Block:
        """Make `n_iterations` iterations and record the last of every `thin`; at most ``capacity * thin``.

        The first ``n_iterations // thin`` rows of the draws are meant. The log posterior is estimated on a minibatch of
        its own.
        """
        n = self._n_leaves
        *results, log_density = self._compiled(*leaves, tf.constant([n_iterations, thin]))
        return Block(results[:n], dict(zip(self.record_specs, results[n:], strict=True)), log_density)

    def _advance(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        *leaves, orders = arguments
        n_iterations, thin = tf.unstack(orders)
        inner_steps = self._transition.inner_steps
        buffers = {
            name: tf.TensorArray(dtype, size=self.capacity, element_shape=shape)
            for name, (shape, dtype) in self.record_specs.items()
        }

        def body(i: tf.Tensor, state: State, buffers: Tree) -> tuple[tf.Tensor, State, Tree]:
            state = self._transition.step(state)
            row = i // inner_steps // thin  # written by every step, so that the last of its iterations remains
            record = self._recorder(state)
            return i + 1, state, {name: buffer.write(row, record[name]) for name, buffer in buffers.items()}

        _, state, buffers = tf.while_loop(
            lambda i, *_: i < n_iterations * inner_steps, body, (tf.constant(0), self.unflatten(leaves), buffers)
        )
        log_density = self._transition.log_density(state)
        draws = [buffers[name].stack() for name in self.record_specs]
        return [*self.flatten(state), *draws, tf.where(_all_finite(state), log_density, np.nan)]


def _specs(state: State) -> State:
    return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), state)


def _all_finite(state: State) -> tf.Tensor:
    leaves = [x for x in tf.nest.flatten((state.params, state.dynamics)) if x.dtype.is_floating]
    return tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(x)) for x in leaves]))
