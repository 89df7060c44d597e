"""The search for the posterior mode, from which control variates start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.errors import ModeSearchError
from sgmcmc.core.random import Purpose
from sgmcmc.core.types import Dynamics, Minibatch, Tree
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel import build
from sgmcmc.model import Model
from sgmcmc.run import chain
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import Recorder, nothing
from sgmcmc.storage.memory import Memory


class ModeSearch(NamedTuple):
    """How the mode is sought: a dynamics that climbs, its stepsize, for how many minibatches, with progress or not."""

    climb: Dynamics
    stepsize: float
    n_iterations: int
    verbose: bool = True


def find_mode(
    model: Model, minibatch: Minibatch, search: ModeSearch, start: Mapping[str, tf.Tensor], seed: int, verbose: bool
) -> Tree:
    """The last point of the search from `start`: {name: [...]}, without a chain axis.

    The search is a chain like any other, of a dynamics without noise.

    Raises
    ------
    ModeSearchError
        If it leaves the finite numbers.
    """
    if search.n_iterations == 0:
        return dict(start)
    transition = build(
        model,
        minibatch,
        plain(model),
        dict.fromkeys(start, search.climb),
        dict.fromkeys(start, search.stepsize),
        random.child_seed(seed, Purpose.MODE),
    )
    state = transition.init({name: theta[None] for name, theta in start.items()}, dict(start))
    loop = Loop(transition, Recorder(nothing), state)
    plan = chain.Plan(search.n_iterations, thin=None)
    show = verbose and search.verbose
    leaves = chain.run(
        loop, loop.flatten(state), plan, Memory(0, {}, []), "Finding the mode", show, failure=ModeSearchError
    )
    found, _ = loop.unflatten(leaves)
    return {name: theta[0] for name, theta in found.params.items()}
