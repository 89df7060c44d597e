"""Chains that hop between shards of the data, or travel to the workers that hold them.

The shard of a stay follows from the number of the stay, so only the state of a chain
travels. A job is its iterations on one shard, from one state to another.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.core.random import OF_CHAINS, OF_MINIBATCHES, Purpose, Stream
from sgmcmc.core.schedules import first
from sgmcmc.core.transforms import DENSE, DIAGONAL
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data
from sgmcmc.dataset.remote import RemoteShard, RemoteShards
from sgmcmc.dataset.shards import OnShard, shards_of
from sgmcmc.dataset.subset import random_subset
from sgmcmc.kernel.iterations import FOUND
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.shard_hops import Shard, mobility, sd_ratios
from sgmcmc.laplace.whitening import FLOPS, n_rows
from sgmcmc.minibatch.within_shards import shard_of
from sgmcmc.model import Mode
from sgmcmc.parallel.executors import Future
from sgmcmc.run import TUNING, Prepared, Stretch
from sgmcmc.run.feed import BLOCK_BYTES, Fetch
from sgmcmc.run.loop import Loop, Outcome
from sgmcmc.run.recorder import NOTHING, Keep, Recorder

if TYPE_CHECKING:
    from sgmcmc.run.product import ProductSampler


MOST = 500  # elements of the parameters, for matrices of each shard
PER_ELEMENT = 100  # observations of a shard, at least, if not all: its curvature is then accurate to a tenth
TOLERANCE = 0.05  # of an sd, if the run has none


def with_shards(sampler: ProductSampler, mode: Mode, preconditioner: Tree, tuning: Tree) -> Tree:
    """The tuning with the sds of a chain that hops between shards, after a warning if they are far off."""
    data, posterior = sampler.model.data, Posterior(sampler.model, sampler.shapes)
    assert data.shards is not None
    hop, shards = data.shards.hop, _at_mode(sampler, posterior, mode)
    precision = sum((one.share * one.precision for one in shards), np.zeros([posterior.size, posterior.size]))
    if not np.linalg.eigvalsh(precision)[0] > 0:  # unknown, or not concave, which has its own warnings
        return tuning
    root = _root(sampler, posterior, precision, preconditioner, float(tuning["stepsize"]) if tuning else None)
    ratios = sd_ratios(shards, root, hop)
    if not np.abs(ratios - 1).max() <= (sampler.curvature.tolerance or TOLERANCE):
        _warn(sampler, posterior, ratios, sd_ratios(shards, root, 1) if hop > 1 else None)
    if not tuning or not np.isfinite(ratios).all():
        return tuning
    of_each = posterior.arrays(ratios)
    return tuning | {key: {name: x * of_each[name] for name, x in tuning[key].items()} for key in ("sd", "sdRatio")}


def _at_mode(sampler: ProductSampler, posterior: Posterior, mode: Mode) -> list[Shard]:
    """The contribution of each shard at the mode; empty if it is unknown or too expensive."""
    size, data = posterior.size, list(shards_of(sampler.model.data))
    rows = n_rows(size, FLOPS) // len(data)
    moves = all(one.stationary is not None for one in sampler.dynamics.values())
    if not moves or size > MOST or rows < min(PER_ELEMENT * size, max(one.size for one in data)):
        return []
    at, shards = posterior.flat(mode.params), []
    for one in data:
        part = posterior.of(random_subset(one, rows, sampler.seed))
        gradient = np.zeros(size) if sampler.gradient.centred else part.value_and_gradient(at)[1]
        shards.append(Shard(one.size / sampler.model.data.size, -part.hessian(at), gradient))
    return shards


def _root(
    sampler: ProductSampler, posterior: Posterior, precision: np.ndarray, preconditioner: Tree, stepsize: float | None
) -> np.ndarray:
    """A root of the matrix by which a gradient moves the chain in an iteration, [D, D]."""
    root = np.eye(posterior.size)
    if DENSE in preconditioner:
        root = preconditioner[DENSE].numpy().astype(np.float64)
    elif preconditioner:
        root = np.diag(posterior.flat(preconditioner[DIAGONAL]))
    in_root = np.einsum("ji,jk,ki->i", root, precision, root)
    moved = np.empty(posterior.size)
    for name, e in posterior.elements.items():
        eps = first(sampler.stepsize[name], sampler.dtype) if stepsize is None else stepsize
        moved[e.start : e.stop] = mobility(sampler.dynamics[name], eps, in_root[e.start : e.stop])
    return root * np.sqrt(moved)


def _warn(sampler: ProductSampler, posterior: Posterior, ratios: np.ndarray, if_one: np.ndarray | None) -> None:
    """Warn of these ratios; `if_one` are those with a hop in each iteration, if hops are less frequent."""
    most = ratios.max()
    name = posterior.names(ratios == most)[0]
    large = f"up to {most - 1:.0%} too large" if np.isfinite(most) else "unbounded"
    cures = ["decrease stepsize", "assign the observations to shards at random"]
    if if_one is not None:
        cures.insert(0, f"hop more often (with hop=1 it would be {if_one.max() - 1:.0%})")
    if not sampler.gradient.centred:
        cures.append("use control variates")
    warn_user(
        f"the shards of {sampler.name} differ so much that standard deviations of its draws are predicted to be "
        f"{large}, in {name!r}: {', or '.join(cures)}."
    )


STAYS_AT_ONCE = 1024  # stays whose shards are found at a time
LONGEST = 64  # iterations of a job; more if their observations are few


class RemoteLoop(Loop):
    """The loop of chains whose iterations are made by the workers of remote shards."""

    def __init__(
        self, prepared: Prepared, recorder: Recorder, sampler: ProductSampler, keep: Keep | None = None
    ) -> None:
        data = prepared.data
        assert isinstance(data, RemoteShards)
        self._hop: int = data.shards.hop
        self._parts: list[RemoteShard] = data.parts
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
        self._visits: list[ShardJob] = [
            ShardJob(_on(one, OnShard(part, int(start), data.size)), found, prepared.mode, keep, length)
            for part, start in zip(data.parts, data.shards.starts, strict=True)
        ]

    def advance(self, leaves: list[tf.Tensor], stretch: Stretch) -> Outcome:
        where = self._where(stretch.begin // self._hop)
        arrays = [leaf.numpy() for leaf in self._with_axis_changed(list(leaves), lambda theta: theta[None])]
        futures: dict[int, Future] = {}
        with ExitStack() as stack:
            for shard in np.unique(where):
                chains = np.flatnonzero(where == shard)
                legs = [ChainStretch([x[c : c + 1] for x in arrays], self._keys[:, c : c + 1], stretch) for c in chains]
                begun = stack.enter_context(self._parts[shard].workers.begun(_advanced, self._visits[shard], legs))
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
            error.add_note(f"This comes from the job of chain {self._chains[chain]} on shard {shard}.")
            raise

    def _where(self, stay: int) -> np.ndarray:
        """The shard of each chain in this stay, [C]."""
        first = stay // STAYS_AT_ONCE * STAYS_AT_ONCE
        if self._stays[0] != first:
            numbers = tf.cast(tf.range(first, first + STAYS_AT_ONCE, dtype=tf.int64) % 2**32, tf.uint32)
            stream = Stream(tf.constant(self._keys[OF_CHAINS.index(Purpose.MINIBATCH)]))
            self._stays = first, shard_of(stream, numbers, self._sizes).numpy()[..., 0]
        return self._stays[1][stay - first]


class ChainStretch(NamedTuple):
    leaves: list[np.ndarray]
    keys: np.ndarray  # of its random numbers, [purposes, 1, 2]
    stretch: Stretch


@dataclass
class ShardJob:
    """What the worker of a shard needs to know about all chains, and the loop that it compiles for them once."""

    sampler: ProductSampler
    found: Tree
    mode: Mode | None
    keep: Keep | None
    length: int  # iterations in a block

    @cached_property
    def loop(self) -> Loop:
        prepared = self.sampler.prepared(self.found, self.mode)
        recorder = NOTHING if self.keep is None else self.keep.recorder(prepared.kernel, 1)
        return Loop(prepared, recorder, Fetch.WHEN_NEEDED, self.length)


def _advanced(visit: ShardJob, leg: ChainStretch) -> Outcome:
    loop = visit.loop
    loop.of_chains(tf.constant(leg.keys))
    outcome = loop.advance([tf.constant(x) for x in leg.leaves], leg.stretch)
    return Outcome([x.numpy() for x in outcome.leaves], [x.numpy() for x in outcome.rows], outcome.log_density)


def _on(sampler: ProductSampler, data: Data) -> ProductSampler:
    return replace(sampler, data=data, model=sampler.model.over(data))
