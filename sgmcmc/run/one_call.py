"""A whole run in one call: from a sampler to its draws, in memory or on disk, from the start or from a checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import mapped
from sgmcmc.core.errors import DivergenceError, reason
from sgmcmc.core.progress import unheard_warnings
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.types import Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.output import tuning
from sgmcmc.output.draws import Draws, iterations_of
from sgmcmc.run import advance, batch_means
from sgmcmc.run.checkpoint import Beginning, Checkpoint
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Plan
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.recorder import Keep
from sgmcmc.run.sampler import Sampler
from sgmcmc.storage.memory import Memory
from sgmcmc.storage.zarr import ZarrStore, create

OF_CHAINS = ("nChains", "chains", "starts")  # settings that differ between the chains of one run


class Saved(NamedTuple):
    """What a store has besides the draws."""

    checkpoint: Checkpoint
    beginning: Beginning


@dataclass
class Kept:
    """What a sampler keeps of a run for the next one."""

    prepared: Prepared | None = None
    loops: list[tuple[Keep, Loop]] = field(default_factory=list)  # that of the last run, if none is using it

    def chains(self, sampler: Sampler, verbose: bool) -> Prepared:
        """The chains of the sampler about to begin, prepared once."""
        if self.prepared is None:
            self.prepared = sampler.prepare(verbose)
        return self.prepared

    def take(self, keep: Keep) -> Loop | None:
        """The loop of the last run, if it kept the same and none is using it."""
        try:
            kept, loop = self.loops.pop()
        except IndexError:
            return None
        return loop if kept == keep else None

    def give_back(self, keep: Keep, loop: Loop) -> None:
        """Keep the loop for the next run, in place of others."""
        self.loops[:] = [(keep, loop)]


@dataclass(frozen=True)
class Run:
    """One call of a sampler.

    Parameters
    ----------
    sampler : Sampler
    n_iterations : int
        The total number, including those before `saved`.
    keep : Keep
    verbose : bool
    path : Path or None
        The path of a Zarr store; None keeps the draws in memory.
    saved : Saved or None
        The last checkpoint of the store at `path`; None for a new run.
    kept : Kept
        Of earlier runs of the sampler. A new run with the same `keep` then traces and prepares nothing.
    """

    sampler: Sampler
    n_iterations: int
    keep: Keep
    verbose: bool
    path: Path | None = None
    saved: Saved | None = None
    kept: Kept = field(default_factory=Kept)

    @property
    def plan(self) -> Plan:
        """Which iterations run, and which are recorded."""
        return Plan(self.n_iterations, self.keep.thin, self.keep.burn_in)

    @property
    def settings(self) -> dict[str, Any]:
        """What the user chose, by R's names and as JSON."""
        known = dict(self.sampler.settings) | self.sampler.facts | self.keep.settings | {"nIters": self.n_iterations}
        return known | ({"fingerprint": self._fingerprint} if self.sampler.is_part else {})

    @property
    def _fingerprint(self) -> str:
        """A checksum of what all chains of a run have in common: data, functions and settings."""
        common = {key: value for key, value in self.identity.items() if key not in OF_CHAINS}
        return hashlib.sha256(json.dumps(common, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What identifies the store of this run, as JSON.

        Without `n_iterations`, since it may be continued.
        """
        return self.sampler.identity | self.keep.identity(self.sampler.probes)

    def draws(self) -> Draws:
        """Run, and return the draws; after Ctrl-C those made so far, with a warning.

        Raises
        ------
        DivergenceError
            With the draws before the divergence.
        """
        started = time.perf_counter()
        prepared = self._prepared()
        loop = self._loop(prepared)
        leaves = loop.flatten(prepared.state)
        if self.saved:
            leaves = self._saved_leaves(leaves)
        storage = self._storage(loop, prepared, leaves)
        sampling = time.perf_counter()
        diverged: DivergenceError | None = None
        interrupted = False
        try:
            try:
                name, failure = self.sampler.name, self.sampler.failure
                advance.run(loop, leaves, self.plan, storage, name, self.verbose, self._done, failure)
            except KeyboardInterrupt:
                interrupted = True
            except DivergenceError as error:
                diverged = error
            storage.commit()
        finally:
            storage.close()
        now = time.perf_counter()
        timings = {"sampling": now - sampling, "total": now - started}
        if self.sampler.searches:
            timings["modeSearch"] = sampling - started
        draws = self._draws(prepared, loop, storage, timings, diverged)
        if prepared is self.kept.prepared:
            self.kept.give_back(self.keep, loop)
        if diverged:
            raise diverged.with_draws(draws, storage.stored) from None
        with unheard_warnings():
            if interrupted:
                advance.warn_interrupted(storage.stored, self.plan.n_rows)
            if storage.stored * self.keep.thin >= tuning.SHORT:
                tuning.warn(self._averages(loop, storage, draws), draws.settings)
                tuning.warn_of_length(draws.settings)
                if prepared.tuning and self.keep.stores and not self.keep.collect:
                    self._warn_of_positions(prepared, draws)
        return draws

    def _warn_of_positions(self, prepared: Prepared, draws: Draws) -> None:
        """Warn if the chain is not as was expected, on the scale on which it moves."""
        transforms = self.sampler.transforms
        moved = _positions(draws[-tuning.LONG :], transforms) if transforms else draws
        if rounded := [name for name in sorted(transforms.each) if not np.isfinite(moved[name]).all()]:
            warn_user(
                f"draws of {rounded} by {self.sampler.name} are rounded to the boundary of their support: use "
                "dtype='float64', in which they differ from it."
            )
            return
        tuning.warn_of_shape(moved)
        tuning.warn_of_autocorrelation(moved)
        if prepared.mode is not None:
            tuning.warn_of_places(moved, {name: x.numpy() for name, x in prepared.mode.params.items()})

    def _watched(self, prepared: Prepared) -> dict[str, int]:
        """The statistics to average, since a run without draws does not store them."""
        if self.keep.stores:
            return {}
        recorded = prepared.kernel.stats(prepared.constants, prepared.state, tf.constant(1, tf.uint32))
        if "exploring" in recorded:  # an exploring chain has no noise, and so no temperature to judge
            return {}
        return {name: recorded[name].shape[1] for name in tuning.STATISTICS if name in recorded}

    def _averages(self, loop: Loop, storage: advance.Storage, draws: Draws) -> tuning.Averages:
        """The averages over the second half of the chain."""
        if self.keep.stores:
            return tuning.of_second_half(draws)
        accumulated = loop.unflatten(storage.leaves)[1]
        return batch_means.of_second_half(accumulated.averages) if accumulated.averages else {}

    def _draws(
        self,
        prepared: Prepared,
        loop: Loop,
        storage: advance.Storage,
        timings: dict[str, float],
        diverged: DivergenceError | None,
    ) -> Draws:
        settings = self.settings | prepared.settings
        return Draws(
            storage.result(),
            nChains=self.sampler.n_chains,
            iterations=iterations_of(settings, storage.stored if self.keep.stores else 0),
            settings=settings,
            reduced=self._reduced(loop, storage.leaves),
            timings=timings,
            divergence={k: getattr(diverged, k) for k in ("iteration", "chain", "parameter")} if diverged else None,
        )

    @property
    def _done(self) -> int:
        return self.saved.checkpoint.iteration if self.saved else 0

    def _prepared(self) -> Prepared:
        if self.saved is not None:
            beginning = self.saved.beginning
            return self.sampler.prepared(beginning.found, beginning.mode, self.keep.gradients)
        if self.keep.gradients:
            return self.sampler.prepare(self.verbose, monitored=True)
        return self.kept.chains(self.sampler, self.verbose)

    def _loop(self, prepared: Prepared) -> Loop:
        loop = self.kept.take(self.keep) if prepared is self.kept.prepared else None
        if loop is not None:
            return loop
        return Loop(prepared, self.keep.recorder(prepared.kernel, prepared.chains, self._watched(prepared)))

    def _saved_leaves(self, first: list[tf.Tensor]) -> list[tf.Tensor]:
        assert self.saved is not None
        try:
            return self.saved.checkpoint.tensors(first)
        except ValueError as error:
            raise ValueError(
                f"storage of {self.sampler.name} must be a store that this version wrote; got {str(self.path)!r} "
                f"({error})."
            ) from error

    def _storage(self, loop: Loop, prepared: Prepared, leaves: list[tf.Tensor]) -> advance.Storage:
        if self.path is None:
            return Memory(self.plan.n_rows, loop.row_specs, leaves)

        def encode(iteration: int, stored: int, leaves: list[tf.Tensor]) -> bytes:
            return Checkpoint(iteration, stored, [leaf.numpy() for leaf in leaves]).encode()

        if self.saved is None:
            beginning = Beginning.of(self.identity, prepared)
            create(
                self.path, loop.row_specs, encode(0, 0, leaves), beginning.encode(), self.settings | prepared.settings
            )
        stored = self.saved.checkpoint.stored if self.saved else 0
        return ZarrStore(self.path, loop.row_specs, stored, leaves, encode)

    def _reduced(self, loop: Loop, leaves: list[tf.Tensor]) -> Tree:
        _, accumulated = loop.unflatten(leaves)
        several = self.sampler.n_chains is not None
        reduced = {}
        for label, reducer in self.keep.reducers.items():
            try:
                reduced[label] = _of_each_chain(reducer.result, accumulated.reduced[label], several)
            except Exception as error:
                reduced[label] = _of_each_chain(None, accumulated.reduced[label], several)
                with unheard_warnings():
                    warn_user(
                        f"the result of reduce[{label!r}] of {self.sampler.name} must be a dict of arrays; it raised "
                        f"{reason(error)}. Its accumulator is returned in its place."
                    )
        return reduced


def _positions(draws: Draws, transforms: Transforms) -> Draws:
    """The draws as the real numbers that the chain moved."""
    posterior = draws.groups["posterior"]
    moved = {}
    for name, transform in transforms.each.items():
        theta = np.asarray(posterior[name])
        u = mapped(transform.inverse, tf.constant(theta.reshape(-1, *theta.shape[2:]))).numpy()
        moved[name] = u.reshape(*theta.shape[:2], *u.shape[1:])
    return Draws(
        draws.groups | {"posterior": posterior | moved},
        nChains=draws.nChains,
        iterations=draws.iterations,
        settings=draws.settings,
    )


def _of_each_chain(result: Any, accumulator: Any, several: bool) -> Tree:
    """The result of a reducer for each chain, [C, ...] if there are several."""
    arrays = tf.nest.map_structure(lambda x: x.numpy(), accumulator)
    n_chains = tf.nest.flatten(arrays)[0].shape[0]
    of_chains = [tf.nest.map_structure(lambda x, c=c: x[c], arrays) for c in range(n_chains)]
    results = [result(arrays) for arrays in of_chains] if result else of_chains
    if not several:
        return tf.nest.map_structure(np.asarray, results[0])
    return tf.nest.map_structure(lambda *x: np.stack(x), *results)
