"""What the Setup functions return: a sampler with R's documented fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.schedules import Schedule
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.session import Session
from sgmcmc.samplers._arguments import require_count, require_flag


class Sgmcmc:
    """A sampler ready to run step by step; made by the Setup functions and passed to `initSess`.

    Attributes
    ----------
    params : dict of tf.Variable
        The current position of the chain, or of all chains, (nChains, *shape), usable in your own tensors and functions
        at once. Assign to them between steps and the chain goes on from there.
    N : int
        Number of observations.
    n : int
        Observations per minibatch.
    stepsize : dict of float or schedule
        One for each parameter.
    seed : int
        The seed in use.
    alpha, L : dict of float, int
        Friction and leaps, for SGHMC.
    a : dict of float
        Diffusion factors, for SGNHT.
    paramsOpt, logPostOptGrad : dict of tf.Variable
        The mode and the gradient of the log posterior there, summed over all N, for control variates; computed by
        `initSess`.
    """

    def __init__(self, sampler: Sampler, settings: dict[str, Any]) -> None:
        self._sampler, self._settings = sampler, settings
        self.N = sampler.model.data.size
        self.n = sampler.minibatch.size
        self.stepsize: dict[str, float | Schedule] = dict(sampler.stepsize)
        self.seed = sampler.seed
        self.session: Session | None = None  # the latest, whose position `params` are
        self.params = _variables(sampler.first_positions())
        if sampler.search is not None:
            self.paramsOpt = _variables(sampler.start)
            self.logPostOptGrad = _variables({name: np.zeros_like(theta) for name, theta in sampler.start.items()})
        for name, value in settings.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self._settings.items())
        parameters = ", ".join(self.params)
        return (
            f"<{self._sampler.name}: N={self.N}, n={self.n}, stepsize={self.stepsize}{settings}; params {parameters}>"
        )

    @property
    def data(self) -> dict[str, np.ndarray]:
        """The dataset as the sampler holds it, {name: [N, ...]}: views, not copies."""
        return self._sampler.model.data.arrays()

    def run(self, nIters: int, verbose: bool, thin: int = 1, burnIn: int = 0) -> dict[str, np.ndarray]:
        """Whole chains, for the one-call functions."""
        name = self._sampler.name
        n_iterations, verbose = require_count("nIters", name, nIters, 1), require_flag("verbose", name, verbose)
        burn_in = require_count("burnIn", name, burnIn, 0)
        if burn_in >= n_iterations:
            raise ValueError(f"burnIn of {name} must be less than nIters = {n_iterations}; got {burnIn!r}.")
        every = require_count("thin", name, thin, 1)
        if every > n_iterations - burn_in:
            left = n_iterations - burn_in
            raise ValueError(f"thin of {name} must be at most the {left} iterations after burnIn; got {thin!r}.")
        return self._sampler.run(n_iterations, verbose, every, burn_in)

    def start(self, verbose: bool) -> Session:
        """A new session at the beginning of the chain, for `initSess`."""
        state = self._sampler.initial_state(require_flag("verbose", "initSess", verbose))
        if self._sampler.search is not None:
            for name in self.params:
                self.paramsOpt[name].assign(state.gradient["centre"][name][0])
                self.logPostOptGrad[name].assign(state.gradient["full"][name][0])
        loop = self._sampler.loop(state)
        self.session = Session(loop, loop.flatten(state), self.params)
        return self.session


def _variables(values: Mapping[str, np.ndarray]) -> dict[str, tf.Variable]:
    return {name: tf.Variable(value, name=name) for name, value in values.items()}
