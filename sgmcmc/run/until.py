"""A run that goes on until it is long enough: runs of growing lengths, each from where the last one ended."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil
import tensorflow as tf

from sgmcmc.core.progress import Progress
from sgmcmc.core.warn import warn_user
from sgmcmc.output.convergence import APART, RHAT, SHIFT, Found, worst
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.sampled import Sampled

if TYPE_CHECKING:
    from sgmcmc.run.one_call import Run


class Ended(NamedTuple):
    """The last of the runs, what all together have left, and what ended it before it was long enough, if anything."""

    run: Run
    sampled: Sampled
    looks: float  # seconds
    found: Found | None = None
    budget: str = ""

    def warn(self) -> None:
        """Warn if the run is not long enough."""
        run, found, enough = self.run, self.found, self.run.enough
        if not self.budget or found is None or enough is None:
            return
        missing, chains = [], self.sampled.chains
        if len(chains) < len(run.sampler.chains):
            missing.append(f"only chains {', '.join(map(str, chains))} are returned, the others having fewer draws")
        if found.ess < enough.wanted:
            missing.append(f"{found.ess_of!r} has {found.ess:.0f} effective draws of {enough.wanted:.0f}")
        if found.rhat >= RHAT:
            apart = ", so its chains are in different places" if APART < found.rhat < np.inf else ""
            missing.append(f"{found.rhat_of!r} has R-hat {found.rhat:.4g}, not below {RHAT}{apart}")
        if found.shift >= SHIFT:
            missing.append(f"the mean of {found.shift_of!r} still has an effect of where the chains began: give burnIn")
        warn_user(f"{run.sampler.name} ended at {self.budget} before it was long enough: {'; '.join(missing)}.")


class Watch:
    """Shows how many of the wanted draws there are, and ends the run when its time is over."""

    def __init__(self, progress: Progress, wanted: float, expected: int, deadline: float) -> None:
        self._progress, self._wanted, self._deadline = progress, wanted, deadline
        self.expected = expected  # iterations that are likely to be enough
        self.late = False

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the progress, which further runs go on with."""

    def reached(self, done: int, log_density: np.ndarray | None = None) -> None:
        """So many iterations are done."""
        self._progress.reached(round(self._wanted * min(done / self.expected, 1.0)), log_density)
        if done and not self.late and time.monotonic() > self._deadline:
            self.late = True
            raise KeyboardInterrupt


def until_enough(run: Run, prepared: Prepared, began: float) -> Ended:
    """Make runs of growing lengths, until one is long enough or the budget is used up.

    `began` is when the call began, by `time.monotonic`.
    """
    enough = run.enough
    assert enough is not None
    lengths = enough.lengths(prepared.tuning, len(run.sampler.chains), run.keep.thin, run.keep.burn_in)
    deadline = began + (np.inf if enough.max_seconds is None else enough.max_seconds)
    length, looks, seconds, sampled = lengths.begin(), 0.0, 0.0, None
    with Progress(round(enough.wanted), run.sampler.name, "effective draw", run.verbose) as progress:
        watch = Watch(progress, enough.wanted, length, deadline)
        while True:
            run = replace(run, n_iterations=length)
            sampled = _longer(run, prepared, watch, sampled)
            seconds += sampled.seconds
            sampled = sampled._replace(seconds=seconds)
            if (sampled.interrupted and not watch.late) or sampled.diverged:
                return Ended(run, sampled, looks)
            started = time.monotonic()
            found = worst(_rows(run, sampled), enough.wanted, enough.of_means)
            looks += time.monotonic() - started
            suffices = found.suffices(enough.wanted)
            if suffices or length >= lengths.most or watch.late:
                budget = f"maxSeconds={enough.max_seconds:g}" if watch.late else f"maxIters={length}"
                made = run.keep.burn_in + sampled.stored * run.keep.thin
                run = replace(run, n_iterations=made if watch.late else max(length, made))
                return Ended(run, sampled._replace(interrupted=False), looks, found, "" if suffices else budget)
            length = watch.expected = lengths.after(length, enough.factor(found))
            if (missing := _missing_bytes(run, sampled, length)) > 0:
                return Ended(run, sampled, looks, found, f"the end of memory, of which it needs {missing / 1e9:.1f} GB")


def _longer(run: Run, prepared: Prepared, watch: Watch, before: Sampled | None) -> Sampled:
    """What the chains of this run have left in all; so much of them has been made `before`."""
    if before is None:
        return run.made(prepared, watch)
    run = replace(run, checkpoints=before.checkpoints)
    if run.path is not None:
        return run.made(prepared, watch)
    if run.jobs is None:
        return before.then(run.made(prepared, watch))
    return replace(run, jobs=replace(run.jobs, earlier=before)).made(prepared, watch)


def _rows(run: Run, sampled: Sampled) -> dict[str, Any]:
    """The draws up to the length of the run: a store may have more."""
    return {name: x[:, : run.plan.n_rows] for name, x in sampled.rows["posterior"].items()}


def _missing_bytes(run: Run, sampled: Sampled, length: int) -> float:
    """How much more memory is needed for a run of this length than is free."""
    if run.path is not None:
        return 0.0
    of_all = sum(x.nbytes for x in tf.nest.flatten(sampled.rows)) / max(sampled.stored, 1)
    n_new = replace(run, n_iterations=length).plan.n_rows - sampled.stored
    return of_all * (2 * n_new + sampled.stored) - psutil.virtual_memory().available
