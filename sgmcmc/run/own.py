"""Samplers by a transition of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorflow as tf

from sgmcmc.core.types import Given, Mode, Transition, Tree
from sgmcmc.kernel.own import build
from sgmcmc.kernel.supplies import first_batch
from sgmcmc.run.identity import function_identity, schedule_identities, summed
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.sampler import Sampler


@dataclass(frozen=True, kw_only=True)
class OwnSampler(Sampler):
    """A transition, and what it is given.

    Parameters
    ----------
    transition : Transition
    """

    transition: Transition

    @property
    def n_stats(self) -> int:
        """How many numbers are recorded beside each draw of a chain."""
        start = {name: tf.constant(theta) for name, theta in self.start.items()}
        own = self.transition.stats(self.first_memory(start)) if self.transition.stats else {}
        return super().n_stats + sum(int(tf.size(x)) for x in own.values())

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        """Chains about to begin: nothing has to be worked out."""
        if monitored:
            raise ValueError(
                f"gradients of {self.name} must be False with a transition, which estimates none; got True."
            )
        kernel = build(self.transition, self.minibatch, self.iterations)
        given = self.constants({"minibatch": self.minibatch.prepare(None)})
        state = kernel.init(given, self.chain_starts({name: tf.constant(x) for name, x in self.start.items()}))
        return Prepared(kernel, given, state, self.data, self.n_chains)

    def first_memory(self, params: Tree) -> Any:
        """The memory of a chain that begins at `params`, if all noise is 1."""
        return self.transition.init(params, self._given())

    def first_step(self) -> Callable[[Tree], tuple]:
        """The first step of a chain as a function of where it begins, on the first n observations."""
        batch = first_batch(self.data, self.minibatch, self.dtype)

        def step(params: Tree) -> tuple:
            given = self._given()._replace(seed=tf.constant([1, 2]))
            return self.transition.step(params, self.first_memory(params), batch, given)

        return step

    def _given(self) -> Given:
        eps = {name: tf.constant(0.01 if callable(eps) else eps, self.dtype) for name, eps in self.stepsize.items()}
        return Given(eps, {name: tf.ones(shape, self.dtype) for name, shape in self.shapes.items()})

    @cached_property
    def functions(self) -> dict[str, Any]:
        """The transition as JSON: its first step at the start, and its graph."""
        step, stats = self.first_step(), self.transition.stats

        def first(params: Tree) -> tuple:
            made = step(params)
            return made, stats(made[1]) if stats else {}

        specs = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in self.probes[0].items()}
        values = [x for point in self.probes[:2] for x in summed(first(point))]  # others may be outside of the domain
        return {"transition": function_identity(values, first, specs), **schedule_identities(self.stepsize, self.dtype)}
