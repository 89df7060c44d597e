"""Successive halving: run many settings briefly, and the best of them for longer.

In each rung all remaining candidates get the same number of gradients, half to move a chain and half to judge it. The
best 1/eta continue with eta times as many. This follows MAMBA (Coullon, South & Nemeth 2023), except that MAMBA counts
seconds: counts of gradients make the choice reproducible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.progress import Progress
from sgmcmc.core.random import Purpose
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
        """The gradients of single observations in an iteration."""
        return self.sampler.minibatch.size * self.sampler.leaps


class Remaining(NamedTuple):
    members: list[int]
    state: State | None = None  # None before the first rung


Chain = tuple[np.ndarray, np.ndarray]  # positions of a candidate and gradients there, [K, D] each


class Rung(NamedTuple):
    gradients: int  # to move a candidate
    positions: int  # at which it is judged
    size: int  # observations used at each position

    def cost(self, group: Group) -> int:
        """The gradients of single observations for a candidate, which makes whole iterations."""
        return self.gradients // group.cost * group.cost + self.positions * self.size


def sizes_of_rungs(n_candidates: int, eta: int) -> list[int]:
    """The number of candidates in each rung; the last remaining one does not run again."""
    sizes = [n_candidates]
    while sizes[-1] // eta > 1:
        sizes.append(sizes[-1] // eta)
    return sizes


def rungs_of(groups: Sequence[Group], n_gradients: int, eta: int) -> list[Rung]:
    """The rungs, given the total number of gradients of all candidates."""
    weights, data, rungs = _weights(groups, eta), groups[0].sampler.data, []
    unit, largest = n_gradients / sum(weights), min(data.size, block_size(data))
    for r in range(len(weights)):
        gradients = int(unit * eta**r / 2)
        # More positions than usual, if each position is judged on all data.
        wanted = int(np.clip(gradients // largest, POSITIONS, MOST_POSITIONS))
        positions = min(wanted, *(gradients // group.cost // 2 for group in groups))
        rungs.append(Rung(gradients, positions, int(np.clip(gradients // max(positions, 1), 1, largest))))
    return rungs


def fewest_gradients(groups: Sequence[Group], eta: int) -> int:
    """The smallest number of gradients with enough positions in the first rung."""
    return 4 * FEWEST_POSITIONS * max(group.cost for group in groups) * sum(_weights(groups, eta))


def _weights(groups: Sequence[Group], eta: int) -> list[int]:
    """The gradients of all candidates of each rung, relative to those of one candidate in the first."""
    sizes = sizes_of_rungs(sum(len(group.stepsizes) for group in groups), eta)
    return [size * eta**r for r, size in enumerate(sizes)]


def search(
    groups: Sequence[Group],
    n_gradients: int,
    eta: int,
    seed: int,
    verbose: bool,
    workers: Workers | None = None,
    per_job: int | None = None,  # candidates in a job of a worker
) -> list[Scored]:
    """The judgement of every candidate in every rung. Candidates are numbered consecutively over the groups."""
    prepared = groups[0].sampler.prepare(verbose, workers=workers)  # searches for the mode once, if needed
    beginnings = _beginnings(groups, prepared)
    left = [Remaining(list(range(len(group.stepsizes)))) for group in groups]
    *firsts, n_candidates = accumulate((len(group.stepsizes) for group in groups), initial=0)
    sizes = sizes_of_rungs(n_candidates, eta)
    judged, done = list[Scored](), 0
    with Progress(n_gradients, f"Tuning {groups[0].sampler.name}", "gradient", verbose) as progress:
        for number, rung in enumerate(rungs_of(groups, n_gradients, eta), 1):
            seed = random.child_seed(seed, Purpose.RUNG)
            given = Given(groups, beginnings, rung, seed)
            pieces = [piece for g, remaining in enumerate(left) for piece in _pieces(g, remaining, per_job)]
            states: list[list[State]] = [[] for _ in groups]
            chains: dict[int, Chain] = {}  # by the number of the candidate
            costs: dict[int, int] = {}
            for piece, (state, of_piece) in zip(pieces, each(workers, after_rung, given, pieces), strict=True):
                states[piece.group].append(state)
                numbers = [firsts[piece.group] + member for member in piece.members]
                chains |= zip(numbers, of_piece, strict=True)
                costs |= dict.fromkeys(numbers, rung.cost(groups[piece.group]))
                done += sum(costs[k] for k in numbers)
                progress.reached(min(done, n_gradients))
            ksd = dict(zip(chains, discrepancies(list(chains.values())), strict=True))
            n_best = sizes[number] if number < len(sizes) else 1
            kept = {k for k in sorted(ksd, key=ksd.__getitem__)[:n_best] if np.isfinite(ksd[k])}
            judged += [Scored(k, number, costs[k], value, k in kept) for k, value in ksd.items()]
            if not kept:
                break
            left = [_kept(*of_group, kept) for of_group in zip(left, states, firsts, strict=True)]
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


def _kept(remaining: Remaining, states: list[State], first: int, kept: set[int]) -> Remaining:
    places = [place for place, member in enumerate(remaining.members) if first + member in kept]
    if not places:
        return Remaining([])
    state = tf.nest.map_structure(lambda *parts: tf.gather(tf.concat(parts, 0), places), *states)
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
    first: int  # its place among the remaining candidates, which determines the random numbers
    members: list[int]
    state: State | None


def _pieces(group: int, remaining: Remaining, per_job: int | None) -> list[Piece]:
    members, state = remaining
    n = per_job or max(len(members), 1)

    def part(first: int) -> State | None:
        return None if state is None else tf.nest.map_structure(lambda x: x[first : first + n], state)

    return [Piece(group, first, members[first : first + n], part(first)) for first in range(0, len(members), n)]


def after_rung(given: Given, piece: Piece) -> tuple[State, list[Chain]]:
    """The state of these candidates after a rung, and the positions, NaN if it diverged, and gradients of each."""
    rung, group, beginning = given.rung, given.groups[piece.group], given.beginnings[piece.group]
    stepsizes = [group.stepsizes[member] for member in piece.members]
    common = replace(group.sampler, first_chain=piece.first, seed=given.seed)
    sampler, prepared = with_stepsizes(common, stepsizes, beginning, piece.state)
    n_iterations = rung.gradients // group.cost
    thin = n_iterations // 2 // rung.positions
    plan = Plan(n_iterations, thin, n_iterations - thin * rung.positions)
    recorder = Recorder(lambda constants, state, inputs: {"posterior": prepared.kernel.params(state)})
    ran = run_candidates(prepared, recorder, plan)
    positions = ran.rows["posterior"]
    x, s = flattened(positions), gradients_at(sampler, beginning.found, positions, rung.size, given.seed)
    x[:, ~ran.finite] = np.nan
    return ran.state, [(x[:, c], s[:, c]) for c in range(len(stepsizes))]
