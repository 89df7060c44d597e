"""A chain run step by step: the only mutable state of the package."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.run.chain import check_finite, next_length
from sgmcmc.run.loop import Loop

LONGEST_BLOCK = 1024  # iterations


class Session:
    """The state of a chain, or of several side by side, between steps.

    The position is read from `variables` before each step and written back after it, so that users may compute with
    them, and assign to them; by raw operations, because the methods of tf.Variable take longer than a step does.

    Parameters
    ----------
    loop : Loop
    leaves : list of tf.Tensor
        The initial state.
    variables : mapping of str to tf.Variable
        One for each parameter; they are given the position of the initial state.
    """

    def __init__(self, loop: Loop, leaves: list[tf.Tensor], variables: Mapping[str, tf.Variable]) -> None:
        self._loop, self._leaves = loop, list(leaves)
        self._positions = loop.param_positions()
        self.variables = variables
        self.iteration, self._block_length = 0, LONGEST_BLOCK // 8
        self._write()

    def step(self, n_steps: int = 1) -> None:
        """Make `n_steps` iterations, or none: after an error everything is as it was.

        Raises
        ------
        DivergenceError
            If the state is no longer finite.
        """
        for name, position in self._positions.items():
            variable = self.variables[name]
            self._leaves[position] = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
        leaves, done = self._leaves, 0
        while done < n_steps:
            n, started = min(self._block_length, n_steps - done), time.perf_counter()
            block = self._loop.advance(leaves, n, thin=n)
            check_finite(self._loop, leaves, block, n, self.iteration + done)
            leaves, done = block.leaves, done + n
            self._block_length = next_length(self._block_length, time.perf_counter() - started, LONGEST_BLOCK, 1)
        self._leaves = list(leaves)
        self.iteration += n_steps
        self._write()

    def params(self) -> dict[str, np.ndarray]:
        """The current position, {name: [...]}."""
        return {name: variable.numpy() for name, variable in self.variables.items()}

    def _write(self) -> None:
        for name, position in self._positions.items():
            tf.raw_ops.AssignVariableOp(resource=self.variables[name].handle, value=self._leaves[position])
