"""A sampler ready to run: every choice made, nothing computed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.schedules import Schedule
from sgmcmc.core.types import Dynamics, Gradient, Minibatch, State, Transition, Tree
from sgmcmc.kernel import build
from sgmcmc.model import Model
from sgmcmc.run import chain
from sgmcmc.run.loop import Loop
from sgmcmc.run.mode import ModeSearch, find_mode
from sgmcmc.storage.memory import Memory


@dataclass(frozen=True)
class Sampler:
    """The choices that make a sampler.

    Parameters
    ----------
    name : str
        For messages.
    model : Model
    minibatch : Minibatch
    gradient : Gradient
    dynamics : mapping of str to Dynamics
        One for each parameter.
    stepsize : mapping of str to float or Schedule
        One for each parameter.
    start : mapping of str to numpy.ndarray
        Where the chain, or the mode search before it, begins.
    seed : int
    search : ModeSearch or None
        How to find the mode, if the gradient estimator wants it.
    """

    name: str
    model: Model
    minibatch: Minibatch
    gradient: Gradient
    dynamics: Mapping[str, Dynamics]
    stepsize: Mapping[str, float | Schedule]
    start: Mapping[str, np.ndarray]
    seed: int
    search: ModeSearch | None = None

    @cached_property
    def transition(self) -> Transition:
        """The algorithm, as the loop knows it."""
        return build(self.model, self.minibatch, self.gradient, self.dynamics, self.stepsize, self.seed)

    def initial_state(self, verbose: bool) -> State:
        """The state before the first iteration; for control variates, of a chain that starts at the mode.

        The search for the mode and the pass over all data are made once; a later call finds their result.
        """
        if "state" not in self._made:
            centre = {name: tf.constant(theta, self.model.dtype) for name, theta in self.start.items()}
            if self.search is not None:
                centre = find_mode(self.model, self.minibatch, self.search, centre, self.seed, verbose)
            chain_start = {name: theta[None] for name, theta in centre.items()}
            self._made["state"] = self.transition.init(chain_start, centre)
        return self._made["state"]

    def loop(self, state: State) -> Loop:
        """The loop, compiled on first use, that records the parameters of the single chain."""
        if "loop" not in self._made:
            self._made["loop"] = Loop(self.transition, _record_params, state)
        return self._made["loop"]

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def run(self, n_iterations: int, verbose: bool) -> dict[str, np.ndarray]:
        """Run one chain and return its draws, {name: [n_iterations, ...]}.

        Raises
        ------
        DivergenceError
            With the draws before the divergence.
        """
        state = self.initial_state(verbose)
        loop = self.loop(state)
        storage = Memory(n_iterations, loop.record_specs)
        try:
            chain.run(loop, loop.flatten(state), n_iterations, storage, self.name, verbose)
        except KeyboardInterrupt:
            chain.warn_interrupted(storage.stored, n_iterations)
        return storage.result()


def _record_params(state: State) -> Tree:
    return {name: theta[0] for name, theta in state.params.items()}
