"""A sampler ready to run: every choice made, nothing computed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.checksum import checksum
from sgmcmc.core.random import Purpose
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.types import Dynamics, Gradient, Minibatch, State, Transition, Tree
from sgmcmc.kernel import build
from sgmcmc.model import Model
from sgmcmc.run.checkpoint import Checkpoint
from sgmcmc.run.loop import Loop
from sgmcmc.run.mode import ModeSearch, find_mode
from sgmcmc.run.recorder import Recorder, nothing
from sgmcmc.run.session import Session

PROBE_SCALES = (0.0, 0.1, 1.0, 10.0)


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
    shared_minibatch : bool
        Whether all chains look at the same observations.
    settings : mapping of str to Any
        All of this as the user knows it, as JSON.
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
    shared_minibatch: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def transition(self) -> Transition:
        """The algorithm, as the loop knows it."""
        return build(
            self.model,
            self.minibatch,
            self.gradient,
            self.dynamics,
            self.stepsize,
            self.seed,
            self.n_chains or 1,
            self.shared_minibatch,
        )

    @property
    def inner_steps(self) -> int:
        """Gradients in one iteration."""
        return next(iter(self.dynamics.values())).inner_steps

    @property
    def n_stats(self) -> int:
        """How many numbers the dynamics, and stepsizes that change, tell of each draw of a chain."""
        told = len(self.start) if any(callable(eps) for eps in self.stepsize.values()) else 0
        one = tf.ones([], self.model.dtype)
        for name, dynamics in self.dynamics.items():
            if dynamics.stats is not None:
                zeros = tf.zeros(self.start[name].shape, self.model.dtype)
                told += len(dynamics.stats(one, dynamics.init(one, zeros, zeros)))
        return told

    def initial_state(self, verbose: bool) -> State:
        """The state before the first iteration; for control variates, of chains that start at the mode or around it.

        The search for the mode and the pass over all data are made once; a later call finds their result.
        """
        if "state" not in self._made:
            centre = {name: tf.constant(theta, self.model.dtype) for name, theta in self.start.items()}
            if self.search is not None:
                centre = find_mode(self.model, self.minibatch, self.search, centre, self.seed, verbose)
            self._made["state"] = self.transition.init(self._chain_starts(centre), centre)
            self._made["gradient"] = self._made["state"].gradient
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

    def loop(self, state: State, recorder: Recorder) -> Loop:
        """A loop that begins with states like this one."""
        return Loop(self.transition, recorder, state, self.n_chains is not None)

    def session(self, variables: Mapping[str, tf.Variable], verbose: bool) -> Session:
        """A chain to run step by step, from its beginning."""
        state = self.initial_state(verbose)
        loop = self._session_loop(state)
        return Session(loop, loop.flatten(state), variables)

    def with_seed(self, seed: int) -> Sampler:
        """The same with another seed."""
        return replace(self, seed=seed, settings=dict(self.settings) | {"seed": seed})

    def centre(self) -> Tree | None:
        """For control variates, the mode and the full gradient there, once they are known."""
        return self._made["gradient"] if self.search is not None else None

    def restored_session(self, variables: Mapping[str, tf.Variable], saved: Checkpoint) -> Session:
        """A chain to run step by step, from where it was saved."""
        self._made["gradient"] = saved.state.gradient
        loop = self._session_loop(saved.state)
        return Session(loop, loop.flatten(saved.state), variables, saved.iteration)

    def saved_session(self, session: Session) -> Checkpoint:
        """What `restored_session` needs."""
        state, _ = self._made["loop"].unflatten(session.leaves)
        return Checkpoint(session.iteration, 0, state, [], self.identity)

    def _session_loop(self, state: State) -> Loop:
        """Compiled once for all sessions."""
        if "loop" not in self._made:
            self._made["loop"] = self.loop(state, Recorder(nothing))
        return self._made["loop"]

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    @property
    def probes(self) -> list[Tree]:
        """Points at and around where chains begin, at which functions are told from others."""
        rng = np.random.default_rng(0)
        directions = {name: rng.normal(size=theta.shape).astype(theta.dtype) for name, theta in self.start.items()}
        return [
            {
                name: tf.constant(theta + theta.dtype.type(scale) * directions[name])
                for name, theta in self.start.items()
            }
            for scale in PROBE_SCALES
        ]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """By what a chain is known to be of this sampler, as JSON; functions by their values at the probes."""
        some = self.model.data.block(tf.constant(0), min(16, self.model.data.size))
        return dict(self.settings) | {
            "dataset": self.model.data.checksum(),
            "params": {name: [list(theta.shape), checksum(theta)] for name, theta in self.start.items()},
            "logLik": {"probes": [float(self.model.log_lik(point, some)) for point in self.probes]},
            "logPrior": {"probes": [float(self.model.log_prior(point)) for point in self.probes]},
        }
