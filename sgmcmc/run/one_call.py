"""A whole run in one call: from a sampler to its draws, in memory or on disk, from the start or from a checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import mapped
from sgmcmc.core.errors import DivergenceError, reason
from sgmcmc.core.executors import workers_of
from sgmcmc.core.layout import path_of_part
from sgmcmc.core.progress import Progress, unheard_warnings
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.types import Tree
from sgmcmc.core.warn import warn_user
from sgmcmc.output import tuning
from sgmcmc.output.draws import Draws, iterations_of
from sgmcmc.run import advance, batch_means
from sgmcmc.run.checkpoint import Beginning, Checkpoint
from sgmcmc.run.jobs import Jobs, Outcome
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Plan
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.recorder import Accumulated, Keep
from sgmcmc.run.sampled import Sampled
from sgmcmc.run.sampler import Sampler, settings_of_chains
from sgmcmc.run.worker import Report
from sgmcmc.storage.memory import Memory
from sgmcmc.storage.parts import create_whole, show_parts
from sgmcmc.storage.zarr import ZarrStore, create, read_checkpoint, read_rows

OF_CHAINS = ("nChains", "chains", "starts")  # settings that differ between the chains of one run


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
        The total number, including those before `checkpoint`.
    keep : Keep
    verbose : bool
    path : Path or None
        The path of a Zarr store; None keeps the draws in memory.
    beginning : Beginning or None
        What was computed before the first iteration, if it is known.
    checkpoint : Checkpoint or None
        The last one of the store at `path`; None for a new run.
    kept : Kept
        Of earlier runs of the sampler. A new run with the same `keep` then traces and prepares nothing.
    largest : int or None
        Of one of several parts of a store, how many chains the largest has.
    jobs : Jobs or None
        How the chains are made elsewhere; None makes them here.
    """

    sampler: Sampler
    n_iterations: int
    keep: Keep
    verbose: bool
    path: Path | None = None
    beginning: Beginning | None = None
    checkpoint: Checkpoint | None = None
    kept: Kept = field(default_factory=Kept)
    largest: int | None = None
    jobs: Jobs | None = None

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
        if self.beginning is not None and self.beginning.settings:
            common = {key: value for key, value in self.beginning.settings.items() if key not in OF_CHAINS}
            return common | {key: self.sampler.settings[key] for key in OF_CHAINS if key in self.sampler.settings}
        return self.sampler.identity | self.keep.identity(self.sampler.probes)

    def draws(self) -> Draws:
        """Run, and return the draws; after Ctrl-C those made so far, with a warning.

        Raises
        ------
        DivergenceError
            With the draws before the divergence.
        """
        started = time.perf_counter()
        if self.jobs is None:
            prepared = self._prepared()
            searched = time.perf_counter() - started
            sampled = self.sampled(prepared, self._progress())
        else:
            prepared, outcome = self._elsewhere(self.jobs)
            sampled = outcome.sampled()
            searched = time.perf_counter() - started - sampled.seconds
        timings = {"sampling": sampled.seconds, "total": time.perf_counter() - started}
        if self.sampler.searches:
            timings["modeSearch"] = searched
        draws = self.drawn(prepared, sampled, timings)
        if sampled.diverged:
            raise sampled.diverged.with_draws(draws, sampled.stored) from None
        with unheard_warnings():
            if sampled.interrupted:
                fewer = sampled.chains if len(sampled.chains) < len(self.sampler.chains) else None
                advance.warn_interrupted(sampled.stored, self.plan.n_rows, fewer)
            if sampled.stored * self.keep.thin >= tuning.SHORT:
                tuning.warn(self._averages(sampled, draws), draws.settings)
                tuning.warn_of_length(draws.settings)
                if prepared.tuning and self.keep.stores and not self.keep.collect:
                    self._warn_of_positions(prepared, draws)
        return draws

    def sampled(self, prepared: Prepared, progress: Progress | Report) -> Sampled:
        """Make the iterations of these chains, until they are done, diverge or are interrupted."""
        started = time.perf_counter()
        loop = self._loop(prepared)
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
        if prepared is self.kept.prepared:
            self.kept.give_back(self.keep, loop)
        seconds, chains = time.perf_counter() - started, list(self.sampler.chains)
        return Sampled(chains, storage.result(), storage.stored, accumulated, seconds, interrupted, diverged)

    def of_chains(self, chains: range) -> Run:
        """The same run of some of its chains, by their numbers, with a store of its own in that of all."""
        path = self.path and path_of_part(self.path, chains)
        return replace(self, sampler=self.sampler.of_chains(chains), path=path, jobs=None, kept=Kept())

    def part(self, chains: range, progress: Report) -> Sampled:
        """What these chains leave, in this process: from their last checkpoint on, if their store is there."""
        run = self.of_chains(chains)
        if run.path is None:
            return run.sampled(run._prepared(), progress)
        if run.path.exists():
            run = replace(run, checkpoint=Checkpoint.decode(*read_checkpoint(run.path, "state")))
        return run.sampled(run._prepared(), progress)._replace(rows={})  # which are read from the store

    def _elsewhere(self, jobs: Jobs) -> tuple[Prepared, Outcome]:
        """The first of the chains, prepared here, and what the jobs have made.

        Raises
        ------
        Exception
            That of the first job that failed; its attribute `partial` has the draws of all jobs that have some.
        """
        path = self.path and self.path.absolute()
        known = self.beginning or self._beginning(jobs)
        begun = replace(self, path=path, beginning=known, largest=max(map(len, jobs.groups)), jobs=None, kept=Kept())
        first = begun.of_chains(jobs.groups[0])
        prepared = first._prepared()
        if path is None:
            with self._progress() as progress:
                outcome = jobs.made(begun, progress)
        else:
            specs = first._loop(prepared).row_specs
            if not path.exists():
                create_whole(path, specs, known.encode(), self.settings | prepared.settings, jobs.groups)
            with self._progress() as progress:
                outcome = jobs.made(begun, progress, partial(show_parts, path))
            rows = [read_rows(path_of_part(path, chains), specs) for chains in outcome.groups]
            parts = [part._replace(rows=one) for part, one in zip(outcome.parts, rows, strict=True)]
            outcome = outcome._replace(parts=parts)
        if not outcome.has_failed:
            return prepared, outcome
        raise self._failure(prepared, outcome, len(jobs.groups))

    def _beginning(self, jobs: Jobs) -> Beginning:
        """What is found here, with passes over many data made by the workers."""
        identity = self.identity if self.path else {}
        with workers_of(jobs.executor) as workers:
            return Beginning(identity, *self.sampler.find(self.verbose, workers))

    def _failure(self, prepared: Prepared, outcome: Outcome, n_jobs: int) -> BaseException:
        """The exception of the first job that failed, with the draws of all jobs that have some."""
        draws = {part.chains[0]: self.drawn(prepared, part, {}) for part in outcome.parts if part.stored}
        diverged = next((part for part in outcome.parts if part.diverged), None)
        error: Any
        if diverged is not None and diverged.diverged is not None:
            chains: Sequence[int] = diverged.chains
            error = diverged.diverged.with_draws(self.drawn(prepared, diverged, {}), diverged.stored)
        else:
            chains, error = next(iter(outcome.failures.items()))
        kept = f"`partial` of this error has the draws of the {len(draws)} of {n_jobs} jobs that returned some."
        if self.path is not None:
            kept += f" {str(self.path)!r} has all that were written; resume=True goes on with it."
        error.add_note(f"This is of the job of chains {chains[0]} to {chains[-1]} of {self.sampler.name}. {kept}")
        error.partial = list(draws.values())
        return error

    def _progress(self) -> Progress:
        return Progress(self.n_iterations, self.sampler.name, "iteration", self.verbose, self._done)

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

    def _averages(self, sampled: Sampled, draws: Draws) -> tuning.Averages:
        """The averages over the second half of the chain."""
        if self.keep.stores:
            return tuning.of_second_half(draws)
        averages = sampled.accumulated.averages
        return batch_means.of_second_half(averages) if averages else {}

    def drawn(self, prepared: Prepared, sampled: Sampled, timings: dict[str, float]) -> Draws:
        """These rows as the user gets them."""
        settings, diverged = self.settings | prepared.settings, sampled.diverged
        if sampled.chains != list(self.sampler.chains):
            settings |= settings_of_chains(len(sampled.chains), sampled.chains, self.sampler.starts)
        return Draws(
            sampled.rows,
            nChains=None if self.sampler.n_chains is None else len(sampled.chains),
            iterations=iterations_of(settings, sampled.stored if self.keep.stores else 0),
            settings=settings,
            reduced=self._reduced(sampled.accumulated),
            timings=timings,
            divergence={k: getattr(diverged, k) for k in ("iteration", "chain", "parameter")} if diverged else None,
        )

    @property
    def _done(self) -> int:
        return self.checkpoint.iteration if self.checkpoint else 0

    def _prepared(self) -> Prepared:
        if self.beginning is not None:
            return self.sampler.prepared(self.beginning.found, self.beginning.mode, self.keep.gradients)
        if self.keep.gradients:
            return self.sampler.prepare(self.verbose, monitored=True)
        return self.kept.chains(self.sampler, self.verbose)

    def _loop(self, prepared: Prepared) -> Loop:
        loop = self.kept.take(self.keep) if prepared is self.kept.prepared else None
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
            return Memory(self.plan.n_rows, loop.row_specs, leaves)

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
    n_chains = tf.nest.flatten(accumulator)[0].shape[0]
    of_chains = [tf.nest.map_structure(lambda x, c=c: x[c], accumulator) for c in range(n_chains)]
    results = [result(arrays) for arrays in of_chains] if result else of_chains
    if not several:
        return tf.nest.map_structure(np.asarray, results[0])
    return tf.nest.map_structure(lambda *x: np.stack(x), *results)
