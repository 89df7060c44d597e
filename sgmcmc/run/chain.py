"""A chain from here to there: blocks of the loop, with pauses short enough for Ctrl-C and a check for divergence."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from tqdm.auto import tqdm

from sgmcmc.core.errors import DivergenceError
from sgmcmc.core.types import Tree
from sgmcmc.run.loop import Block, Loop

BLOCK_SECONDS = 0.1
LONGEST_BLOCK = 2**20  # iterations


class Storage(Protocol):
    """What becomes of the rows."""

    stored: int
    """How many have been kept."""
    leaves: list[tf.Tensor]
    """Those of the state last reached."""

    def append(self, rows: Tree, count: int) -> None:
        """Keep the first `count` of the rows, leaves [>= count, C, ...]."""

    def reached(self, iteration: int, leaves: list[tf.Tensor]) -> None:
        """The chain has come to this iteration, whose state has these leaves, and all rows before it are appended."""

    def commit(self) -> None:
        """Make sure that what was appended is not lost."""

    def close(self) -> None:
        """The run is over."""

    def result(self) -> Tree:
        """What has been kept, {group: {name: [C, stored, ...]}}."""


@dataclass(frozen=True)
class Plan:
    """Which iterations to make, and which of them to record.

    Recorded is the last of every `thin` iterations after the first `burn_in`; nothing, if `thin` is None.
    """

    n_iterations: int
    thin: int | None = 1
    burn_in: int = 0

    @property
    def n_rows(self) -> int:
        """How many are recorded in all."""
        return 0 if self.thin is None else (self.n_iterations - self.burn_in) // self.thin

    def next_block(self, done: int, length: int, capacity: int) -> tuple[int, int]:
        """The rows of the block that follows `done` iterations, and the iterations to each; 0 rows record nothing."""
        if self.thin is None:
            return 0, min(length, self.n_iterations - done)
        if done < self.burn_in:
            return 0, min(length, self.burn_in - done)
        rows, within = divmod(done - self.burn_in, self.thin)
        if rows == self.n_rows:
            return 0, min(length, self.n_iterations - done)
        if within == 0 and length >= self.thin:
            return min(length // self.thin, capacity, self.n_rows - rows), self.thin
        due = self.thin - within
        return (1, due) if due <= length else (0, length)


class Pace:
    """How long blocks are: short ones keep the bar and Ctrl-C alive, long ones cost less; the draws are the same."""

    def __init__(self, length: int = 1) -> None:
        self.length = length

    def adapt(self, made: int, elapsed: float) -> None:
        """Learn that a block of `made` iterations took `elapsed` seconds."""
        if elapsed > 2 * BLOCK_SECONDS:
            self.length = max(made // 2, 1)
        elif elapsed < BLOCK_SECONDS / 2 and 2 * made > self.length:  # thinning cuts blocks a little short
            self.length = min(2 * self.length, LONGEST_BLOCK)


class Stretch(NamedTuple):
    """A block that was run: the iterations made since the start, the rows of it that count, the block."""

    done: int
    n_rows: int
    block: Block


def stretches(
    loop: Loop,
    leaves: list[tf.Tensor],
    plan: Plan,
    pace: Pace,
    done: int = 0,
    failure: type[DivergenceError] = DivergenceError,
) -> Iterator[Stretch]:
    """Follow the plan from the state with these leaves, after `done` iterations.

    Raises
    ------
    DivergenceError
        As `failure`, after the rows before the divergence have been yielded.
    """
    while done < plan.n_iterations:
        rows, each = plan.next_block(done, pace.length, loop.capacity)
        n, started = max(rows, 1) * each, time.perf_counter()
        block = loop.advance_and_record(leaves, rows, each) if rows else loop.advance(leaves, each)
        if not _is_finite(block):
            at, error = _divergence(loop, leaves, n, done, failure)
            if good := (at - 1) // each if rows else at - 1:  # again, for the state before
                block = loop.advance_and_record(leaves, good, each) if rows else loop.advance(leaves, good)
                yield Stretch(done + good * (each if rows else 1), good if rows else 0, block)
            raise error
        leaves, done = block.leaves, done + n
        yield Stretch(done, rows, block)
        pace.adapt(n, time.perf_counter() - started)


def run(
    loop: Loop,
    leaves: list[tf.Tensor],
    plan: Plan,
    storage: Storage,
    title: str,
    verbose: bool,
    done: int = 0,
    failure: type[DivergenceError] = DivergenceError,
) -> list[tf.Tensor]:
    """Follow the plan, with a progress bar, and return the leaves of the last state.

    A KeyboardInterrupt is left to the caller, who finds in `storage` every block completed before.

    Raises
    ------
    DivergenceError
        As `failure`; the rows before the divergence are in `storage`.
    """
    with tqdm(total=plan.n_iterations, initial=done, desc=title, unit="iteration", disable=not verbose) as bar:
        for stretch in stretches(loop, leaves, plan, Pace(), done, failure):
            if stretch.n_rows:
                storage.append(tf.nest.map_structure(lambda x: x.numpy(), stretch.block.rows), stretch.n_rows)
            bar.update(stretch.done - bar.n)
            leaves = stretch.block.leaves
            storage.reached(stretch.done, leaves)
            estimate = float(np.mean(stretch.block.log_density))
            bar.set_postfix_str(f"log posterior estimate {estimate:.6g}", refresh=False)
    return leaves


def _divergence(
    loop: Loop, before: list[tf.Tensor], n: int, done: int, failure: type[DivergenceError]
) -> tuple[int, DivergenceError]:
    """The first of the `n` iterations from `before` after which something was not finite, and the error that says so.

    What is not finite once is remembered to the end of its block, and runs repeat exactly, so the iteration is found
    by bisection at no cost to chains that do not diverge.
    """
    low, high = 0, n  # finite after low, not finite after high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_finite(loop.advance(before, middle)) else (low, middle)
    return high, failure(done + high, *_culprit(loop, loop.advance(before, high)))


def _is_finite(block: Block) -> bool:
    return bool(np.isfinite(block.log_density).all())


def _culprit(loop: Loop, block: Block) -> tuple[int, str, bool]:
    """The chain and parameter to name, and whether it is the density alone that is not finite."""
    state, _ = loop.unflatten(block.leaves)
    for name, theta in state.params.items():
        for leaf in (theta, *state.dynamics[name].values()):
            finite = np.isfinite(leaf).reshape(leaf.shape[0], -1).all(axis=1)
            if not finite.all():
                return int(np.argmin(finite)), name, False
    chain = int(np.argmin(np.isfinite(state.log_density)))
    return chain, max(state.params, key=lambda name: np.abs(state.params[name][chain]).max()), True


def warn_interrupted(stored: int, n_rows: int) -> None:
    """Say that a result is shorter than was asked for."""
    warnings.warn(f"interrupted: returning the {stored} draws of {n_rows} made so far.", stacklevel=6)
