"""The chains of a run in groups, each of which an executor hands to one of its workers."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sgmcmc.core.executors import Executor, Future
from sgmcmc.core.parcel import Parcel
from sgmcmc.run.advance import Watcher
from sgmcmc.run.sampled import Sampled, joined, most
from sgmcmc.run.worker import STOP, sample

if TYPE_CHECKING:
    from sgmcmc.run.one_call import Run

POLL_SECONDS = 0.05
SHOW_SECONDS = 5.0


class Outcome(NamedTuple):
    """What has become of the jobs of a run."""

    parts: list[Sampled]  # of those that returned something, in the order of their chains
    failures: dict[range, BaseException]  # of those that raised an exception
    interrupted: bool
    seconds: float

    @property
    def groups(self) -> list[range]:
        """The chains of each part."""
        return [range(part.chains[0], part.chains[-1] + 1) for part in self.parts]

    @property
    def has_failed(self) -> bool:
        """Whether a job failed by itself: after Ctrl-C a worker may have ended for that reason."""
        return any(part.diverged for part in self.parts) or bool(self.failures and not self.interrupted)

    def sampled(self) -> Sampled:
        """All chains; after Ctrl-C as many as have together the most draws."""
        begun = [part for part in self.parts if part.stored]
        if not begun:
            raise KeyboardInterrupt
        chosen = most(begun) if any(part.rows for part in begun) else begun  # sums of any length stand side by side
        return joined(chosen)._replace(interrupted=self.interrupted, seconds=self.seconds)


@dataclass(frozen=True)
class Jobs:
    """Who makes the chains, and in which groups.

    Parameters
    ----------
    executor : Executor or None
        None makes one job after the other in this process.
    groups : sequence of range
        The numbers of the chains of each job.
    earlier : Sampled or None
        What all chains have left in memory before they go on.
    """

    executor: Executor | None
    groups: Sequence[range]
    earlier: Sampled | None = None

    def made(self, run: Run, progress: Watcher, show: Callable[[], None] | None = None) -> Outcome:
        """Have all chains of a run made, until they are done, one fails or Ctrl-C comes.

        `show` is called at times on the way, and at the end.
        """
        started = time.perf_counter()
        parts: list[Sampled] = []
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
            failures = given_up  # by others than this process
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
    """Wait for all jobs or, after one failed or Ctrl-C, for those that have begun; whether Ctrl-C came."""
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
    """End all jobs: those that run at their next stretch, the others before they begin."""
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
