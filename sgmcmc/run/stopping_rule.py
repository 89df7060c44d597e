"""The stopping rule of `nIters="auto"`: runs of growing lengths, until one is long rule.

The lengths are multiples of a unit that is fixed before the run. Which of them are used depends only on the draws. So
the same seed ends at the same length on every machine, even after an interruption.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil
import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.core.progress import Progress
from sgmcmc.core.trees import Tree
from sgmcmc.draws.convergence import APART, RHAT, SHIFT, WorstElement, worst
from sgmcmc.run import Prepared
from sgmcmc.run.advance import RunResult

if TYPE_CHECKING:
    from sgmcmc.run.one_call import Run


PER_DRAW = 4  # stored draws for each independent one; in an autoregression this loses 2% of the information in all
UNITS = 20  # in the predicted length
AT_FIRST, UNIT = 10_000, 1000  # iterations, if there is no prediction
PATIENCE, MOST = 20, 10**6  # multiples of the prediction, or iterations, after which a run ends
AGREED = 400  # independent draws that R-hat needs in any case; several times as many with thousands of elements
MARGIN, LARGEST = 1.1, 2.0  # on what the last look estimates; from one length to the next


@dataclass(frozen=True)
class StoppingRule:
    """Run until there are `wanted` effective draws of every element, and R-hat is below RHAT."""

    wanted: float  # effective draws of all chains together
    of_means: bool = False  # draws for the mean, sd^2 / mcse^2; otherwise for bulk or tails, whichever are fewer
    max_iterations: int | None = None  # by default PATIENCE times as many as predicted, or MOST
    max_seconds: float | None = None
    thins: bool = False  # whether `thin` follows from the prediction

    @property
    def settings(self) -> dict[str, Any]:
        return {"mcse": self.wanted**-0.5} if self.of_means else {"ess": self.wanted}

    def thin(self, tuning: Tree) -> int:
        """The predicted `thin`."""
        return max(1, int(float(tuning["iterations"]) / PER_DRAW)) if tuning else 1

    def lengths(self, tuning: Tree, n_chains: int, thin: int, burn_in: int) -> Lengths:
        if tuning:
            needed = float(tuning["iterations"]) * self.wanted / n_chains
            patient = PATIENCE * max(1.0, AGREED / self.wanted) * needed
            unit, first, most = thin * ceil(needed / UNITS / thin), UNITS, burn_in + ceil(patient)
        else:
            unit, first, most = thin * ceil(UNIT / thin), ceil(AT_FIRST / UNIT), MOST
        return Lengths(burn_in, unit, first, self.max_iterations or max(most, burn_in + unit))

    def factor(self, found: WorstElement) -> float:
        """The number of draws needed, relative to the number there are."""
        draws = self.wanted / found.ess if found.ess else np.inf
        between = (found.rhat**2 - 1) / (RHAT**2 - 1)  # falls as the number of draws grows, if chains mix
        return max(draws, between, found.shift / SHIFT)


@dataclass(frozen=True)
class Lengths:
    """Multiples of `unit` iterations after `burn_in`, and finally `most`."""

    burn_in: int
    unit: int
    first: int
    most: int

    def begin(self) -> int:
        return self._at(self.first)

    def after(self, length: int, factor: float) -> int:
        """The next length, if `factor` times as many draws are needed."""
        kept = length - self.burn_in
        return self._at(max(kept // self.unit + 1, ceil(kept * min(factor * MARGIN, LARGEST) / self.unit)))

    def _at(self, units: int) -> int:
        return min(self.burn_in + units * self.unit, self.most)


class StoppedRun(NamedTuple):
    """The last of the runs, the draws of all together, and what ended it too early, if anything."""

    run: Run
    result: RunResult
    diagnostics_seconds: float  # seconds
    found: WorstElement | None = None
    budget: str = ""

    def warn(self) -> None:
        run, found, rule = self.run, self.found, self.run.stopping_rule
        if not self.budget or found is None or rule is None:
            return
        missing, chains = [], self.result.chains
        if len(chains) < len(run.sampler.chains):
            missing.append(f"only chains {', '.join(map(str, chains))} are returned, the others having fewer draws")
        if found.ess < rule.wanted:
            missing.append(f"{found.ess_of!r} has {found.ess:.0f} effective draws of {rule.wanted:.0f}")
        if found.rhat >= RHAT:
            apart = ", so its chains are in different places" if APART < found.rhat < np.inf else ""
            missing.append(f"{found.rhat_of!r} has R-hat {found.rhat:.4g}, not below {RHAT}{apart}")
        if found.shift >= SHIFT:
            missing.append(f"the mean of {found.shift_of!r} still depends on where the chains began: give burnIn")
        warn_user(f"{run.sampler.name} ended at {self.budget} before it was long enough: {'; '.join(missing)}.")


class ProgressInDraws:
    """Shows how many of the wanted draws there are, and ends the run when its time is up."""

    def __init__(self, progress: Progress, wanted: float, expected: int, deadline: float) -> None:
        self._progress, self._wanted, self._deadline = progress, wanted, deadline
        self.expected = expected  # iterations that are likely to be enough
        self.late = False

    def __enter__(self) -> ProgressInDraws:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar, with which the next run goes on."""

    def reached(self, done: int, log_density: np.ndarray | None = None) -> None:
        self._progress.reached(round(self._wanted * min(done / self.expected, 1.0)), log_density)
        if done and not self.late and time.monotonic() > self._deadline:
            self.late = True
            raise KeyboardInterrupt


def run_until_stopped(run: Run, prepared: Prepared, began: float) -> StoppedRun:
    """Make runs of growing lengths, until one is long enough or the budget is used up."""
    rule = run.stopping_rule
    assert rule is not None
    lengths = rule.lengths(prepared.tuning, len(run.sampler.chains), run.keep.thin, run.keep.burn_in)
    deadline = began + (np.inf if rule.max_seconds is None else rule.max_seconds)
    length, diagnostics_seconds, seconds, result = lengths.begin(), 0.0, 0.0, None
    with Progress(round(rule.wanted), run.sampler.name, "effective draw", run.verbose) as progress:
        watch = ProgressInDraws(progress, rule.wanted, length, deadline)
        while True:
            run = replace(run, n_iterations=length)
            result = _extended(run, prepared, watch, result)
            seconds += result.seconds
            result = result._replace(seconds=seconds)
            if (result.interrupted and not watch.late) or result.diverged:
                return StoppedRun(run, result, diagnostics_seconds)
            started = time.monotonic()
            found = worst(_rows(run, result), rule.wanted, rule.of_means)
            diagnostics_seconds += time.monotonic() - started
            suffices = found.suffices(rule.wanted)
            if suffices or length >= lengths.most or watch.late:
                budget = f"maxSeconds={rule.max_seconds:g}" if watch.late else f"maxIters={length}"
                made = run.keep.burn_in + result.stored * run.keep.thin
                run = replace(run, n_iterations=made if watch.late else max(length, made))
                return StoppedRun(
                    run, result._replace(interrupted=False), diagnostics_seconds, found, "" if suffices else budget
                )
            length = watch.expected = lengths.after(length, rule.factor(found))
            if (missing := _missing_bytes(run, result, length)) > 0:
                return StoppedRun(
                    run, result, diagnostics_seconds, found, f"the memory limit ({missing / 1e9:.1f} GB more needed)"
                )


def _extended(run: Run, prepared: Prepared, watch: ProgressInDraws, before: RunResult | None) -> RunResult:
    """The result of all iterations of this run, of which those in `before` are already made."""
    if before is None:
        return run.execute(prepared, watch)
    run = replace(run, checkpoints=before.checkpoints)
    if run.path is not None:
        return run.execute(prepared, watch)
    if run.jobs is None:
        return before.then(run.execute(prepared, watch))
    return replace(run, jobs=replace(run.jobs, earlier=before)).execute(prepared, watch)


def _rows(run: Run, result: RunResult) -> dict[str, Any]:
    """The draws up to the length of the run: a store may have more."""
    return {name: x[:, : run.plan.n_rows] for name, x in result.rows["posterior"].items()}


def _missing_bytes(run: Run, result: RunResult, length: int) -> float:
    """How much more memory is needed for a run of this length than is free."""
    if run.path is not None:
        return 0.0
    of_all = sum(x.nbytes for x in tf.nest.flatten(result.rows)) / max(result.stored, 1)
    n_new = replace(run, n_iterations=length).plan.n_rows - result.stored
    return of_all * (2 * n_new + result.stored) - psutil.virtual_memory().available
