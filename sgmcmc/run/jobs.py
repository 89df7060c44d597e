"""Groups of chains as jobs of an executor, and their draws joined."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.parallel.executors import Executor, Future, call
from sgmcmc.parallel.serialization import Parcel
from sgmcmc.run import Prepared
from sgmcmc.run.advance import RunResult, Watcher
from sgmcmc.run.recorder import Accumulated
from sgmcmc.storage import path_of_part
from sgmcmc.storage.parts import create_whole, show_parts
from sgmcmc.storage.zarr import read_rows

if TYPE_CHECKING:
    from sgmcmc.run.one_call import Run


def joined(parts: Sequence[RunResult]) -> RunResult:
    """The chains of all parts, which have equally many rows."""
    from sgmcmc.storage.side_by_side import side_by_side  # `import sgmcmc` needs no xarray

    averages = parts[0].accumulated.averages
    if averages and all(part.accumulated.averages["count"] == averages["count"] for part in parts):
        shares = np.array([len(part.chains) for part in parts], float) / sum(len(part.chains) for part in parts)
        sums = {
            name: np.tensordot(shares, [part.accumulated.averages["sums"][name] for part in parts], axes=1)
            for name in averages["sums"]
        }
        averages = averages | {"sums": sums}
    return RunResult(
        [chain for part in parts for chain in part.chains],
        side_by_side([part.rows for part in parts]),
        min(part.stored for part in parts),
        Accumulated(_concatenated([part.accumulated.reduced for part in parts]), averages),
        max(part.seconds for part in parts),
        any(part.interrupted for part in parts),
        checkpoints={chain: end for part in parts for chain, end in part.checkpoints.items()},
    )


def longest_part(parts: Sequence[RunResult]) -> list[RunResult]:
    """The parts, cut to equally many rows, that together have the most draws."""
    from sgmcmc.storage.side_by_side import most_draws

    chosen, n_rows = most_draws([part.stored for part in parts], [len(part.chains) for part in parts])
    return [parts[k].first(n_rows) for k in chosen]


def _concatenated(trees: Sequence[Any]) -> Any:
    return tf.nest.map_structure(lambda *x: np.concatenate(x), *trees)


STOP = "stop"


def sample(parcel: Parcel, chains: range, folder: str, parent: int) -> RunResult:
    """Run these chains of the run in the parcel."""
    report = Report(Path(folder), chains)
    if report.is_stopped():
        raise CancelledError
    return call(lambda run, chains: run.part(chains, report), parcel, chains, parent)


class Report:
    """The progress of a job, in a file that the waiting process reads, and beside which it can ask the job to end."""

    def __init__(self, folder: Path, chains: range) -> None:
        self._folder, self._file = folder, folder / f"progress-{chains.start}"
        self._is_seen = folder.exists()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None: ...

    def is_stopped(self) -> bool:
        return self._is_seen and ((self._folder / STOP).exists() or not self._folder.exists())

    def reached(self, done: int, log_density: np.ndarray | None = None) -> None:
        """Write the progress of the job, or raise KeyboardInterrupt if it should end."""
        if self.is_stopped():
            raise KeyboardInterrupt
        with suppress(OSError):
            self._file.write_text(f"{done} {np.nan if log_density is None else np.mean(log_density)}")


POLL_SECONDS = 0.05
SHOW_SECONDS = 5.0


class Outcome(NamedTuple):
    parts: list[RunResult]  # of those that returned something, in the order of their chains
    failures: dict[range, BaseException]  # of those that raised an exception
    interrupted: bool
    seconds: float

    @property
    def groups(self) -> list[range]:
        return [range(part.chains[0], part.chains[-1] + 1) for part in self.parts]

    @property
    def has_failed(self) -> bool:
        """Whether a job failed on its own; after Ctrl-C a worker may have ended because of it."""
        return any(part.diverged for part in self.parts) or bool(self.failures and not self.interrupted)

    def result(self) -> RunResult:
        """All chains; after Ctrl-C, those that together have the most draws."""
        begun = [part for part in self.parts if part.stored]
        if not begun:
            raise KeyboardInterrupt
        chosen = longest_part(begun) if any(part.rows for part in begun) else begun  # sums may have different lengths
        return joined(chosen)._replace(interrupted=self.interrupted, seconds=self.seconds)


@dataclass(frozen=True)
class Jobs:
    """The executor that runs the chains, and their groups."""

    executor: Executor | None
    groups: Sequence[range]
    earlier: RunResult | None = None

    def execute(self, run: Run, progress: Watcher, show: Callable[[], None] | None = None) -> Outcome:
        """Run all chains until they are done, one fails or Ctrl-C is pressed, and call `show` now and then."""
        started = time.perf_counter()
        parts: list[RunResult] = []
        failures: dict[range, BaseException] = {}
        given_up: dict[range, BaseException] = {}
        folder = Path(tempfile.mkdtemp(prefix="sgmcmc-"))
        own = ThreadPoolExecutor(1) if self.executor is None else nullcontext(self.executor)
        try:
            parcel = Parcel.of(run, folder)
            with own as executor:
                futures = [executor.submit(sample, parcel, group, str(folder), os.getpid()) for group in self.groups]
                _require_futures(run.sampler.name, futures)
                interrupted = _wait(futures, folder, progress, show or _nothing)
            for group, future in zip(self.groups, futures, strict=True):
                part = before = self.earlier and self.earlier.of_chains(group)
                try:
                    part = future.result()
                except (CancelledError, KeyboardInterrupt) as error:
                    given_up[group] = error
                except Exception as error:
                    failures[group] = error
                else:
                    part = before.then(part) if before and part.rows else part
                if part:
                    parts.append(part)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if show is not None:
            show()
        if not (interrupted or failures or any(part.diverged for part in parts)):
            failures = given_up  # by something other than this process
            interrupted = any(part.interrupted for part in parts)
        return Outcome(parts, failures, interrupted, time.perf_counter() - started)


def _require_futures(name: str, futures: Sequence[Any]) -> None:
    for future in futures:
        if not all(callable(getattr(future, method, None)) for method in ("done", "cancel", "result")):
            raise ValueError(
                f"executor of {name} must have a submit that returns futures, with done, cancel and result; "
                f"got {future!r} from it."
            )


def _nothing() -> None:
    pass


def _wait(futures: Sequence[Future], folder: Path, progress: Watcher, show: Callable[[], None]) -> bool:
    """Wait for all jobs or, after one failed or Ctrl-C, for those that have begun; whether Ctrl-C was pressed."""
    interrupted, shown = False, time.monotonic()
    while True:
        try:
            while not all(future.done() for future in futures):
                time.sleep(POLL_SECONDS)
                progress.reached(*_reached(folder, len(futures)))
                if time.monotonic() - shown > SHOW_SECONDS:
                    with suppress(OSError, ValueError):  # a part may be moving
                        show()
                    shown = time.monotonic()
                if any(_has_failed(future) for future in futures):
                    _stop(futures, folder)
            progress.reached(*_reached(folder, len(futures)))
            return interrupted
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            _stop(futures, folder)


def _has_failed(future: Future) -> bool:
    try:
        return future.done() and future.result().diverged is not None
    except BaseException:  # KeyboardInterrupt too, if it reached the worker
        return True


def _stop(futures: Sequence[Future], folder: Path) -> None:
    """End all jobs: running ones at their next stretch, the others before they begin."""
    (folder / STOP).touch()
    for future in futures:
        future.cancel()


def _reached(folder: Path, n_jobs: int) -> tuple[int, np.ndarray | None]:
    """How many iterations are done, on average over all jobs, and their estimates of the log posterior."""
    done, log_densities = 0, []
    for file in folder.glob("progress-*"):
        with suppress(OSError, ValueError):  # it is being written
            iterations, log_density = file.read_text().split()
            done += int(iterations)
            log_densities.append(float(log_density))
    return done // n_jobs, np.array(log_densities) if log_densities else None


def by_jobs(run: Run, jobs: Jobs, prepared: Prepared, progress: Watcher) -> RunResult:
    """All chains of a run whose beginning is known; `prepared` are those of the first job."""
    sent, path = replace(run, jobs=None), run.path
    if path is None:
        with progress:
            outcome = jobs.execute(sent, progress)
    else:
        specs = sent.of_chains(jobs.groups[0]).loop(prepared).row_specs
        if not path.exists():
            assert run.beginning is not None
            create_whole(path, specs, run.beginning.encode(), run.settings | prepared.settings, jobs.groups)
        with progress:
            outcome = jobs.execute(sent, progress, partial(show_parts, path))
        rows = [read_rows(path_of_part(path, chains), specs) for chains in outcome.groups]
        parts = [part._replace(rows=one) for part, one in zip(outcome.parts, rows, strict=True)]
        outcome = outcome._replace(parts=parts)
    if outcome.has_failed:
        raise _failure(run, prepared, outcome, len(jobs.groups))
    return outcome.result()


def _failure(run: Run, prepared: Prepared, outcome: Outcome, n_jobs: int) -> BaseException:
    """The exception of the first job that failed, with the draws of all jobs that have some."""
    draws = {part.chains[0]: run.to_draws(prepared, part, {}) for part in outcome.parts if part.stored}
    diverged = next((part for part in outcome.parts if part.diverged), None)
    error: Any
    if diverged is not None and diverged.diverged is not None:
        chains: Sequence[int] = diverged.chains
        error = diverged.diverged.with_draws(run.to_draws(prepared, diverged, {}), diverged.stored)
    else:
        chains, error = next(iter(outcome.failures.items()))
    kept = f"`partial` of this error has the draws of the {len(draws)} of {n_jobs} jobs that returned any."
    if run.path is not None:
        kept += f" {str(run.path)!r} has all draws that were written; resume=True continues it."
    error.add_note(f"This comes from the job of chains {chains[0]} to {chains[-1]} of {run.sampler.name}. {kept}")
    error.partial = list(draws.values())
    return error
