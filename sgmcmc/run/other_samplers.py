"""Samplers other than products: by a user's transition, and on the simplex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import spaced_rows
from sgmcmc.dynamics import Given
from sgmcmc.kernel import Transition
from sgmcmc.kernel.inputs import first_batch
from sgmcmc.kernel.simplex import Counts, Simplex, build_simplex
from sgmcmc.kernel.user_steps import build_transition
from sgmcmc.model import Mode
from sgmcmc.run import Prepared
from sgmcmc.run.checkpoint import function_identity, schedule_identities, summed
from sgmcmc.run.sampler import PROBE_SCALES, Sampler
from sgmcmc.simplex import Rule
from sgmcmc.simplex.scale import Scale


@dataclass(frozen=True, kw_only=True)
class TransitionSampler(Sampler):
    """A sampler that runs a user's transition."""

    transition: Transition

    @property
    def n_stats(self) -> int:
        start = {name: tf.constant(theta) for name, theta in self.start.items()}
        own = self.transition.stats(self.first_memory(start)) if self.transition.stats else {}
        return super().n_stats + sum(int(tf.size(x)) for x in own.values())

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        kernel = build_transition(self.transition, self.minibatch, self.iterations)
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


PROBE_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class SimplexSampler(Sampler):
    """A sampler on the simplex."""

    counts: Counts
    rule: Rule
    alpha: Mapping[str, np.ndarray]
    scale: Scale

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        alpha = {name: tf.constant(x) for name, x in self.alpha.items()}
        choices = Simplex(self.counts, self.rule, self.minibatch, alpha, self._n_counts(), self.iterations, self.scale)
        kernel = build_simplex(choices)
        given = self.constants({}) | {"alpha": alpha}
        state = kernel.init(given, self.chain_starts(dict(self.start)))
        return Prepared(kernel, given, state, self.data, self.n_chains)

    def _n_counts(self) -> dict[str, tf.Tensor]:
        """The counts of each row in all observations: as known, or N/n times those of a first minibatch."""
        if self.counts.in_all is not None:
            return {name: tf.constant(x) for name, x in self.counts.in_all.items()}
        some = spaced_rows(self.data, self.minibatch.size)
        seed = (tf.constant([1, 2]),) if self.counts.takes_seed else ()
        given = ({name: tf.constant(x) for name, x in self.start.items()}, some, *seed)
        counts = trace(self.counts.of, *given)(*given)
        scale = self.data.size / self.minibatch.size
        return {name: scale * tf.reduce_sum(tf.where(x > 0, x, tf.zeros_like(x)), -1) for name, x in counts.items()}

    @property
    def probes(self) -> list[Tree]:
        """Probabilities at and around where chains begin."""
        rng = np.random.default_rng(0)
        directions = {name: rng.normal(size=x.shape) for name, x in self.start.items()}
        return [
            {name: self._moved(x, scale * directions[name]) for name, x in self.start.items()} for scale in PROBE_SCALES
        ]

    def _moved(self, params: np.ndarray, by: np.ndarray) -> tf.Tensor:
        log_theta = (params if self.scale.log else np.log(np.maximum(params, np.finfo(params.dtype).tiny))) + by
        if self.scale.normalised:
            log_theta = log_theta - np.logaddexp.reduce(log_theta, axis=-1, keepdims=True)
        return tf.constant(log_theta if self.scale.log else np.exp(log_theta), params.dtype)

    @cached_property
    def functions(self) -> dict[str, Any]:
        some = spaced_rows(self.data, self.minibatch.size if self.counts.takes_seed else PROBE_ROWS)
        seed = (tf.constant([1, 2]),) if self.counts.takes_seed else ()
        counts = [self.counts.of(point, some, *seed) for point in self.probes[:2]]
        specs = [{name: tf.TensorSpec(x.shape, x.dtype) for name, x in of.items()} for of in (self.probes[0], some)]
        return {
            "suffStats": function_identity(
                summed(counts), self.counts.of, *specs, *(tf.TensorSpec([2], tf.int32) for _ in seed)
            ),
            **schedule_identities(self.stepsize, self.dtype),
        }
