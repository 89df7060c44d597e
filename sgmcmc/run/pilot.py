"""How the size of an adaptive minibatch depends on the distance to the mode: by a bound, or by a pilot chain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.progress import Progress
from sgmcmc.core.random import Purpose
from sgmcmc.core.types import Minibatch, Mode, State, Supplied, Tree
from sgmcmc.minibatch.adaptive import per_square_distance
from sgmcmc.minibatch.weighted import probabilities_of
from sgmcmc.run import advance
from sgmcmc.run.loop import Loop
from sgmcmc.run.plan import Plan
from sgmcmc.run.recorder import Recorder
from sgmcmc.storage.memory import Memory

if TYPE_CHECKING:
    from sgmcmc.run.product import ProductSampler

ITERATIONS, BURN_IN = 2000, 1000
QUANTILE = 0.95


class Sizing(NamedTuple):
    """What is known of the sizes before the mode is known.

    Parameters
    ----------
    pilot : Minibatch
        The minibatches of the pilot chain, of a fixed size.
    threshold : float or None
        The bound on the variance of the noise; None if a pilot chain sets it.
    lipschitz : numpy.ndarray or None
        The Lipschitz constants of the observations' gradients, [N], if there is a
        threshold.
    """

    pilot: Minibatch
    threshold: float | None = None
    lipschitz: np.ndarray | None = None


def observations_per_square(sampler: ProductSampler, sizing: Sizing, found: Tree, mode: Mode, verbose: bool) -> float:
    """The size of a minibatch at a distance of 1 from the mode; it is proportional to the squared distance.

    A pilot chain sets the threshold to the bound on its noise at the 95% quantile of
    its squared distances. The constants of the bound then cancel: at that distance the
    minibatch has the size of the pilot's. It is one chain from the mode, whichever chains
    the sampler has.
    """
    if sizing.threshold is not None:
        assert sizing.lipschitz is not None
        return per_square_distance(sizing.lipschitz, probabilities_of(found["minibatch"]), sizing.threshold)
    seed = random.child_seed(sampler.seed, Purpose.PILOT)
    one = replace(sampler, starts=None).of_chains(range(1))
    pilot = replace(one, minibatch=sizing.pilot, sizing=None, seed=seed)
    prepared = pilot.prepared(found, mode)

    def squares(constants: Tree, state: State, supplied: Supplied) -> Tree:
        params = prepared.kernel.params(state)
        each = [(params[name] - mode.params[name]) ** 2 for name in sorted(params)]
        return {"pilot": {"square": sum(tf.reduce_sum(tf.reshape(x, [x.shape[0], -1]), axis=1) for x in each)}}

    loop = Loop(prepared, Recorder(squares))
    plan = Plan(ITERATIONS, burn_in=BURN_IN)
    leaves = loop.flatten(prepared.state)
    storage = Memory(plan.n_rows, loop.row_specs, leaves)
    with Progress(plan.n_iterations, f"{sampler.name}, pilot chain", "iteration", verbose) as progress:
        advance.run(loop, leaves, plan, storage, progress, failure=pilot.failure)
    of_chain = storage.result()["pilot"]["square"]
    return sizing.pilot.size / float(np.quantile(of_chain, QUANTILE))
