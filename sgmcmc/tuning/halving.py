"""Successive halving: run many settings briefly, and the best of them for longer.

In each rung all remaining candidates get the same number of gradients. The best 1/eta
of them continue from their states with eta times as many. This follows MAMBA (Coullon,
South & Nemeth 2023), except that MAMBA counts seconds. Here gradients of single
observations are counted, so that the same seed gives the same choice. Half of the
gradients move a chain; the other half judge it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.progress import Progress
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import block_size
from sgmcmc.kernel import State
from sgmcmc.kernel.iterations import FOUND
from sgmcmc.parallel.executors import Workers, each
from sgmcmc.run import Plan, Prepared
from sgmcmc.run.checkpoint import Beginning
from sgmcmc.run.product import ProductSampler
from sgmcmc.run.recorder import Recorder
from sgmcmc.tuning.candidates import run_candidates, with_stepsizes
from sgmcmc.tuning.discrepancy import discrepancies, flattened, gradients_at
from sgmcmc.tuning.tuned import Scored

POSITIONS = 200  # in the second half of a rung, at which a chain is judged
FEWEST_POSITIONS, MOST_POSITIONS = 20, 1000


class Group(NamedTuple):
    """Candidates that differ only in their stepsizes: the chains of one program."""

    sampler: ProductSampler
    stepsizes: list[Mapping[str, float]]

    @property
    def cost(self) -> int:
        """The number of gradients of single observations in an iteration."""
        return self.sampler.minibatch.size * self.sampler.leaps


class Remaining(NamedTuple):
    """The remaining candidates of a group, and their states."""

    members: list[int]
    state: State | None = None  # None before the first rung


Chain = tuple[np.ndarray, np.ndarray]
"""Positions of a candidate and gradients there, [K, D] each."""


class Rung(NamedTuple):
    """The resources of each candidate in a rung."""

    gradients: int  # to move it
    positions: int  # at which it is judged
    size: int  # observations used at each position


def sizes_of_rungs(n_candidates: int, eta: int) -> list[int]:
    """The number of candidates in each rung; the last remaining one does not run again."""
    sizes = [n_candidates]
    while sizes[-1] // eta > 1:
        sizes.append(sizes[-1] // eta)
    return sizes


def rungs_of(groups: Sequence[Group], n_gradients: int, eta: int) -> list[Rung]:
    """The rungs, given the total number of gradients of all candidates."""
    sizes = sizes_of_rungs(sum(len(group.stepsizes) for group in groups), eta)
    unit = n_gradients / sum(size * eta**r for r, size in enumerate(sizes))
    rungs, largest = [], min(groups[0].sampler.data.size, block_size(groups[0].sampler.data))
    for r in range(len(sizes)):
        gradients = int(unit * eta**r / 2)
        wanted = int(
            np.clip(gradients // largest, POSITIONS, MOST_POSITIONS)
        )  # more, if each position is judged on all data
        positions = min(wanted, *(gradients // group.cost // 2 for group in groups))
        rungs.append(Rung(gradients, positions, int(np.clip(gradients // max(positions, 1), 1, largest))))
    return rungs


def fewest_gradients(groups: Sequence[Group], eta: int) -> int:
    """The smallest number of gradients with enough positions in the first rung."""
    sizes = sizes_of_rungs(sum(len(group.stepsizes) for group in groups), eta)
    dearest = max(group.cost for group in groups)
    return 4 * FEWEST_POSITIONS * dearest * sum(size * eta**r for r, size in enumerate(sizes))


def search(
    groups: Sequence[Group],
    n_gradients: int,
    eta: int,
    seed: int,
    verbose: bool,
    workers: Workers | None = None,
    per_job: int | None = None,
) -> list[Scored]:
    """The judgement of every candidate in every rung.

    Candidates are numbered consecutively over the groups. Each job of a worker runs
    `per_job` of them.
    """
    prepared = groups[0].sampler.prepare(verbose, workers=workers)  # searches for the mode once, if needed
    beginnings = _beginnings(groups, prepared)
    left = [Remaining(list(range(len(group.stepsizes)))) for group in groups]
    firsts = np.cumsum([0, *(len(group.stepsizes) for group in groups)])
    sizes = sizes_of_rungs(int(firsts[-1]), eta)
    judged: list[Scored] = []
    done = 0
    with Progress(n_gradients, f"Tuning {groups[0].sampler.name}", "gradient", verbose) as progress:
        for number, rung in enumerate(rungs_of(groups, n_gradients, eta), 1):
            seed = random.child_seed(seed, Purpose.RUNG)
            numbers: list[int] = []
            spent: list[int] = []
            chains: list[Chain] = []
            pieces = [piece for g in range(len(groups)) for piece in _pieces(g, left[g], per_job)]
            given = Given(groups, beginnings, rung, seed)
            states: list[list[State]] = [[] for _ in groups]
            for piece, (state, of_piece) in zip(pieces, each(workers, after_rung, given, pieces), strict=True):
                group = groups[piece.group]
                states[piece.group].append(state)
                chains += of_piece
                numbers += [int(firsts[piece.group]) + member for member in piece.members]
                spent += [rung.gradients // group.cost * group.cost + rung.positions * rung.size] * len(of_piece)
                done += spent[-1] * len(of_piece)
                progress.reached(min(done, n_gradients))
            left = [
                Remaining(one.members, tf.nest.map_structure(lambda *x: tf.concat(x, 0), *after) if after else None)
                for one, after in zip(left, states, strict=True)
            ]
            values = discrepancies(chains)
            best = sizes[number] if number < len(sizes) else 1
            order = sorted(range(len(values)), key=lambda k: values[k])[:best]
            kept = {numbers[k] for k in order if np.isfinite(values[k])}
            judged += [
                Scored(k, number, cost, value, k in kept) for k, cost, value in zip(numbers, spent, values, strict=True)
            ]
            if not kept:
                break
            left = [_kept(remaining, kept, int(first)) for remaining, first in zip(left, firsts, strict=False)]
    return judged


def _beginnings(groups: Sequence[Group], prepared: Prepared) -> list[Beginning]:
    """The first group's results, with the minibatch constants for each group's size."""
    found = {key: prepared.constants[key] for key in FOUND}
    of_size = {groups[0].sampler.minibatch.size: found["minibatch"]}
    for group in groups:
        minibatch = group.sampler.minibatch
        if minibatch.size not in of_size:  # the importance of observations is the same for any size
            of_size[minibatch.size] = found["minibatch"] if minibatch.wants_importance else minibatch.prepare(None)
    return [
        Beginning({}, found | {"minibatch": of_size[group.sampler.minibatch.size]}, prepared.mode) for group in groups
    ]


def _kept(remaining: Remaining, kept: set[int], first: int) -> Remaining:
    places = [place for place, member in enumerate(remaining.members) if first + member in kept]
    state = None if not places else tf.nest.map_structure(lambda x: tf.gather(x, places), remaining.state)
    return Remaining([remaining.members[place] for place in places], state)


class Given(NamedTuple):
    """What all candidates of a rung share."""

    groups: Sequence[Group]
    beginnings: list[Beginning]
    rung: Rung
    seed: int


class Piece(NamedTuple):
    """Candidates of a group that run in one program."""

    group: int
    first: int  # the place of the first among the remaining candidates; it determines their random numbers
    members: list[int]
    state: State | None


def _pieces(group: int, remaining: Remaining, per_job: int | None) -> list[Piece]:
    """The remaining candidates of a group, `per_job` at a time."""
    n, pieces = per_job or len(remaining.members), []
    for first in range(0, len(remaining.members), n):
        members, state = remaining.members[first : first + n], remaining.state
        if state is not None:
            state = tf.nest.map_structure(lambda x, k=first: x[k : k + n], state)
        pieces.append(Piece(group, first, members, state))
    return pieces


def after_rung(given: Given, piece: Piece) -> tuple[State, list[Chain]]:
    """The state of these candidates after a rung, and the positions and gradients of each.

    Positions are NaN if a candidate diverged.
    """
    group, beginning = given.groups[piece.group], given.beginnings[piece.group]
    stepsizes = [group.stepsizes[member] for member in piece.members]
    one = replace(group.sampler, first_chain=piece.first, seed=given.seed)
    sampler, prepared = with_stepsizes(one, stepsizes, beginning, piece.state)
    state, positions, finite = _run(prepared, given.rung.gradients // group.cost, given.rung.positions)
    x, s = flattened(positions), gradients_at(sampler, beginning.found, positions, given.rung.size, given.seed)
    x[:, ~finite] = np.nan
    return state, [(x[:, c], s[:, c]) for c in range(len(stepsizes))]


def _run(prepared: Prepared, n_iterations: int, n_positions: int) -> tuple[State, Tree, np.ndarray]:
    """The last state, positions in the second half {name: [K, C, ...]}, and which chains were always finite, [C]."""
    kernel = prepared.kernel
    thin = n_iterations // 2 // n_positions
    plan = Plan(n_iterations, thin, n_iterations - thin * n_positions)
    recorder = Recorder(lambda constants, state, inputs: {"posterior": kernel.params(state)})
    ran = run_candidates(prepared, recorder, plan)
    return ran.state, ran.rows["posterior"], ran.finite
