"""A whole run in one call: from a sampler to its draws, in memory or on disk, from the start or from a checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import mapped
from sgmcmc.core.errors import DivergenceError, reason, warn_user
from sgmcmc.core.progress import Progress, unheard_warnings
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.trees import Tree
from sgmcmc.draws import temperature
from sgmcmc.draws.draws import Draws
from sgmcmc.draws.loading import OF_CHAINS
from sgmcmc.parallel.executors import workers_of
from sgmcmc.run import TUNING, Plan, Prepared, advance
from sgmcmc.run import recorder as batch_means
from sgmcmc.run.advance import RunResult, Watcher
from sgmcmc.run.checkpoint import Beginning, Checkpoint
from sgmcmc.run.jobs import Jobs, Report, by_jobs
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Accumulated, Keep
from sgmcmc.run.sampler import Sampler, settings_of_chains
from sgmcmc.run.stopping_rule import StoppingRule, run_until_stopped
from sgmcmc.storage import path_of_part, stored_iterations
from sgmcmc.storage.memory import Memory
from sgmcmc.storage.zarr import ZarrStore, create, read_checkpoint


def warn_of_positions(name: str, transforms: Transforms, prepared: Prepared, draws: Draws) -> None:
    """Warn if the chain differs from what was predicted."""
    moved = _positions(draws[-temperature.LONG :], transforms) if transforms else draws
    if rounded := [each for each in sorted(transforms.each) if not np.isfinite(moved[each]).all()]:
        warn_user(
            f"draws of {rounded} by {name} are rounded to the boundary of their support: use dtype='float64', in "
            "which they differ from it."
        )
        return
    temperature.warn_of_shape(moved)
    temperature.warn_of_autocorrelation(moved)
    if prepared.mode is not None:
        temperature.warn_of_places(moved, {each: x.numpy() for each, x in prepared.mode.params.items()})


def _positions(draws: Draws, transforms: Transforms) -> Draws:
    """The draws on the unconstrained scale."""
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


@dataclass
class RunCache:
    """What a sampler keeps from one run to the next, which then need not trace or prepare anything."""

    prepared: Prepared | None = None
    loops: list[tuple[Keep, Loop]] = field(default_factory=list)  # that of the last run, if it is not in use

    def chains(self, sampler: Sampler, verbose: bool) -> Prepared:
        if self.prepared is None:
            self.prepared = sampler.prepare(verbose)
        return self.prepared

    def take(self, keep: Keep) -> Loop | None:
        """The loop of the last run, if it kept the same and is not in use."""
        try:
            kept, loop = self.loops.pop()
        except IndexError:
            return None
        return loop if kept == keep else None

    def give_back(self, keep: Keep, loop: Loop) -> None:
        self.loops[:] = [(keep, loop)]


@dataclass(frozen=True)
class Run:
    """One call of a sampler."""

    sampler: Sampler
    n_iterations: int  # including those before the checkpoints; with a stopping rule those made so far
    keep: Keep
    verbose: bool
    path: Path | None = None  # of a Zarr store; None keeps the draws in memory
    beginning: Beginning | None = None  # if what precedes the first iteration is known
    checkpoints: Mapping[int, Checkpoint] = field(default_factory=dict)  # by the number of the first of their chains
    cache: RunCache = field(default_factory=RunCache)
    largest: int | None = None  # for a part of a store: the number of chains in the largest
    jobs: Jobs | None = None  # None runs the chains in this process
    stopping_rule: StoppingRule | None = None

    @property
    def plan(self) -> Plan:
        return Plan(self.n_iterations, self.keep.thin, self.keep.burn_in)

    @property
    def settings(self) -> dict[str, Any]:
        known = dict(self.sampler.settings) | self.sampler.facts | self.keep.settings | {"nIters": self.n_iterations}
        known |= self.stopping_rule.settings if self.stopping_rule else {}
        return known | ({"fingerprint": self._fingerprint} if self.sampler.is_part else {})

    @property
    def _fingerprint(self) -> str:
        """A checksum of what all chains of a run have in common: data, functions and settings."""
        common = {key: value for key, value in self.identity.items() if key not in OF_CHAINS}
        return hashlib.sha256(json.dumps(common, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What identifies the store of this run; not `n_iterations`, since it may be continued."""
        if self.beginning is not None and self.beginning.settings:
            common = {key: value for key, value in self.beginning.settings.items() if key not in OF_CHAINS}
            return common | {key: self.sampler.settings[key] for key in OF_CHAINS if key in self.sampler.settings}
        return self.sampler.identity | self.keep.identity(self.sampler.probes)

    def draws(self) -> Draws:
        """Run, and return the draws; after Ctrl-C those made so far, with a warning."""
        began = time.monotonic()
        run, prepared = self._begun()
        timings = {"modeSearch": time.monotonic() - began} if self.sampler.searches else {}
        if self.stopping_rule is None:
            return run._finished(prepared, run.execute(prepared, run._progress()), timings, began)
        stopped = run_until_stopped(run, prepared, began)
        draws = stopped.run._finished(
            prepared, stopped.result, timings | {"diagnostics": stopped.diagnostics_seconds}, began
        )
        with unheard_warnings():
            stopped.warn()
        return draws

    def _finished(self, prepared: Prepared, result: RunResult, timings: dict[str, float], began: float) -> Draws:
        """The draws, after warnings about them."""
        timings = timings | {"sampling": result.seconds, "total": time.monotonic() - began}
        draws = self.to_draws(prepared, result, timings)
        if result.diverged:
            raise result.diverged.with_draws(draws, result.stored) from None
        with unheard_warnings():
            if result.interrupted:
                fewer = result.chains if len(result.chains) < len(self.sampler.chains) else None
                advance.warn_interrupted(result.stored, self.plan.n_rows, fewer)
            if result.stored * self.keep.thin >= temperature.SHORT:
                temperature.warn(self._averages(result, draws), draws.settings)
                temperature.warn_of_length(draws.settings)
                if prepared.tuning and self.keep.stores and not self.keep.collect:
                    warn_of_positions(self.sampler.name, self.sampler.transforms, prepared, draws)
        return draws

    def execute(self, prepared: Prepared, progress: Watcher) -> RunResult:
        """Make the iterations, here or by jobs, until they are done, diverge or are interrupted."""
        return (
            self.execute_here(prepared, progress) if self.jobs is None else by_jobs(self, self.jobs, prepared, progress)
        )

    def execute_here(self, prepared: Prepared, progress: Watcher) -> RunResult:
        started = time.perf_counter()
        loop = self.loop(prepared)
        leaves = loop.flatten(prepared.state)
        if self.checkpoint:
            leaves = self._saved_leaves(leaves, self.checkpoint)
        storage = self._storage(loop, prepared, leaves)
        diverged: DivergenceError | None = None
        interrupted = False
        try:
            try:
                with progress:
                    advance.run(loop, leaves, self.plan, storage, progress, self._done, self.sampler.failure)
            except KeyboardInterrupt:
                interrupted = True
            except DivergenceError as error:
                diverged = error
            storage.commit()
        finally:
            storage.close()
        accumulated = tf.nest.map_structure(lambda x: x.numpy(), loop.unflatten(storage.leaves)[1])
        if prepared is self.cache.prepared:
            self.cache.give_back(self.keep, loop)
        seconds, chains = time.perf_counter() - started, list(self.sampler.chains)
        made = RunResult(chains, storage.result(), storage.stored, accumulated, seconds, interrupted, diverged)
        if self.stopping_rule is None or interrupted or diverged:
            return made
        end = self.checkpoint
        if end is None or end.iteration < self.n_iterations:
            end = Checkpoint(self.n_iterations, self.plan.n_rows, [leaf.numpy() for leaf in storage.leaves])
        return made._replace(checkpoints={self.sampler.first_chain: end})

    def of_chains(self, chains: range) -> Run:
        """The run of some of its chains, by their numbers, with its own part of the store."""
        path = self.path and path_of_part(self.path, chains)
        return replace(self, sampler=self.sampler.of_chains(chains), path=path, jobs=None, cache=RunCache())

    def part(self, chains: range, progress: Report) -> RunResult:
        """Run these chains in this process, from their last checkpoint if their store exists."""
        run = self.of_chains(chains)
        if run.path is None:
            return run.execute_here(run._prepared(), progress)
        if run.path.exists():
            run = replace(run, checkpoints={chains.start: Checkpoint.decode(*read_checkpoint(run.path, "state"))})
        return run.execute_here(run._prepared(), progress)._replace(
            rows={}, checkpoints={}
        )  # which are read from the store

    def _progress(self) -> Progress:
        return Progress(self.n_iterations, self.sampler.name, "iteration", self.verbose, self._done)

    def _watched(self, prepared: Prepared) -> dict[str, int]:
        """The statistics to average, since a run without draws does not store them."""
        if self.keep.stores:
            return {}
        recorded = prepared.kernel.stats(prepared.constants, prepared.state, tf.constant(1, tf.uint32))
        if "exploring" in recorded:  # an exploring chain has no noise, and so no temperature to judge
            return {}
        return {name: recorded[name].shape[1] for name in temperature.STATISTICS if name in recorded}

    def _averages(self, result: RunResult, draws: Draws) -> temperature.Averages:
        if self.keep.stores:
            return temperature.of_second_half(draws)
        averages = result.accumulated.averages
        return batch_means.of_second_half(averages) if averages else {}

    def to_draws(self, prepared: Prepared, result: RunResult, timings: dict[str, float]) -> Draws:
        settings, diverged = self.settings | prepared.settings, result.diverged
        if result.chains != list(self.sampler.chains):
            settings |= settings_of_chains(len(result.chains), result.chains, self.sampler.starts)
        return Draws(
            result.rows,
            nChains=None if self.sampler.n_chains is None else len(result.chains),
            iterations=stored_iterations(self.keep.burn_in, self.keep.thin, result.stored if self.keep.stores else 0),
            settings=settings,
            reduced=self._reduced(result.accumulated),
            timings=timings,
            divergence={k: getattr(diverged, k) for k in ("iteration", "chain", "parameter")} if diverged else None,
        )

    @property
    def checkpoint(self) -> Checkpoint | None:
        return self.checkpoints.get(self.sampler.first_chain)

    @property
    def _done(self) -> int:
        return self.checkpoint.iteration if self.checkpoint else 0

    def with_automatic_thin(self, tuning: Tree) -> Run:
        """The run with the `thin` that follows from the predicted autocorrelation time."""
        if self.stopping_rule is None or not self.stopping_rule.thins:
            return self
        return replace(self, keep=replace(self.keep, thin=self.stopping_rule.thin(tuning)))

    def _begun(self) -> tuple[Run, Prepared]:
        """The run with all that precedes its first iteration computed, and its chains, or those of its first job."""
        if self.jobs is None:
            prepared = self._prepared()
            run = self.with_automatic_thin(prepared.tuning)
            return run if prepared is self.cache.prepared else replace(run, cache=RunCache(prepared)), prepared
        known = self.beginning or self._found(self.jobs)
        run = self.with_automatic_thin(known.found.get(TUNING, {}))
        if self.beginning is None and self.path is not None:
            known = known._replace(settings=run.identity)
        path, largest = self.path and self.path.absolute(), max(map(len, self.jobs.groups))
        run = replace(run, path=path, beginning=known, largest=largest, cache=RunCache())
        return run, run.of_chains(self.jobs.groups[0])._prepared()

    def _found(self, jobs: Jobs) -> Beginning:
        """The beginning, computed here; workers make the passes over large data."""
        with workers_of(jobs.executor) as workers:
            return Beginning({}, *self.sampler.find(self.verbose, workers))

    def _prepared(self) -> Prepared:
        if self.beginning is not None:
            return self.sampler.prepared(self.beginning.found, self.beginning.mode, self.keep.gradients)
        if self.keep.gradients:
            return self.sampler.prepare(self.verbose, monitored=True)
        return self.cache.chains(self.sampler, self.verbose)

    def loop(self, prepared: Prepared) -> Loop:
        """The loop of these chains: that of the last run, if it fits."""
        loop = self.cache.take(self.keep) if prepared is self.cache.prepared else None
        if loop is not None:
            return loop
        recorder = self.keep.recorder(prepared.kernel, prepared.chains, self._watched(prepared))
        return self.sampler.loop(prepared, recorder, self.keep)

    def _saved_leaves(self, first: list[tf.Tensor], checkpoint: Checkpoint) -> list[tf.Tensor]:
        try:
            return checkpoint.tensors(first)
        except ValueError as error:
            raise ValueError(
                f"storage of {self.sampler.name} must be a store that this version wrote; got {str(self.path)!r} "
                f"({error})."
            ) from error

    def _storage(self, loop: Loop, prepared: Prepared, leaves: list[tf.Tensor]) -> advance.Storage:
        if self.path is None:
            return Memory(self.plan.n_rows - self.plan.rows_by(self._done), loop.row_specs, leaves)

        def encode(iteration: int, stored: int, leaves: list[tf.Tensor]) -> bytes:
            return Checkpoint(iteration, stored, [leaf.numpy() for leaf in leaves]).encode()

        if self.checkpoint is None:
            first = {"state": encode(0, 0, leaves), "beginning": Beginning.of(self.identity, prepared).encode()}
            create(self.path, loop.row_specs, first, self.settings | prepared.settings, self.largest)
        stored = self.checkpoint.stored if self.checkpoint else 0
        return ZarrStore(self.path, loop.row_specs, stored, leaves, encode)

    def _reduced(self, accumulated: Accumulated) -> Tree:
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
                        f"{reason(error)}. The accumulator is returned instead."
                    )
        return reduced


def _of_each_chain(result: Any, accumulator: Any, several: bool) -> Tree:
    """The result of a reducer for each chain, [C, ...] if there are several."""
    n_chains = tf.nest.flatten(accumulator)[0].shape[0]
    of_chains = [tf.nest.map_structure(lambda x, c=c: x[c], accumulator) for c in range(n_chains)]
    results = [result(arrays) for arrays in of_chains] if result else of_chains
    if not several:
        return tf.nest.map_structure(np.asarray, results[0])
    return tf.nest.map_structure(lambda *x: np.stack(x), *results)
