"""Chains of one program that differ in their stepsizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import State, Tree
from sgmcmc.run.advance import stretches
from sgmcmc.run.checkpoint import Beginning
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Pace, Plan
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.product import ProductSampler
from sgmcmc.run.recorder import Recorder


def with_stepsizes(
    sampler: ProductSampler,
    stepsizes: Sequence[Mapping[str, float]],
    beginning: Beginning,
    state: State | None = None,
    monitored: bool = False,
) -> tuple[ProductSampler, Prepared]:
    """Chains with these stepsizes, from the state or from where the sampler's chains begin; and their sampler.

    They use the same observations, which is faster and favours none.
    """
    first = sampler.first_chain
    common = replace(sampler, starts=None, shared_minibatch=True)
    chains = common.of_chains(range(first, first + len(stepsizes)))
    prepared = chains.prepared(beginning.found, beginning.mode, monitored)
    of_each = tf.constant([[eps[name] for eps in stepsizes] for name in sorted(chains.start)], chains.dtype)  # [P, C]
    constants = prepared.constants | {"stepsize": of_each}
    if state is None:
        state = prepared.kernel.init(constants, prepared.kernel.params(prepared.state))
    return chains, replace(prepared, constants=constants, state=state)


class Followed(NamedTuple):
    """What came of chains that went on."""

    state: State
    accumulated: Any
    rows: Tree  # [K, C, ...]
    finite: np.ndarray  # [C]: whether a chain was finite throughout


def followed(
    prepared: Prepared, recorder: Recorder, plan: Plan, progress: Callable[[int], None] = lambda done: None
) -> Followed:
    """The outcome of a plan. Unlike a normal run it goes on if a chain diverges, since others do not depend on it."""
    loop = Loop(prepared, recorder)
    leaves, rows = loop.flatten(prepared.state), []
    finite = np.ones(prepared.chains, bool)
    try:
        for stretch, outcome in stretches(loop, leaves, plan, Pace(loop.feed.length, loop.shortest), failure=None):
            finite &= np.isfinite(outcome.log_density)
            rows.append([row.numpy()[: stretch.n_rows] for row in outcome.rows])
            leaves = outcome.leaves
            progress(stretch.end)
    finally:
        loop.feed.close()
    joined = [np.concatenate(parts) for parts in zip(*rows, strict=True)]
    return Followed(*loop.unflatten(leaves), tf.nest.pack_sequence_as(loop.row_specs, joined), finite)
