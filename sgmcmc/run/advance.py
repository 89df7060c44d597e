"""Run a chain in short stretches, and check for divergence after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import DivergenceError, warn_user
from sgmcmc.core.trees import Tree
from sgmcmc.run import Pace, Plan, Stretch
from sgmcmc.run.checkpoint import Checkpoint
from sgmcmc.run.loop import Loop, Outcome
from sgmcmc.run.recorder import Accumulated

Failure = Callable[[int, int, str, bool, Sequence[Tree]], DivergenceError]
"""From the iteration, the chain, the parameter, whether the density alone is not finite, and the positions nearby."""


def divergence(iteration: int, chain: int, parameter: str, of_density: bool, near: Sequence[Tree]) -> DivergenceError:
    """The error of a divergent chain, without an explanation."""
    return DivergenceError(iteration, chain, parameter, of_density)


class Storage(Protocol):
    """Where the rows are stored."""

    stored: int
    """The number of rows stored so far."""
    leaves: list[tf.Tensor]
    """The leaves of the last state."""

    def append(self, rows: list[np.ndarray], count: int) -> None:
        """Store the first `count` rows, [>= count, C, ...], by group and name."""

    def reached(self, iteration: int, leaves: list[tf.Tensor]) -> None:
        """Take note of the state after this iteration, to which all rows have been appended."""

    def commit(self) -> None:
        """Make sure that the appended rows cannot be lost."""

    def close(self) -> None: ...

    def result(self) -> Tree:
        """The stored rows, {group: {name: [C, stored, ...]}}."""


class Watcher(Protocol):
    """Receives the progress of a run."""

    def __enter__(self) -> Any: ...
    def __exit__(self, *_: Any) -> None: ...

    def reached(self, done: int, log_density: np.ndarray | None = None) -> None:
        """Take note of the iterations done; a KeyboardInterrupt from here ends the run."""


class StretchResult(NamedTuple):
    """A finished stretch and its outcome."""

    stretch: Stretch
    outcome: Outcome


def stretches(
    loop: Loop,
    leaves: list[tf.Tensor],
    plan: Plan,
    pace: Pace,
    done: int = 0,
    failure: Failure | None = divergence,
) -> Iterator[StretchResult]:
    """Follow the plan after `done` iterations; without `failure` chains that diverge go on."""
    while done < plan.n_iterations:
        started = time.perf_counter()
        stretch = plan.stretch(done, min(done + pace.length, loop.call_end(done)), loop.capacity)
        outcome = loop.advance(leaves, stretch)
        if failure is not None and not _is_finite(outcome):
            at, error = _divergence(loop, leaves, stretch, failure)
            if at - 1 > done:  # again up to there, for the last finite state
                stretch = plan.stretch(done, at - 1, loop.capacity)
                yield StretchResult(stretch, loop.advance(leaves, stretch))
            raise error
        leaves, done = outcome.leaves, stretch.end
        yield StretchResult(stretch, outcome)
        pace.adapt(stretch.end - stretch.begin, time.perf_counter() - started)


def run(
    loop: Loop,
    leaves: list[tf.Tensor],
    plan: Plan,
    storage: Storage,
    progress: Watcher,
    done: int = 0,
    failure: Failure = divergence,
) -> list[tf.Tensor]:
    """Follow the plan, and return the leaves of the last state; `storage` has the rows before any error."""
    try:
        for stretch, outcome in stretches(loop, leaves, plan, Pace(loop.feed.length, loop.shortest), done, failure):
            if stretch.n_rows:
                storage.append([row.numpy() for row in outcome.rows], stretch.n_rows)
            leaves = outcome.leaves
            storage.reached(stretch.end, leaves)
            progress.reached(stretch.end, outcome.log_density)
    finally:
        loop.feed.close()
    return leaves


def _divergence(loop: Loop, before: list[tf.Tensor], stretch: Stretch, failure: Failure) -> tuple[int, DivergenceError]:
    """The first iteration after which a number is NaN or infinite, and its error."""
    # The loop reports it only at the end of a stretch. Runs repeat exactly, so bisection finds the iteration.

    def until(end: int) -> Outcome:
        return loop.advance(before, stretch._replace(end=end, n_rows=0))

    low, high = stretch.begin, stretch.end  # finite after low, not finite after high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_finite(until(middle)) else (low, middle)
    outcome = until(high)
    chain, parameter, of_density = _culprit(loop, outcome)
    leaves = [until(low).leaves if low > stretch.begin else before, outcome.leaves]
    near = [{name: theta[chain] for name, theta in loop.params_of_chains(each).items()} for each in leaves]
    return high, failure(high, chain, parameter, of_density, near)


def _is_finite(outcome: Outcome) -> bool:
    return bool(np.isfinite(outcome.log_density).all())


def _culprit(loop: Loop, outcome: Outcome) -> tuple[int, str, bool]:
    """The chain and the parameter to name, and whether only the density is not finite."""
    for name, of_chains in loop.finite(outcome.leaves).items():
        if not of_chains.all():
            return int(np.argmin(of_chains)), name, False
    chain = int(np.argmin(np.isfinite(outcome.log_density)))
    params = {name: np.abs(theta[chain]).max() for name, theta in loop.params_of_chains(outcome.leaves).items()}
    return chain, max(params, key=lambda name: params[name]), True


def warn_interrupted(stored: int, n_rows: int, chains: Sequence[int] | None = None) -> None:
    """Warn that the result of an interrupted run is shorter than requested, or has only these chains."""
    only = f" of chains {', '.join(map(str, chains))}, the others having fewer" if chains else ""
    warn_user(f"interrupted: returning the first {stored} of {n_rows} draws{only}.")


class RunResult(NamedTuple):
    """The rows of some chains, and the accumulators after them."""

    chains: list[int]
    rows: Tree  # {group: {name: [C, stored, ...]}}
    stored: int
    accumulated: Accumulated  # of NumPy's arrays
    seconds: float
    interrupted: bool = False
    diverged: DivergenceError | None = None
    checkpoints: Mapping[int, Checkpoint] = {}  # where they resume, by the first chain of each job, if they do

    def then(self, later: RunResult) -> RunResult:
        """The same chains after they continued, with what they added in `later`."""
        rows = {
            group: {name: np.concatenate([x, later.rows[group][name]], axis=1) for name, x in members.items()}
            for group, members in self.rows.items()
        }
        return later._replace(rows=rows, stored=self.stored + later.stored)

    def of_chains(self, chains: range) -> RunResult:
        """The part of some of the chains."""
        here = slice(self.chains.index(chains.start), self.chains.index(chains.start) + len(chains))
        rows, reduced = tf.nest.map_structure(lambda x: x[here], (self.rows, self.accumulated.reduced))
        return self._replace(chains=list(chains), rows=rows, accumulated=self.accumulated._replace(reduced=reduced))

    def first(self, n_rows: int) -> RunResult:
        """The same with the first rows only."""
        rows = {group: {k: x[:, :n_rows] for k, x in members.items()} for group, members in self.rows.items()}
        return self._replace(rows=rows, stored=n_rows)
