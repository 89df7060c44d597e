"""The choices that make a sampler, and how they become a chain about to begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.checksum import checksum
from sgmcmc.core.coordinates import widths as root_widths
from sgmcmc.core.parameters import numbered, split
from sgmcmc.core.precision import warn_of_lost_noise
from sgmcmc.core.random import Purpose
from sgmcmc.core.schedules import Schedule, exploring, first
from sgmcmc.core.types import FIRST, Dynamics, Gradient, Minibatch, Mode, Tree
from sgmcmc.dataset.data import Data
from sgmcmc.dataset.some import some_rows
from sgmcmc.kernel import Product, build, constants, statistics
from sgmcmc.minibatch import adaptive
from sgmcmc.model import Model
from sgmcmc.run.curvature import Curvature
from sgmcmc.run.gibbs import GibbsStep, then
from sgmcmc.run.identity import summed, told
from sgmcmc.run.mode import AutomaticSearch, ModeSearch, find_mode
from sgmcmc.run.pilot import Sizing, observations_per_square
from sgmcmc.run.prepared import TUNING, Prepared
from sgmcmc.run.visits import counted

PROBE_SCALES = (0.0, 0.1, 1.0, 10.0)
PROBE_ROWS = 16


@dataclass(frozen=True)
class Sampler:
    """A product of choices, and where its chains begin; nothing has been computed yet.

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
        One for each parameter; NaN if it is to be found.
    start : mapping of str to numpy.ndarray
        Where the chain, or the search for the mode before it, begins.
    seed : int
    search : ModeSearch, AutomaticSearch or None
        How to find the mode, if the gradient estimator or the curvature needs it.
    curvature : Curvature
        What the curvature there is used for.
    n_chains : int or None
        None for a single chain whose draws have no chain axis.
    starts : float, mapping of str to numpy.ndarray, or None
        Where the chains begin if not all at `start` or at the mode: at normal points around it with this standard
        deviation, or at these positions, {name: [C, ...]}.
    shared_minibatch : bool
        Whether all chains use the same observations.
    sizing : Sizing or None
        How the size of the minibatches adapts, if it is not fixed.
    gibbs : GibbsStep or None
        The user's own step after each iteration.
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
    search: ModeSearch | AutomaticSearch | None = None
    curvature: Curvature = field(default_factory=Curvature)
    n_chains: int | None = None
    starts: float | Mapping[str, np.ndarray] | None = None
    shared_minibatch: bool = False
    sizing: Sizing | None = None
    gibbs: GibbsStep | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def leaps(self) -> int:
        """The number of gradients in one iteration."""
        return next(iter(self.dynamics.values())).leaps

    @property
    def data(self) -> Data:
        """The observations."""
        return self.model.data

    @property
    def dtype(self) -> tf.DType:
        """The float type of parameters and draws."""
        return self.model.dtype

    @property
    def n_stats(self) -> int:
        """How many statistics are recorded with each draw of a chain."""
        told = (
            1
            + (2 if self.minibatch.parts else 0)
            + (len(self.start) if any(callable(eps) for eps in self.stepsize.values()) else 0)
            + (len(self.start) if exploring(self.stepsize) else 0)
        )
        keys = {key for name, d in self.dynamics.items() for key in statistics(d, self.start[name].shape, self.dtype)}
        return told + len(keys) * len(self.start)

    def prepare(self, verbose: bool, monitored: bool = False) -> Prepared:
        """Chains about to begin. If the mode is needed, this searches for it, and they begin at or around it.

        `monitored` chains can estimate the gradient at a draw.
        """
        mode = None
        if self.search is not None:
            fixed = self.sizing.pilot if self.sizing else self.minibatch
            mode = find_mode(self.model, fixed, self.search, self.start, self.seed, verbose)
        begin = mode or Mode({name: tf.constant(theta) for name, theta in self.start.items()}, {})
        estimator = self.gradient.prepare(begin, verbose)
        worked_out = self.curvature.worked_out(
            self.name,
            self.model,
            {name: theta.shape for name, theta in self.start.items()},
            mode,
            self.gradient,
            estimator,
            next(iter(self.dynamics.values())),
            self.minibatch,
            self.seed,
            verbose,
        )
        gathered = counted(self.model, self.start, verbose)
        found = {
            "estimator": estimator,
            "gathered": gathered,
            "minibatch": worked_out.minibatch,
            "preconditioner": worked_out.preconditioner,
            TUNING: worked_out.tuning,
        }
        mode = mode and mode._replace(precision=None)
        if self.sizing is not None:
            assert mode is not None
            per_square = observations_per_square(self, self.sizing, found, mode, verbose)
            found["minibatch"] = found["minibatch"] | adaptive.constants(mode, per_square, self.dtype)
        return self.prepared(found, mode, monitored)

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        """Chains about to begin, given the constants that were computed before and the mode."""
        chains = range(self.n_chains or 1)
        transition = build(
            Product(
                self.model,
                self.minibatch,
                self.gradient,
                self.dynamics,
                {name: eps for name, eps in self.stepsize.items() if callable(eps)},
                {name: theta.shape for name, theta in self.start.items()},
                len(chains),
                self.shared_minibatch,
                monitored,
            )
        )
        if self.gibbs is not None:
            transition = then(transition, self.gibbs, len(chains))
        tuning = found.get(TUNING, {})
        stepsize = dict.fromkeys(self.stepsize, float(tuning["stepsize"])) if tuning else self.stepsize
        given = constants(self.seed, stepsize, found, self.model.dtype, chains)
        centre = {name: tf.constant(theta, self.model.dtype) for name, theta in self.start.items()}
        state = transition.init(given, self._chain_starts(centre if mode is None else mode.params))
        given["estimator"] = {k: v for k, v in given["estimator"].items() if k != FIRST}
        prepared = Prepared(transition, given, state, self.model.data, self.n_chains, mode, tuning)
        self._warn_of_lost_noise(prepared)
        return prepared

    def _warn_of_lost_noise(self, prepared: Prepared) -> None:
        """Warn at the mode, or with a preconditioner; in other cases the set-up has warned."""
        root = prepared.constants["preconditioner"]
        if prepared.mode is None and not root:
            return
        widths = root_widths(root, numbered({name: theta.shape for name, theta in self.start.items()}))
        noise = {
            name: np.sqrt(first(eps, self.dtype) if callable(eps) else float(fixed)) * widths.get(name, 1.0)
            for (name, eps), fixed in zip(
                sorted(self.stepsize.items()), prepared.constants["stepsize"].numpy()[:, 0], strict=True
            )
        }
        warn_of_lost_noise(self.name, noise, self.start if prepared.mode is None else prepared.mode.params)

    def first_positions(self) -> dict[str, np.ndarray]:
        """Where the chains begin, as far as known without a search, in the shape of a draw."""
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
        elements = numbered({name: theta.shape for name, theta in self.start.items()})
        stream = random.Stream(random.keys(self.seed, Purpose.START, n_chains))
        size = max(e.stop for e in elements.values())
        z = split(stream.normal(tf.zeros([1], tf.uint32), tf.range(size), self.model.dtype)[0], elements)
        return {name: centre[name] + self.starts * z[name] for name in elements}

    def with_seed(self, seed: int) -> Sampler:
        """The same sampler with another seed."""
        return replace(self, seed=seed, settings=dict(self.settings) | {"seed": seed})

    @property
    def probes(self) -> list[Tree]:
        """Points at and around the start of the chains, at which functions are compared."""
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
        """What identifies a chain of this sampler, as JSON."""
        data = self.model.data
        some = some_rows(data, PROBE_ROWS)
        log_lik = [self.model.log_lik(point, some) for point in self.probes]
        log_prior = [self.model.log_prior(point) for point in self.probes]
        params, rows = (
            {name: tf.TensorSpec(x.shape, x.dtype) for name, x in of.items()} for of in (self.probes[0], some)
        )
        gibbs = None
        if self.gibbs is not None:
            seed = tf.constant([1, 2])
            some = some_rows(data, self.minibatch.size)
            updated = [
                self.gibbs.update(point, some, seed) for point in self.probes[:2]
            ]  # further points may be outside the domain
            gibbs = told(summed(updated), self.gibbs.update, params, rows, tf.TensorSpec([2], tf.int32))
        return dict(self.settings) | {
            "gibbs": gibbs,
            "dataset": data.checksum(),
            "params": {name: [list(theta.shape), checksum(theta)] for name, theta in self.start.items()},
            "logLik": told(log_lik, self.model.log_lik, params, rows),
            "logPrior": told(log_prior, self.model.log_prior, params),
        }
