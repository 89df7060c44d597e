"""The search for the posterior mode, from which control variates start, and the gradient there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.errors import ModeSearchError
from sgmcmc.core.random import Purpose
from sgmcmc.core.types import Dynamics, Minibatch, Mode, Tree
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel import Product, build, constants, moving_by_rows
from sgmcmc.model import Model
from sgmcmc.run import advance
from sgmcmc.run.full_pass import full_pass
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Plan
from sgmcmc.run.prepared import Prepared
from sgmcmc.run.recorder import NOTHING
from sgmcmc.storage.memory import Memory


class ModeSearch(NamedTuple):
    """How the mode is sought: a dynamics that climbs, its stepsize, for how many minibatches, with progress or not."""

    climb: Dynamics
    stepsize: float
    n_iterations: int
    verbose: bool = True


def find_mode(
    model: Model, minibatch: Minibatch, search: ModeSearch, start: Mapping[str, np.ndarray], seed: int, verbose: bool
) -> Mode:
    """The last point of the search from `start`, and the exact gradient there.

    The search is a chain like any other, of a dynamics without noise.

    Raises
    ------
    ModeSearchError
        If it reaches NaN or infinity.
    """
    show = verbose and search.verbose
    params = {name: tf.constant(theta, model.dtype) for name, theta in start.items()}
    if search.n_iterations > 0:
        params = _climb(model, minibatch, search, params, random.child_seed(seed, Purpose.MODE), show)
    return Mode(params, full_gradient(model, params, show)[1])


def _climb(model: Model, minibatch: Minibatch, search: ModeSearch, start: Tree, seed: int, verbose: bool) -> Tree:
    shapes = {name: tuple(theta.shape) for name, theta in start.items()}
    climb = dict.fromkeys(start, search.climb)
    model = model.giving_rows(moving_by_rows(model, minibatch, climb, shapes))
    transition = build(Product(model, minibatch, plain(model), climb, {}, shapes))
    given = constants(seed, dict.fromkeys(start, search.stepsize), {}, model.dtype, range(1))
    state = transition.init(given, {name: theta[None] for name, theta in start.items()})
    loop = Loop(Prepared(transition, given, state, model.data), NOTHING)
    plan = Plan(search.n_iterations, thin=None)
    title, storage = "Finding the mode", Memory(0, {}, [])
    leaves = advance.run(loop, loop.flatten(state), plan, storage, title, verbose, failure=ModeSearchError)
    return {name: tf.constant(theta[0]) for name, theta in loop.params_of_chains(leaves).items()}


def full_gradient(model: Model, params: Tree, verbose: bool) -> tuple[tf.Tensor, Tree]:
    """The exact log posterior and its gradient at params, by one pass over all data in blocks."""
    data, names = model.data, sorted(params)
    values = [params[name] for name in names]

    def value_and_gradient(words: tf.Tensor | None, *values: tf.Tensor) -> list[tf.Tensor]:
        at = dict(zip(names, values, strict=True))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(at)
            value = model.log_prior(at) if words is None else model.log_lik(at, data.layout.unpack(words))
        gradient = tape.gradient(value, at, unconnected_gradients="zero")
        # Blocks are added up in float64, so that the gradient near the mode, a small difference of large sums, is as
        # precise as its terms.
        return [tf.cast(tf.convert_to_tensor(x), tf.float64) for x in (value, *(gradient[name] for name in names))]

    total = value_and_gradient(None, *values)
    for of_block in full_pass(data, value_and_gradient, values, "Full pass", verbose):
        total = [t + x for t, x in zip(total, of_block, strict=True)]
    value, *gradient = (tf.cast(x, model.dtype) for x in total)
    return value, dict(zip(names, gradient, strict=True))
