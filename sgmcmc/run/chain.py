"""A chain from start to end: blocks of the loop into a storage, with progress, divergence check and interruption."""

from __future__ import annotations

import time
import warnings
from typing import Protocol

import numpy as np
import tensorflow as tf
from tqdm.auto import tqdm

from sgmcmc.core.errors import DivergenceError
from sgmcmc.run.loop import MAX_ROWS, Block, Loop

BLOCK_SECONDS = 0.1


class Storage(Protocol):
    """What becomes of the draws."""

    stored: int
    """How many have been kept."""

    def append(self, block: dict[str, np.ndarray], count: int) -> None:
        """Keep the first `count` rows of a block {name: [>= count, ...]}."""

    def result(self) -> dict[str, np.ndarray]:
        """What has been kept so far."""


def run(
    loop: Loop,
    leaves: list[tf.Tensor],
    n_iterations: int,
    storage: Storage,
    title: str,
    verbose: bool,
    failure: type[DivergenceError] = DivergenceError,
    thin: int = 1,
    burn_in: int = 0,
) -> list[tf.Tensor]:
    """Run `n_iterations` iterations from `leaves` and return the leaves of the last state.

    Stored is the last of every `thin` iterations after the first `burn_in`.

    A KeyboardInterrupt is left to the caller, who finds in `storage` every block completed before.

    Raises
    ------
    DivergenceError
        As `failure`, with the draws before the divergence.
    """
    done, block_length = 0, 1 if burn_in else thin
    with tqdm(total=n_iterations, desc=title, unit="iteration", disable=not verbose) as bar:
        while done < n_iterations:
            burning = done < burn_in
            if done == burn_in:
                block_length = _multiple(block_length, thin)
            n = min(block_length, (burn_in if burning else n_iterations) - done)
            started = time.perf_counter()
            block = loop.advance(leaves, n, n if burning else thin)
            try:
                check_finite(loop, leaves, block, n, done, failure)
            except DivergenceError as error:
                storage.append(_to_numpy(block), 0 if burning else (error.iteration - 1 - done) // thin)
                raise error.with_draws(storage.result(), storage.stored) from None
            storage.append(_to_numpy(block), 0 if burning else n // thin)
            leaves, done = block.leaves, done + n
            bar.set_postfix_str(f"log posterior estimate {float(np.mean(block.log_density)):.6g}", refresh=False)
            bar.update(n)
            elapsed = time.perf_counter() - started
            block_length = (
                next_length(block_length, elapsed, MAX_ROWS, 1)
                if burning
                else next_length(block_length, elapsed, loop.capacity * thin, thin)
            )
    return leaves


def next_length(length: int, elapsed: float, longest: int, unit: int) -> int:
    """Short blocks keep the bar and Ctrl-C alive, long ones cost less; their length cannot change the draws."""
    longer, shorter = min(2 * length, longest), _multiple(length // 2, unit)
    return longer if elapsed < BLOCK_SECONDS / 2 else shorter if elapsed > 2 * BLOCK_SECONDS else length


def _multiple(length: int, unit: int) -> int:
    """The positive multiple of `unit` at or below `length`, or `unit`."""
    return max(length // unit, 1) * unit


def check_finite(
    loop: Loop,
    before: list[tf.Tensor],
    block: Block,
    n: int,
    done: int,
    failure: type[DivergenceError] = DivergenceError,
) -> None:
    """Raise, naming the first iteration concerned, unless the block of `n` iterations from `before` ended finite.

    A position once not finite stays so, and runs repeat exactly, so the iteration is found by bisection at no cost to
    chains that do not diverge. An estimate of the log posterior may recover; it is looked at where blocks end, and
    where bisection leads.
    """
    if _is_finite(block):
        return
    low, high = 0, n  # finite after low, not finite after high
    while high - low > 1:
        middle = (low + high) // 2
        trial = loop.advance(before, middle, thin=n)
        low, high = (middle, high) if _is_finite(trial) else (low, middle)
    raise failure(done + high, *_culprit(loop, loop.advance(before, high, thin=n)))


def _is_finite(block: Block) -> bool:
    return bool(np.isfinite(block.log_density).all())


def _culprit(loop: Loop, block: Block) -> tuple[int, str, bool]:
    """The chain and parameter to name, and whether it is the density alone that is not finite."""
    state = loop.unflatten(block.leaves)
    for name, theta in state.params.items():
        for leaf in (theta, *state.dynamics[name].values()):
            finite = np.isfinite(leaf).reshape(leaf.shape[0], -1).all(axis=1)
            if not finite.all():
                return int(np.argmin(finite)), name, False
    chain = int(np.argmin(np.isfinite(block.log_density)))
    return chain, max(state.params, key=lambda name: np.abs(state.params[name][chain]).max()), True


def warn_interrupted(stored: int, n_draws: int) -> None:
    """Say that a result is shorter than was asked for."""
    warnings.warn(f"interrupted: returning the {stored} draws of {n_draws} made so far.", stacklevel=4)


def _to_numpy(block: Block) -> dict[str, np.ndarray]:
    return {name: draws.numpy() for name, draws in block.draws.items()}
