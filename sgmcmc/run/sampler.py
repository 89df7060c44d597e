"""A sampler ready to run: every choice made, nothing computed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.random import Purpose
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
    n_chains : int or None
        None is a single chain whose draws have no chain axis.
    starts : float, mapping of str to numpy.ndarray, or None
        Where the chains begin if not all at `start`, or at the mode: at points scattered around it with this standard
        deviation, or at these, {name: [C, ...]}.
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
    n_chains: int | None = None
    starts: float | Mapping[str, np.ndarray] | None = None

    @cached_property
    def transition(self) -> Transition:
        """The algorithm, as the loop knows it."""
        n_chains = self.n_chains or 1
        return build(self.model, self.minibatch, self.gradient, self.dynamics, self.stepsize, self.seed, n_chains)

    def initial_state(self, verbose: bool) -> State:
        """The state before the first iteration; for control variates, of chains that start at the mode or around it.

        The search for the mode and the pass over all data are made once; a later call finds their result.
        """
        if "state" not in self._made:
            centre = {name: tf.constant(theta, self.model.dtype) for name, theta in self.start.items()}
            if self.search is not None:
                centre = find_mode(self.model, self.minibatch, self.search, centre, self.seed, verbose)
            self._made["state"] = self.transition.init(self._chain_starts(centre), centre)
        return self._made["state"]

    def first_positions(self) -> dict[str, np.ndarray]:
        """Where the chains begin as far as it is known without a search, in the shape of a draw."""
        if self.n_chains is None:
            return dict(self.start)
        return {name: theta.numpy() for name, theta in self._chain_starts(dict(self.start)).items()}

    def _chain_starts(self, centre: Tree) -> Tree:
        """Where each chain begins, {name: [C, ...]}."""
        if isinstance(self.starts, Mapping):
            return {name: tf.constant(theta) for name, theta in self.starts.items()}
        n_chains = self.n_chains or 1
        if not self.starts:
            return {name: tf.tile(tf.constant(x)[None], [n_chains] + [1] * np.ndim(x)) for name, x in centre.items()}
        stream = random.Stream(self.seed, Purpose.START, n_chains)
        sizes = [int(np.prod(centre[name].shape)) for name in sorted(centre)]
        z = stream.normal(tf.constant(0, tf.uint32), tf.range(sum(sizes)), self.model.dtype)  # [C, all elements]
        return {
            name: centre[name] + self.starts * tf.reshape(part, [n_chains, *centre[name].shape])
            for name, part in zip(sorted(centre), tf.split(z, sizes, axis=1), strict=True)
        }

    def loop(self, state: State) -> Loop:
        """The loop, compiled on first use, that records the parameters."""
        if "loop" not in self._made:
            several = self.n_chains is not None
            self._made["loop"] = Loop(self.transition, _all_chains if several else _single_chain, state, several)
        return self._made["loop"]

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def run(self, n_iterations: int, verbose: bool, thin: int = 1, burn_in: int = 0) -> dict[str, np.ndarray]:
        """Run and return the draws, {name: [T, ...]}, or [C, T, ...] given `n_chains`: T of every `thin` iterations.

        Raises
        ------
        DivergenceError
            With the draws before the divergence.
        """
        state = self.initial_state(verbose)
        loop = self.loop(state)
        n_draws = (n_iterations - burn_in) // thin
        storage = Memory(n_draws, loop.record_specs, chain_axis=self.n_chains is not None)
        try:
            leaves = loop.flatten(state)
            chain.run(loop, leaves, n_iterations, storage, self.name, verbose, thin=thin, burn_in=burn_in)
        except KeyboardInterrupt:
            chain.warn_interrupted(storage.stored, n_draws)
        return storage.result()


def _single_chain(state: State) -> Tree:
    return {name: theta[0] for name, theta in state.params.items()}


def _all_chains(state: State) -> Tree:
    return state.params
