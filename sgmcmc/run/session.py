"""A chain run step by step: the only mutable state of the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Mode, Tree
from sgmcmc.run.advance import stretches
from sgmcmc.run.checkpoint import Checkpoint, decode_constants, encode_constants
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Pace, Plan
from sgmcmc.run.prepared import Prepared


class Session:
    """The state of a chain, or of several side by side, between steps.

    The position is read from `variables` before each step and written back after it, so that users may compute with
    them, and assign to them; by raw operations, because the methods of tf.Variable take longer than a step does.

    Parameters
    ----------
    loop : Loop
    leaves : list of tf.Tensor
        The state to begin with.
    variables : mapping of str to tf.Variable
        One for each parameter; they are given the position of that state.
    iteration : int, default 0
        How many iterations led to it.
    """

    def __init__(
        self, loop: Loop, leaves: list[tf.Tensor], variables: Mapping[str, tf.Variable], iteration: int = 0
    ) -> None:
        self._loop, self._positions = loop, loop.param_positions()
        self.variables, self.leaps = variables, loop.leaps
        self._pace = Pace(loop.feed.length)
        self._pace.length = loop.feed.length
        self._at = (list(leaves), iteration, False)
        self._write()

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(variable.shape)}" for name, variable in sorted(self.variables.items()))
        return f"<session after {self.iteration} iterations: {shapes}>"

    @property
    def iteration(self) -> int:
        """How many iterations have been made."""
        return self._at[1]

    def step(self, n_steps: int = 1) -> None:
        """Make `n_steps` iterations, or none: after an error everything is as it was.

        Raises
        ------
        DivergenceError
            If the state is no longer finite.
        """
        leaves, done = self.leaves, self.iteration
        for _, outcome in stretches(self._loop, leaves, Plan(done + n_steps, thin=None), self._pace, done):
            leaves = outcome.leaves
        self._at = (list(leaves), done + n_steps, False)
        self._write()

    @property
    def leaves(self) -> list[tf.Tensor]:
        """The leaves of the state, at the position that the variables now hold."""
        self._write()
        leaves = list(self._at[0])
        for name, position in self._positions.items():
            variable = self.variables[name]
            leaves[position] = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
        return leaves

    def params(self) -> dict[str, np.ndarray]:
        """The current position, {name: [...]}."""
        self._write()
        return {name: variable.numpy() for name, variable in self.variables.items()}

    def _write(self) -> None:
        """Give the variables the position, if they do not have it yet: an interrupt may have come in between."""
        leaves, iteration, written = self._at
        if not written:
            for name, position in self._positions.items():
                tf.raw_ops.AssignVariableOp(resource=self.variables[name].handle, value=leaves[position])
            self._at = (leaves, iteration, True)


def saved(session: Session, prepared: Prepared, settings: dict[str, Any]) -> bytes:
    """Where a session stands, with what was worked out before it began."""
    leaves = [leaf.numpy() for leaf in session.leaves]
    state = Checkpoint(session.iteration, 0, leaves, settings).encode()
    return len(state).to_bytes(8, "little") + state + encode_constants(prepared)


def restored(data: bytes, path: str) -> tuple[Checkpoint, tuple[Tree, Mode | None]]:
    """What `saved` gave: the checkpoint, and the constants of the gradient estimator with the mode.

    Raises
    ------
    ValueError
        If the file at `path` holds something else.
    """
    size = int.from_bytes(data[:8], "little")
    try:
        return Checkpoint.decode(data[8 : 8 + size]), decode_constants(data[8 + size :])
    except ValueError as error:
        raise ValueError(f"path of restoreSess must be a file that saveSess wrote; got {path!r}.") from error
