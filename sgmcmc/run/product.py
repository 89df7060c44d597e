"""Samplers by stochastic gradients: the product of a model, minibatches, a gradient estimator and dynamics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.coordinates import Coordinates
from sgmcmc.core.executors import Workers
from sgmcmc.core.parameters import numbered
from sgmcmc.core.precision import warn_of_lost_noise
from sgmcmc.core.schedules import first
from sgmcmc.core.types import FIRST, Dynamics, Estimate, Gradient, Minibatch, Mode, Tree
from sgmcmc.dataset.data import by_workers
from sgmcmc.dataset.remote import Remotes
from sgmcmc.dataset.some import of_some_rows, some_rows
from sgmcmc.kernel import statistics
from sgmcmc.kernel.product import Product, build
from sgmcmc.kernel.supplies import first_batch
from sgmcmc.minibatch import adaptive
from sgmcmc.model import Model
from sgmcmc.nonfinite import explained_nearby
from sgmcmc.output import tuning
from sgmcmc.run.curvature import Curvature, with_wide
from sgmcmc.run.gibbs import GibbsStep, then
from sgmcmc.run.identity import function_identity, schedule_identities, summed
from sgmcmc.run.loop import Loop
from sgmcmc.run.mode import AutomaticSearch, ModeSearch, find_mode
from sgmcmc.run.pilot import Sizing, observations_per_square
from sgmcmc.run.prepared import TUNING, Prepared
from sgmcmc.run.recorder import Keep, Recorder
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.shards import with_shards
from sgmcmc.run.tour import Tour
from sgmcmc.run.visits import counted

PROBE_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class ProductSampler(Sampler):
    """A product of choices.

    Parameters
    ----------
    model : Model
    gradient : Gradient
    dynamics : mapping of str to Dynamics
        One for each parameter.
    search : ModeSearch, AutomaticSearch or None
        How to find the mode, if the gradient estimator or the curvature wants it; `start` is then where it begins.
    curvature : Curvature
        What the curvature there is used for.
    sizing : Sizing or None
        How the size of the minibatches adapts, if it is not fixed.
    of_size : callable or None
        The minibatches of any size, if it is to be found.
    touched : float
        The elements of the parameters on which the log likelihood of one observation depends.
    gibbs : GibbsStep or None
        The user's own step after each iteration.
    own_gradient : bool
        Whether the estimator is the user's own.
    """

    model: Model
    gradient: Gradient
    dynamics: Mapping[str, Dynamics]
    search: ModeSearch | AutomaticSearch | None = None
    curvature: Curvature = field(default_factory=Curvature)
    sizing: Sizing | None = None
    of_size: Callable[[int], Minibatch] | None = None
    touched: float = np.inf
    gibbs: GibbsStep | None = None
    own_gradient: bool = False

    @property
    def leaps(self) -> int:
        """The number of gradients in one iteration."""
        return next(iter(self.dynamics.values())).leaps

    @property
    def searches(self) -> bool:
        """Whether a search for the mode comes before the chains."""
        return self.search is not None

    @property
    def wants_mode(self) -> bool:
        """Whether the gradient estimator uses the mode."""
        return self.gradient.wants_mode

    @property
    def facts(self) -> dict[str, Any]:
        """The right temperature of each parameter, and how its variance follows from its temperature."""
        variances = {name: list(one.variance) for name, one in self.dynamics.items() if one.variance}
        return {
            tuning.TEMPERATURE: {name: one.temperature for name, one in self.dynamics.items()},
            tuning.INDEPENDENT: self.minibatch.independent,
            **({tuning.VARIANCE: variances} if variances else {}),
        }

    def explained(self, near: Sequence[Tree]) -> str:
        """Why the log posterior is not finite at one of these positions."""
        return explained_nearby(self.model, near)

    @property
    def n_stats(self) -> int:
        """How many numbers are recorded beside each draw of a chain."""
        return statistics.count(self.iterations, self.dynamics, adaptive=self.minibatch.parts is not None)

    def find(self, verbose: bool, workers: Workers | None = None) -> tuple[Tree, Mode | None]:
        """The mode if it is needed, at or around which chains then begin, and what is computed there.

        Workers make passes over many data.
        """
        if workers is not None:
            return replace(self, model=self.model.over(by_workers(self.model.data, workers))).find(verbose)
        mode = None
        if self.search is not None:
            fixed = self.sizing.pilot if self.sizing else self.minibatch
            mode = find_mode(self.name, self.model, fixed, self.search, self.start, self.seed, verbose)
            if self.curvature.is_wide:
                mode = with_wide(self, mode, verbose)
        begin = mode or Mode({name: tf.constant(theta) for name, theta in self.start.items()}, {})
        estimator = self.gradient.prepare(begin, verbose)
        at_mode = self.curvature.found(self, mode, estimator, verbose)
        tuned = at_mode.tuning
        if mode is not None and self.model.data.shards is not None:
            tuned = with_shards(self, mode, at_mode.preconditioner, tuned)
        gathered = counted(self.model, self.start, verbose)
        found = {
            "estimator": estimator,
            "gathered": gathered,
            "minibatch": at_mode.minibatch,
            "preconditioner": at_mode.preconditioner,
            TUNING: tuned,
        }
        mode = mode and mode._replace(precision=None)
        if self.sizing is not None:
            assert mode is not None
            per_square = observations_per_square(self, self.sizing, found, mode, verbose)
            found["minibatch"] = found["minibatch"] | adaptive.constants(mode, per_square, self.dtype)
        return found, mode

    def loop(self, prepared: Prepared, recorder: Recorder, keep: Keep | None = None) -> Loop:
        """The loop of these chains; those of remote shards go from worker to worker."""
        if isinstance(prepared.data, Remotes):
            return Tour(prepared, recorder, self, keep)
        return super().loop(prepared, recorder, keep)

    def prepared(self, found: Tree, mode: Mode | None, monitored: bool = False) -> Prepared:
        """Chains about to begin, given the constants that were computed before and the mode."""
        tuned, minibatch = found.get(TUNING, {}), self.minibatch
        if self.of_size is not None:
            minibatch = self.of_size(int(tuned["minibatchSize"]))
        kernel = build(Product(self.model, minibatch, self.gradient, self.dynamics, self.iterations, monitored))
        if self.gibbs is not None:
            kernel = then(kernel, self.gibbs, len(self.chains))
        stepsize = dict.fromkeys(self.stepsize, float(tuned["stepsize"])) if tuned else self.stepsize
        given = self.constants(found, stepsize)
        centre = {name: tf.constant(theta, self.model.dtype) for name, theta in self.start.items()}
        state = kernel.init(given, self.chain_starts(centre if mode is None else mode.params))
        given["estimator"] = {k: v for k, v in given["estimator"].items() if k != FIRST}
        size = None if self.of_size is None else minibatch.size
        prepared = Prepared(kernel, given, state, self.data, self.n_chains, mode, tuned, size)
        self._warn_of_lost_noise(prepared)
        return prepared

    def _warn_of_lost_noise(self, prepared: Prepared) -> None:
        """Warn at the mode, or with a preconditioner; in other cases the set-up has warned."""
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
        """The functions of the user as JSON: their values at the probes and their graphs."""
        log_lik = of_some_rows(self.data, PROBE_ROWS, _log_liks, (self.model, self.probes))
        log_prior = [self.model.log_prior(point) for point in self.probes]
        params = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in self.probes[0].items()}
        rows = self.data.layout.specs([min(PROBE_ROWS, self.data.size)])
        gibbs = None
        if self.gibbs is not None:
            seed = tf.constant([1, 2])
            some = some_rows(self.data, self.minibatch.size)
            updated = [
                self.gibbs.update(point, some, seed) for point in self.probes[:2]
            ]  # further points may be outside the domain
            gibbs = function_identity(summed(updated), self.gibbs.update, params, rows, tf.TensorSpec([2], tf.int32))
        return {
            "gibbs": gibbs,
            "logLik": function_identity(log_lik, self.model.log_lik, params, rows),
            "logPrior": function_identity(log_prior, self.model.log_prior, params),
            **({"gradient": self._estimator()} if self.own_gradient else {}),
            **schedule_identities(self.stepsize, self.dtype),
        }

    def _estimator(self) -> dict[str, Any]:
        """The user's estimator as JSON: what it gives at the start, and the graph of all its functions."""
        start = {name: tf.constant(theta) for name, theta in self.start.items()}
        nothing, gradient = {name: tf.zeros_like(theta) for name, theta in start.items()}, self.gradient
        given = gradient.prepare(Mode(start, nothing), False)
        estimate = first_estimate(self.model, self.minibatch, gradient, given)
        some = some_rows(self.data, self.minibatch.size)

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
