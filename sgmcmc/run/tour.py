"""Chains that go from worker to worker, since the observations of each shard stay with its own.

A chain's next stay follows from its number, so the state of a chain is all that travels:
a job is its iterations on one shard, from one state to another.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.executors import Future
from sgmcmc.core.random import Purpose, Stream
from sgmcmc.core.streams import OF_CHAINS, OF_MINIBATCHES
from sgmcmc.core.types import Mode, Tree
from sgmcmc.dataset.data import Data
from sgmcmc.dataset.remote import Remote, Remotes
from sgmcmc.dataset.shards import OnShard
from sgmcmc.kernel.iterations import FOUND
from sgmcmc.minibatch.within_shards import shard_of
from sgmcmc.run.feed import BLOCK_BYTES, Fetch
from sgmcmc.run.loop import Loop, Outcome
from sgmcmc.run.plan import Stretch
from sgmcmc.run.prepared import TUNING, Prepared
from sgmcmc.run.recorder import NOTHING, Keep, Recorder

if TYPE_CHECKING:
    from sgmcmc.run.product import ProductSampler

KNOWN = 1024  # stays whose shards are found at a time
LONGEST = 64  # iterations of a job; more if their observations are few


class Tour(Loop):
    """The loop of chains whose iterations are made by the workers of remote shards.

    Parameters
    ----------
    prepared : Prepared
        Its data are `Remotes`.
    recorder : Recorder
    sampler : ProductSampler
    keep : Keep, optional
        What the workers record; nothing without one.
    """

    def __init__(
        self, prepared: Prepared, recorder: Recorder, sampler: ProductSampler, keep: Keep | None = None
    ) -> None:
        data = prepared.data
        assert isinstance(data, Remotes)
        self._hop: int = data.shards.hop
        self._parts: list[Remote] = data.parts
        self._sizes: list[int] = data.shards.sizes
        self._chains: range = sampler.chains
        # Blocks of minibatches must not go beyond a stay.
        of_iteration = sampler.minibatch.size * sampler.leaps * data.layout.row_bytes
        longest = max(LONGEST, BLOCK_BYTES // of_iteration)
        length = max(n for n in range(1, min(self._hop, longest) + 1) if self._hop % n == 0)
        super().__init__(prepared, recorder, Fetch.WHEN_NEEDED, length)
        self._keys: np.ndarray = prepared.constants["keys"].numpy().copy()
        if sampler.shared_minibatch:
            for at in map(OF_CHAINS.index, OF_MINIBATCHES):
                self._keys[at] = self._keys[at, :1]
        self._stays: tuple[int, np.ndarray] = (-1, np.zeros([0, 0], np.int64))
        found = {key: prepared.constants[key] for key in FOUND} | {TUNING: prepared.tuning}
        one = sampler.of_chains(sampler.chains[:1])
        self._visits: list[Visit] = [
            Visit(_on(one, OnShard(part, int(start), data.size)), found, prepared.mode, keep, length)
            for part, start in zip(data.parts, data.shards.starts, strict=True)
        ]

    def advance(self, leaves: list[tf.Tensor], stretch: Stretch) -> Outcome:
        """Make the iterations of a stretch, which must not cross `call_end`, and record its rows."""
        where = self._where(stretch.begin // self._hop)
        arrays = [leaf.numpy() for leaf in self._with_axis_changed(list(leaves), lambda theta: theta[None])]
        futures: dict[int, Future] = {}
        with ExitStack() as stack:
            for shard in np.unique(where):
                chains = np.flatnonzero(where == shard)
                legs = [Leg([x[c : c + 1] for x in arrays], self._keys[:, c : c + 1], stretch) for c in chains]
                begun = stack.enter_context(self._parts[shard].workers.begun(_made, self._visits[shard], legs))
                futures |= dict(zip(chains, begun, strict=True))
            made = [self._result(futures[c], c, where[c]) for c in range(len(where))]
        after = [tf.concat(of_chains, axis=0) for of_chains in zip(*(one.leaves for one in made), strict=True)]
        rows = [tf.concat(of_chains, axis=1) for of_chains in zip(*(one.rows for one in made), strict=True)]
        log_density = np.concatenate([one.log_density for one in made])
        return Outcome(self._with_axis_changed(after, lambda theta: theta[0]), rows, log_density)

    def _result(self, future: Future, chain: int, shard: int) -> Outcome:
        try:
            return future.result()
        except Exception as error:
            error.add_note(f"This is of the job of chain {self._chains[chain]} on shard {shard}.")
            raise

    def _where(self, stay: int) -> np.ndarray:
        """The shard of each chain in this stay, [C]."""
        first = stay // KNOWN * KNOWN
        if self._stays[0] != first:
            numbers = tf.cast(tf.range(first, first + KNOWN, dtype=tf.int64) % 2**32, tf.uint32)
            stream = Stream(tf.constant(self._keys[OF_CHAINS.index(Purpose.MINIBATCH)]))
            self._stays = first, shard_of(stream, numbers, self._sizes).numpy()[..., 0]
        return self._stays[1][stay - first]


class Leg(NamedTuple):
    """The iterations of one chain in a job."""

    leaves: list[np.ndarray]
    keys: np.ndarray  # of its random numbers, [purposes, 1, 2]
    stretch: Stretch


@dataclass
class Visit:
    """What the worker of a shard needs to know of all chains, and what it compiles for them once."""

    sampler: ProductSampler
    found: Tree
    mode: Mode | None
    keep: Keep | None
    length: int  # iterations in a block

    @cached_property
    def loop(self) -> Loop:
        """The loop of a single chain."""
        prepared = self.sampler.prepared(self.found, self.mode)
        recorder = NOTHING if self.keep is None else self.keep.recorder(prepared.kernel, 1)
        return Loop(prepared, recorder, Fetch.WHEN_NEEDED, self.length)


def _made(visit: Visit, leg: Leg) -> Outcome:
    loop = visit.loop
    loop.of_chains(tf.constant(leg.keys))
    outcome = loop.advance([tf.constant(x) for x in leg.leaves], leg.stretch)
    return Outcome([x.numpy() for x in outcome.leaves], [x.numpy() for x in outcome.rows], outcome.log_density)


def _on(sampler: ProductSampler, data: Data) -> ProductSampler:
    return replace(sampler, data=data, model=sampler.model.over(data))
