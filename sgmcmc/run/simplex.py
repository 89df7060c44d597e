"""Samplers on the simplex: counts of categories, a rule by which probabilities move, and minibatches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Mode, Tree
from sgmcmc.dataset.some import some_rows
from sgmcmc.kernel.simplex import Counts, Simplex, build
from sgmcmc.run.identity import function_identity, schedule_identities, summed
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.sampler import PROBE_SCALES, Sampler
from sgmcmc.simplex.rule import Rule
from sgmcmc.simplex.scale import Scale

PROBE_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class SimplexSampler(Sampler):
    """A rule, and what it is given.

    Parameters
    ----------
    counts : Counts
    rule : Rule
    alpha : mapping of str to numpy.ndarray
        The prior's parameters, in the shape of each parameter.
    scale : Scale
        What parameters are.
    """

    counts: Counts
    rule: Rule
    alpha: Mapping[str, np.ndarray]
    scale: Scale

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        """Chains about to begin: nothing has to be worked out."""
        alpha = {name: tf.constant(x) for name, x in self.alpha.items()}
        choices = Simplex(self.counts, self.rule, self.minibatch, alpha, self._n_counts(), self.iterations, self.scale)
        kernel = build(choices)
        given = self.constants({}) | {"alpha": alpha}
        state = kernel.init(given, self.chain_starts(dict(self.start)))
        return Prepared(kernel, given, state, self.data, self.n_chains)

    def _n_counts(self) -> dict[str, tf.Tensor]:
        """The counts of each row in all observations: as known, or N/n times those of a first minibatch."""
        if self.counts.in_all is not None:
            return {name: tf.constant(x) for name, x in self.counts.in_all.items()}
        some = some_rows(self.data, self.minibatch.size)
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
        """The user's function as JSON: its values at some points, and its graph."""
        some = some_rows(self.data, self.minibatch.size if self.counts.takes_seed else PROBE_ROWS)
        seed = (tf.constant([1, 2]),) if self.counts.takes_seed else ()
        counts = [self.counts.of(point, some, *seed) for point in self.probes[:2]]
        specs = [{name: tf.TensorSpec(x.shape, x.dtype) for name, x in of.items()} for of in (self.probes[0], some)]
        return {
            "suffStats": function_identity(
                summed(counts), self.counts.of, *specs, *(tf.TensorSpec([2], tf.int32) for _ in seed)
            ),
            **schedule_identities(self.stepsize, self.dtype),
        }
