"""The sampler of a Dirichlet process mixture, for runs and storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import DivergenceError, NoRoomError
from sgmcmc.core.files import checksum
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.memory import InMemory
from sgmcmc.kernel.iterations import Iterations
from sgmcmc.model import Mode
from sgmcmc.models.dp.conditionals import CATEGORIES, COUNTS, at_random, counted, log_weights
from sgmcmc.models.dp.kernel import MixtureModel, build
from sgmcmc.run import Prepared
from sgmcmc.run.sampler import Sampler


@dataclass(frozen=True, kw_only=True)
class MixtureSampler(Sampler):
    """The settings of a mixture; `start` has the shapes and types of a state."""

    mixture: MixtureModel
    begin: int | np.ndarray  # the number of components to assign the observations to at random, or assignments [C, N]

    @property
    def iterations(self) -> Iterations:
        n_components, width = self.start["log_theta"].shape
        return super().iterations._replace(shapes={"theta": (n_components, width), "weights": (n_components, 2)})

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        assert isinstance(self.data, InMemory)
        chains = self.chains
        begin, rows = self.begin, self.data.arrays()
        assignments = begin if isinstance(begin, np.ndarray) else at_random(self.seed, chains, self.data.size, begin)
        sizes, counts = counted(assignments, rows[CATEGORIES], rows[COUNTS], self.start["log_theta"].shape)
        start = {"assignments": assignments, "sizes": sizes, "counts": counts}
        constants, kernel = self.constants({}), build(self.mixture, self.iterations)
        alpha = tf.fill([len(chains)], tf.constant(self.start["alpha"], self.dtype))
        state = kernel.init(constants, {"alpha": alpha} | {name: tf.constant(x) for name, x in start.items()})
        return Prepared(kernel, constants, state, self.data, self.n_chains)

    def of_chains(self, chains: range) -> Self:
        part, begin = super().of_chains(chains), self.begin
        if isinstance(begin, np.ndarray):
            begin = begin[chains.start - self.first_chain :][: len(chains)]
        return replace(part, begin=begin, settings=dict(part.settings) | {"starts": in_settings(begin)})

    @property
    def n_stats(self) -> int:
        return 2

    @property
    def functions(self) -> dict[str, Any]:
        return {}

    @property
    def probes(self) -> list[Tree]:
        return [{name: tf.constant(x) for name, x in self.start.items()}]

    def failure(
        self, iteration: int, chain: int, parameter: str, of_density: bool, near: Sequence[Tree]
    ) -> DivergenceError:
        if of_density:
            return NoRoomError(self.start["log_theta"].shape[0], iteration, self.chains[chain])
        return super().failure(iteration, chain, parameter, of_density, near)


def in_settings(begin: int | np.ndarray) -> int | str:
    return checksum(begin) if isinstance(begin, np.ndarray) else begin


def observed(assignments: bool) -> Any:
    def collect(params: Tree) -> Tree:
        draw = {
            "alpha": params["alpha"],
            "components": tf.cast(params["components"], tf.int32),
            "theta": tf.nn.softmax(params["log_theta"]),
            "weights": tf.exp(log_weights(params["sticks"])[0]),
        }
        return draw | ({"assignments": tf.cast(params["assignments"], tf.int32)} if assignments else {})

    return collect
