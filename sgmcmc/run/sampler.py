"""The interface of all samplers to runs, storage and sessions: choices, and where chains begin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.chains import over_chains
from sgmcmc.core.errors import DivergenceError
from sgmcmc.core.files import checksum
from sgmcmc.core.random import Purpose
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.trees import Tree, numbered, split
from sgmcmc.dataset import Data
from sgmcmc.kernel.iterations import Iterations, constants
from sgmcmc.minibatch import Minibatch
from sgmcmc.model import Mode
from sgmcmc.parallel.executors import Workers
from sgmcmc.run import Prepared
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Keep, Recorder

PROBE_SCALES = (0.0, 0.1, 1.0, 10.0)


def settings_of_chains(
    n_chains: int | None, chains: Sequence[int], starts: float | Mapping[str, np.ndarray] | None
) -> dict[str, Any]:
    """What differs between the chains of one run, by users' names and as JSON."""
    return {
        "nChains": n_chains,
        **({"chains": list(chains)} if list(chains) != list(range(len(chains))) else {}),
        "starts": {name: checksum(x) for name, x in starts.items()} if isinstance(starts, Mapping) else starts,
    }


@dataclass(frozen=True, kw_only=True)
class Sampler(ABC):
    """The choices that make a sampler, and where its chains begin; nothing has been computed yet."""

    name: str  # for messages
    data: Data
    dtype: tf.DType
    minibatch: Minibatch
    stepsize: Mapping[str, float | Schedule]  # NaN if it is to be found
    start: Mapping[str, np.ndarray]
    seed: int
    n_chains: int | None = None  # None for a single chain whose draws have no chain axis
    first_chain: int = 0
    is_part: bool = False  # whether these are some of the chains of a run, which their draws then identify
    starts: float | Mapping[str, np.ndarray] | None = None  # an sd around `start` or the mode, or {name: [C, ...]}
    shared_minibatch: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # all of this in the user's terms, as JSON
    transforms: Transforms = field(default_factory=Transforms)  # from positions to draws

    def find(self, verbose: bool, workers: Workers | None = None) -> tuple[Tree, Mode | None]:
        """What is computed before the first iteration, whichever chains run, and the mode."""
        return {}, None

    @abstractmethod
    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        """Chains about to begin, from the result of `find`; `monitored` ones can estimate the gradient at a draw."""

    def prepare(self, verbose: bool, monitored: bool = False, workers: Workers | None = None) -> Prepared:
        return self.prepared(*self.find(verbose, workers), monitored)

    def loop(self, prepared: Prepared, recorder: Recorder, keep: Keep | None = None) -> Loop:
        """The loop of these chains; `keep` is what the recorder was made from, if anything."""
        return Loop(prepared, recorder)

    @property
    def n_stats(self) -> int:
        """The number of statistics recorded with each draw of a chain."""
        return 1 + (len(self.start) if self.schedules else 0)

    @property
    @abstractmethod
    def functions(self) -> dict[str, Any]:
        """The functions of the user as JSON: their values at the probes and their graphs."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: theta.shape for name, theta in self.start.items()}

    @property
    def schedules(self) -> dict[str, Schedule]:
        return {name: eps for name, eps in self.stepsize.items() if callable(eps)}

    @property
    def chains(self) -> range:
        """The numbers of the chains, on which their random numbers depend."""
        return range(self.first_chain, self.first_chain + (self.n_chains or 1))

    @property
    def leaps(self) -> int:
        """The number of minibatches in one iteration."""
        return 1

    @property
    def iterations(self) -> Iterations:
        return Iterations(self.shapes, self.dtype, self.schedules, len(self.chains), self.shared_minibatch, self.leaps)

    def constants(self, found: Tree, stepsize: Mapping[str, float | Schedule] | None = None) -> Tree:
        """The constants of the kernel, with those in `found`, and with `stepsize` or the sampler's own."""
        return constants(self.seed, stepsize or self.stepsize, found, self.dtype, self.chains, self.shared_minibatch)

    @property
    def searches(self) -> bool:
        return False

    @property
    def wants_mode(self) -> bool:
        """Whether the mode is a public field of the sampler."""
        return False

    @property
    def facts(self) -> dict[str, Any]:
        """Properties of its dynamics for checks of the draws, as JSON; they do not identify a chain."""
        return {}

    @property
    def draw(self) -> dict[str, tf.TensorSpec]:
        return {name: tf.TensorSpec(theta.shape, theta.dtype) for name, theta in self.as_draw(self.start).items()}

    def as_draw(self, position: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The parameters at a position of one chain."""
        draw = self.transforms.forward({name: tf.constant(theta) for name, theta in position.items()})
        return {name: theta.numpy() for name, theta in draw.items()}

    def first_positions(self) -> dict[str, np.ndarray]:
        """Where the chains begin, as far as known without a search, as a draw."""
        if self.n_chains is None:
            return self.as_draw(self.start)
        of_chains = self.chain_starts(dict(self.start))
        if self.transforms:
            of_chains = over_chains(self.transforms.forward, self.n_chains)(of_chains)
        return {name: theta.numpy() for name, theta in of_chains.items()}

    def chain_starts(self, centre: Tree) -> Tree:
        """Where each chain begins, {name: [C, ...]}."""
        if isinstance(self.starts, Mapping):
            return {name: tf.constant(theta) for name, theta in self.starts.items()}
        if not self.starts:
            n_chains = len(self.chains)
            return {name: tf.tile(tf.constant(x)[None], [n_chains] + [1] * np.ndim(x)) for name, x in centre.items()}
        elements = numbered(self.shapes)
        stream = random.Stream(random.keys(self.seed, Purpose.START, self.chains))
        size = max(e.stop for e in elements.values())
        z = split(stream.normal(tf.zeros([1], tf.uint32), tf.range(size), self.dtype)[0], elements)
        return {name: centre[name] + self.starts * z[name] for name in elements}

    def failure(
        self, iteration: int, chain: int, parameter: str, of_density: bool, near: Sequence[Tree]
    ) -> DivergenceError:
        """The error for a state of chain number `chain` here, at positions `near`, that is not finite."""
        return DivergenceError(iteration, self.chains[chain], parameter, of_density, self.explained(near))

    def explained(self, near: Sequence[Tree]) -> str:
        """Why the log posterior is not finite at one of these positions."""
        return ""

    def of_chains(self, chains: range) -> Self:
        """The same sampler restricted to some of its chains, by their numbers."""
        starts = self.starts
        if isinstance(starts, Mapping):
            starts = {name: theta[chains.start - self.first_chain :][: len(chains)] for name, theta in starts.items()}
        return replace(
            self,
            n_chains=len(chains),
            first_chain=chains.start,
            is_part=True,
            starts=starts,
            settings=dict(self.settings) | settings_of_chains(len(chains), chains, starts),
        )

    def with_seed(self, seed: int) -> Self:
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
            for scale in (
                PROBE_SCALES[:-1] if self.transforms else PROBE_SCALES
            )  # exp of ten times a normal would swamp the others
        ]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What identifies a chain of this sampler, as JSON."""
        known = {
            "dataset": self.data.checksum(),
            "params": {name: [list(theta.shape), checksum(theta)] for name, theta in self.start.items()},
        }
        return dict(self.settings) | known | self.functions
