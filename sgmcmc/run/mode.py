"""The search for the posterior mode, and the exact gradient there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.errors import ModeSearchError
from sgmcmc.core.progress import Progress
from sgmcmc.core.random import Purpose
from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Dynamics
from sgmcmc.gradients.plain import plain
from sgmcmc.kernel.iterations import Iterations, constants
from sgmcmc.kernel.product import Product, build, moving_by_rows
from sgmcmc.laplace import search as automatic
from sgmcmc.laplace.mode_diagnostics import require_finite, warn_if_far
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.minibatch import Minibatch
from sgmcmc.minibatch.uniform import without_replacement
from sgmcmc.model import Mode, Model
from sgmcmc.nonfinite import explained_nearby
from sgmcmc.run import Plan, Prepared, advance
from sgmcmc.run.loop import Loop
from sgmcmc.run.recorder import NOTHING
from sgmcmc.storage.memory import Memory


class ModeSearch(NamedTuple):
    """A search by climbing dynamics, for a number of minibatches."""

    climb: Dynamics
    stepsize: float
    n_iterations: int
    verbose: bool = True


class AutomaticSearch(NamedTuple):
    """The automatic search, and whether to show progress."""

    verbose: bool = True


def find_mode(
    of: str,
    model: Model,
    minibatch: Minibatch,
    search: ModeSearch | AutomaticSearch,
    start: Mapping[str, np.ndarray],
    seed: int,
    verbose: bool,
) -> Mode:
    """The last point of the search from `start`, and the exact gradient there."""
    show = verbose and search.verbose
    params = {name: tf.constant(theta, model.dtype) for name, theta in start.items()}
    posterior = _posterior(model, params)
    if isinstance(search, AutomaticSearch):
        found = automatic.find_mode(posterior, posterior.flat(params), random.child_seed(seed, Purpose.MODE), show)
        require_finite(of, posterior, found.theta, found.gradient)
        warn_if_far(of, posterior, found.theta, found.gradient, found.precision, found.first_precision)
        return Mode(posterior.tree(found.theta), posterior.tree(found.gradient), found.precision)
    if search.n_iterations > 0:
        params = _climb(model, minibatch, search, params, random.child_seed(seed, Purpose.MODE), show)
    gradient = full_gradient(model, params, show, posterior)[1]
    require_finite(of, posterior, posterior.flat(params), posterior.flat(gradient))
    return Mode(params, gradient)


def _climb(model: Model, minibatch: Minibatch, search: ModeSearch, start: Tree, seed: int, verbose: bool) -> Tree:
    shapes = {name: tuple(theta.shape) for name, theta in start.items()}
    climb = dict.fromkeys(start, search.climb)
    if minibatch.wants_importance:  # the importance is known only at the mode
        minibatch = without_replacement(model.data.size, minibatch.size)
    model = model.giving_rows(moving_by_rows(model, minibatch, climb))
    kernel = build(Product(model, minibatch, plain(model), climb, Iterations(shapes, model.dtype)))
    given = constants(
        seed, dict.fromkeys(start, search.stepsize), {"minibatch": minibatch.prepare(None)}, model.dtype, range(1)
    )
    state = kernel.init(given, {name: theta[None] for name, theta in start.items()})
    loop = Loop(Prepared(kernel, given, state, model.data), NOTHING)
    plan = Plan(search.n_iterations, thin=None)

    def failure(iteration: int, chain: int, parameter: str, of_density: bool, near: Sequence[Tree]) -> ModeSearchError:
        return ModeSearchError(iteration, chain, parameter, of_density, explained_nearby(model, near, "optStepsize"))

    with Progress(plan.n_iterations, "Finding the mode", "iteration", verbose) as progress:
        leaves = advance.run(loop, loop.flatten(state), plan, Memory(0, {}, []), progress, failure=failure)
    return {name: tf.constant(theta[0]) for name, theta in loop.params_of_chains(leaves).items()}


def full_gradient(
    model: Model, params: Tree, verbose: bool, posterior: Posterior | None = None
) -> tuple[tf.Tensor, Tree]:
    """The exact log posterior and its gradient at params; the programs of `posterior`, if given, are reused."""
    posterior = posterior or _posterior(model, params)
    value, gradient = posterior.value_and_gradient(posterior.flat(params), "Full pass", verbose)
    return tf.constant(value, model.dtype), posterior.tree(gradient)


def _posterior(model: Model, params: Tree) -> Posterior:
    return Posterior(model, {name: tuple(theta.shape) for name, theta in params.items()})
