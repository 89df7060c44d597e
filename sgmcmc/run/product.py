"""Stochastic gradient samplers: the product of a model, minibatches, a gradient estimator and dynamics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.errors import warn_of_lost_noise
from sgmcmc.core.progress import Progress
from sgmcmc.core.random import Purpose
from sgmcmc.core.schedules import first
from sgmcmc.core.transforms import Coordinates, root_of
from sgmcmc.core.trees import Tree, numbered
from sgmcmc.dataset import by_workers, spaced_rows
from sgmcmc.dataset.remote import RemoteShards
from sgmcmc.dataset.subset import over_spaced_rows
from sgmcmc.dataset.windows import Windows
from sgmcmc.draws import temperature
from sgmcmc.dynamics import Dynamics
from sgmcmc.gradients import FIRST, Estimate, Gradient
from sgmcmc.kernel import IterationInputs, State, iterations
from sgmcmc.kernel.inputs import first_batch
from sgmcmc.kernel.product import Product, build
from sgmcmc.kernel.user_steps import GibbsStep, with_gibbs
from sgmcmc.laplace.context import with_context_error
from sgmcmc.minibatch import Minibatch, adaptive
from sgmcmc.minibatch.adaptive import per_square_distance
from sgmcmc.minibatch.weighted import probabilities_of
from sgmcmc.model import Mode, Model
from sgmcmc.nonfinite import explained_nearby
from sgmcmc.parallel.executors import Workers
from sgmcmc.run import TUNING, CurvatureUse, Plan, Prepared, advance
from sgmcmc.run.checkpoint import function_identity, schedule_identities, summed
from sgmcmc.run.curvature import count_gathered_rows, from_curvature, with_low_rank_curvature
from sgmcmc.run.loop import Loop
from sgmcmc.run.mode import AutomaticSearch, ModeSearch, find_mode
from sgmcmc.run.recorder import Keep, Recorder
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.shards import RemoteLoop, with_shards
from sgmcmc.storage.memory import Memory

ITERATIONS, BURN_IN = 2000, 1000
QUANTILE = 0.95


class Sizing(NamedTuple):
    """What determines the sizes of minibatches, before the mode is known."""

    pilot: Minibatch  # of the pilot chain, of a fixed size
    threshold: float | None = None  # the bound on the variance of the noise; None if a pilot chain sets it
    lipschitz: np.ndarray | None = None  # of the observations' gradients, [N], if there is a threshold


def observations_per_square(sampler: ProductSampler, sizing: Sizing, found: Tree, mode: Mode, verbose: bool) -> float:
    """The size of a minibatch at distance 1 from the mode; it is proportional to the squared distance."""
    # The threshold is the bound on the noise of a pilot chain at the 95% quantile of its squared distances. The
    # constants of the bound then cancel: at that distance the minibatch has the size of the pilot's.
    if sizing.threshold is not None:
        assert sizing.lipschitz is not None
        return per_square_distance(sizing.lipschitz, probabilities_of(found["minibatch"]), sizing.threshold)
    seed = random.child_seed(sampler.seed, Purpose.PILOT)
    one = replace(sampler, starts=None).of_chains(range(1))
    pilot = replace(one, minibatch=sizing.pilot, sizing=None, seed=seed)
    prepared = pilot.prepared(found, mode)

    def squares(constants: Tree, state: State, inputs: IterationInputs) -> Tree:
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


PROBE_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class ProductSampler(Sampler):
    """A sampler that is a product of choices."""

    model: Model
    gradient: Gradient
    dynamics: Mapping[str, Dynamics]
    search: ModeSearch | AutomaticSearch | None = None  # for the mode, if estimator or curvature need it
    curvature: CurvatureUse = field(default_factory=CurvatureUse)
    sizing: Sizing | None = None  # if the size of the minibatches adapts
    minibatch_of_size: Callable[[int], Minibatch] | None = None  # if the size is to be found
    touched: float = np.inf  # elements of the parameters on which the log likelihood of one observation depends
    gibbs: GibbsStep | None = None  # the user's own step after each iteration
    user_gradient: bool = False

    @property
    def leaps(self) -> int:
        return next(iter(self.dynamics.values())).leaps

    @property
    def searches(self) -> bool:
        return self.search is not None

    @property
    def wants_mode(self) -> bool:
        return self.gradient.wants_mode

    @property
    def facts(self) -> dict[str, Any]:
        """The correct temperature of each parameter, and how its variance follows from its temperature."""
        variances = {name: list(one.variance) for name, one in self.dynamics.items() if one.variance}
        return {
            temperature.TEMPERATURE: {name: one.temperature for name, one in self.dynamics.items()},
            temperature.INDEPENDENT: self.minibatch.independent,
            **({temperature.VARIANCE: variances} if variances else {}),
        }

    def explained(self, near: Sequence[Tree]) -> str:
        return explained_nearby(self.model, near)

    @property
    def n_stats(self) -> int:
        return iterations.count(self.iterations, self.dynamics, adaptive=self.minibatch.parts is not None)

    def find(self, verbose: bool, workers: Workers | None = None) -> tuple[Tree, Mode | None]:
        """What is computed before the first iteration, and the mode if needed; workers make the full passes."""
        if workers is not None:
            return replace(self, model=self.model.over(by_workers(self.model.data, workers))).find(verbose)
        mode = None
        if self.search is not None:
            fixed = self.sizing.pilot if self.sizing else self.minibatch
            mode = find_mode(self.name, self.model, fixed, self.search, self.start, self.seed, verbose)
            if self.curvature.is_low_rank:
                mode = with_low_rank_curvature(self, mode, verbose)
        begin = mode or Mode({name: tf.constant(theta) for name, theta in self.start.items()}, {})
        found = {"estimator": self.gradient.prepare(begin, verbose), "gathered": {}}
        if self.model.by_rows:
            found["gathered"] = count_gathered_rows(self.model, self.start, verbose)
        if self.curvature.needs_mode:
            assert mode is not None
            found |= from_curvature(self, mode, found["estimator"], verbose)
        else:
            found |= self._without_curvature()
        if mode is not None and self.model.data.shards is not None:
            found[TUNING] = with_shards(self, mode, found["preconditioner"], found[TUNING])
        if mode is not None and isinstance(self.model.data, Windows):
            seed = random.child_seed(self.seed, Purpose.CURVATURE)
            found[TUNING] = with_context_error(self.name, self.model, self.shapes, mode, found[TUNING], seed)
        mode = mode and mode._replace(precision=None)
        if self.sizing is not None:
            assert mode is not None
            per_square = observations_per_square(self, self.sizing, found, mode, verbose)
            found["minibatch"] = found["minibatch"] | adaptive.constants(mode, per_square, self.dtype)
        return found, mode

    def _without_curvature(self) -> Tree:
        """The constants of minibatches, preconditioner and tuning if none depends on the curvature."""
        given = self.curvature.preconditioner
        known = root_of(given, numbered(self.shapes), self.dtype) if isinstance(given, np.ndarray) else {}
        return {"minibatch": self.minibatch.prepare(None), "preconditioner": known, TUNING: {}}

    def loop(self, prepared: Prepared, recorder: Recorder, keep: Keep | None = None) -> Loop:
        """The loop of these chains; those of remote shards travel from worker to worker."""
        if isinstance(prepared.data, RemoteShards):
            return RemoteLoop(prepared, recorder, self, keep)
        return super().loop(prepared, recorder, keep)

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        tuned, minibatch = found.get(TUNING, {}), self.minibatch
        if self.minibatch_of_size is not None:
            minibatch = self.minibatch_of_size(int(tuned["minibatchSize"]))
        kernel = build(Product(self.model, minibatch, self.gradient, self.dynamics, self.iterations, monitored))
        if self.gibbs is not None:
            kernel = with_gibbs(kernel, self.gibbs, len(self.chains))
        stepsize = dict.fromkeys(self.stepsize, float(tuned["stepsize"])) if tuned else self.stepsize
        given = self.constants(found, stepsize)
        centre = {name: tf.constant(theta, self.model.dtype) for name, theta in self.start.items()}
        state = kernel.init(given, self.chain_starts(centre if mode is None else mode.params))
        given["estimator"] = {k: v for k, v in given["estimator"].items() if k != FIRST}
        size = None if self.minibatch_of_size is None else minibatch.size
        prepared = Prepared(kernel, given, state, self.data, self.n_chains, mode, tuned, size)
        self._warn_of_lost_noise(prepared)
        return prepared

    def _warn_of_lost_noise(self, prepared: Prepared) -> None:
        """Warn at the mode, or with a preconditioner; in other cases the set-up warns."""
        root = prepared.constants["preconditioner"]
        if prepared.mode is None and not root:
            return
        widths = Coordinates(root, numbered(self.shapes)).widths()
        noise = {
            name: np.sqrt(first(eps, self.dtype) if callable(eps) else float(fixed)) * widths.get(name, 1.0)
            for (name, eps), fixed in zip(
                sorted(self.stepsize.items()), prepared.constants["stepsize"].numpy()[:, 0], strict=True
            )
        }
        warn_of_lost_noise(self.name, noise, self.start if prepared.mode is None else prepared.mode.params)

    @cached_property
    def functions(self) -> dict[str, Any]:
        log_lik = over_spaced_rows(self.data, PROBE_ROWS, _log_liks, (self.model, self.probes))
        log_prior = [self.model.log_prior(point) for point in self.probes]
        params = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in self.probes[0].items()}
        rows = self.data.layout.specs([min(PROBE_ROWS, self.data.size)])
        gibbs = None
        if self.gibbs is not None:
            seed = tf.constant([1, 2])
            some = spaced_rows(self.data, self.minibatch.size)
            updated = [
                self.gibbs.update(point, some, seed) for point in self.probes[:2]
            ]  # further points may be outside the domain
            gibbs = function_identity(summed(updated), self.gibbs.update, params, rows, tf.TensorSpec([2], tf.int32))
        return {
            "gibbs": gibbs,
            "logLik": function_identity(log_lik, self.model.log_lik, params, rows),
            "logPrior": function_identity(log_prior, self.model.log_prior, params),
            **({"gradient": self._estimator()} if self.user_gradient else {}),
            **schedule_identities(self.stepsize, self.dtype),
        }

    def _estimator(self) -> dict[str, Any]:
        """The user's estimator as JSON: its values at some points, and the graph of all its functions."""
        start = {name: tf.constant(theta) for name, theta in self.start.items()}
        nothing, gradient = {name: tf.zeros_like(theta) for name, theta in start.items()}, self.gradient
        given = gradient.prepare(Mode(start, nothing), False)
        estimate = first_estimate(self.model, self.minibatch, gradient, given)
        some = spaced_rows(self.data, self.minibatch.size)

        def values(params: Tree) -> tuple:
            of_chain = {name: theta[None] for name, theta in params.items()}
            return estimate(params), gradient.renew(of_chain) if gradient.renew else {}

        def everything(params: Tree) -> tuple:
            memory = first_memory(self.model, self.minibatch, gradient, params, given)
            return values(params), gradient.terms(params, some, given, memory) if gradient.terms else {}

        specs = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in start.items()}
        numbers = [x for point in self.probes[:2] for x in summed(values(point))]
        return {"every": gradient.every, "values": function_identity(numbers, everything, specs)}


def _log_liks(given: tuple[Model, list[Tree]], rows: Tree) -> list[tf.Tensor]:
    model, points = given
    return [model.log_lik(point, rows) for point in points]


def first_estimate(
    model: Model, minibatch: Minibatch, gradient: Gradient, constants: Tree
) -> Callable[[Tree], Estimate]:
    """The first estimate of a chain as a function of its position, if the minibatch has the first n observations."""
    batch = first_batch(model.data, minibatch, model.dtype)

    def estimate(params: Tree) -> Estimate:
        return gradient.estimate(params, batch, constants, first_memory(model, minibatch, gradient, params, constants))

    return estimate


def first_memory(model: Model, minibatch: Minibatch, gradient: Gradient, params: Tree, constants: Tree) -> Any:
    """The memory of the estimator of a chain that begins at `params`, with rows of zeros from its tables."""
    rows = {name: tf.zeros([minibatch.size, width], model.dtype) for name, width in gradient.tables.items()}
    memory = gradient.init(params, constants)
    return memory | rows if rows else memory
