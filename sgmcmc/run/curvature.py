"""Preconditioner, weights and stepsize from the curvature at the mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core import random, transforms
from sgmcmc.core.errors import warn_user
from sgmcmc.core.random import Purpose
from sgmcmc.core.transforms import DENSE, DIAGONAL, LOW_RANK
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.draws.draws import sufficient_size
from sgmcmc.dynamics import Dynamics
from sgmcmc.laplace.high_dimensional import Wide, noise_of_elements, tuned_wide, wide
from sgmcmc.laplace.mode_diagnostics import require_concave, require_curvature, warn_if_far
from sgmcmc.laplace.newton import Point, distance, newton
from sgmcmc.laplace.noise import importance
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.sandwich import require_informed, sandwich, tuned_to
from sgmcmc.laplace.stepsize import Drawn, Tuning, beside_gradients, tuned
from sgmcmc.laplace.whitening import Whitening, curvature, whitening
from sgmcmc.minibatch.weighted import probabilities_of
from sgmcmc.model import Mode, Model

if TYPE_CHECKING:
    from sgmcmc.run.product import ProductSampler


def counted(model: Model, start: Mapping[str, np.ndarray], verbose: bool) -> Tree:
    """How often each row is gathered, {name: [rows]}, of parameters that move by rows, in one pass over all data.

    The gathered rows must depend only on the data, for example through indices in the dataset.
    """
    names, data = sorted(model.by_rows), model.data
    if not names:
        return {}
    params = {name: tf.constant(theta, model.dtype) for name, theta in start.items()}

    def rows(words: tf.Tensor) -> list[tf.Tensor]:
        found = model.rows(params, data.layout.unpack(words))
        return [found[name] for name in names]

    counts = {name: np.zeros(start[name].shape[0], np.int64) for name in names}
    for of_block in FullPass(data, rows)(title="Counting rows", verbose=verbose):
        for name, of_name in zip(names, of_block, strict=True):
            counts[name] += np.bincount(of_name.numpy(), minlength=len(counts[name]))
    for name, count in counts.items():
        if not count.all():
            warn_user(
                f"no observation gathers {int((count == 0).sum())} of the rows of {name!r}, such as row "
                f"{int(np.argmin(count))}, and logPrior does not use them: they stay where they begin."
            )
    return {name: tf.constant(np.maximum(count, 1), model.dtype) for name, count in counts.items()}


FARTHER = 3.0  # E z^4 of a standard normal: the largest factor for noise that grows with the distance
CLOSE, STEPS = 0.1, 8  # posterior sds from the mode, in all directions together; Newton steps to get there


class Found(NamedTuple):
    """Trees of arrays, empty if not needed."""

    preconditioner: Tree
    minibatch: Tree
    tuning: Tree


@dataclass(frozen=True)
class Curvature:
    """What the curvature is used for.

    Parameters
    ----------
    preconditioner : {"dense", "diagonal", "lowRank"}, numpy.ndarray or None
        An array is the root A of the preconditioner, [D, D] or its diagonal [D];
        nothing is then computed.
    tolerance : float or None
        The largest relative error of a standard deviation that the stepsize may cause;
        None if the stepsize is given.
    weighs : bool
        Whether minibatches need the importance of the observations.
    to_sandwich : bool
        Whether the covariance of the chain is to be the sandwich, not the posterior's.
    """

    preconditioner: str | np.ndarray | None = None
    tolerance: float | None = None
    weighs: bool = False
    to_sandwich: bool = False

    @property
    def at_mode(self) -> bool:
        """Whether the mode is needed."""
        return isinstance(self.preconditioner, str) or self.tolerance is not None or self.weighs

    @property
    def is_wide(self) -> bool:
        """Whether there are too many elements for matrices of all of them."""
        return isinstance(self.preconditioner, str) and self.preconditioner == LOW_RANK

    def found(self, sampler: ProductSampler, mode: Mode | None, estimator: Tree, verbose: bool) -> Found:
        """Compute what is needed; `estimator` has the constants of the gradient estimator."""
        model, minibatch, gradient = sampler.model, sampler.minibatch, sampler.gradient
        posterior, seed = Posterior(model, sampler.shapes), random.child_seed(sampler.seed, Purpose.CURVATURE)
        if not self.at_mode:
            given = self.preconditioner
            known = transforms.root_of(given, posterior.elements, model.dtype) if isinstance(given, np.ndarray) else {}
            return Found(known, minibatch.prepare(None), {})
        assert mode is not None
        if self.is_wide:
            return self._found_wide(sampler, posterior, mode, seed)
        at, precision = posterior.flat(mode.params), self._precision(sampler.name, posterior, mode, seed)
        white = whitening(precision, model.dtype)
        _warn_unless_concave(sampler.name, posterior, white)
        root = self._root(model, precision, white)
        preconditioner = (
            {} if self.preconditioner is None else transforms.root_of(root.root, posterior.elements, model.dtype)
        )

        def of_terms(params: Tree, data: Tree) -> Tree:
            assert gradient.terms is not None
            return gradient.terms(params, data, estimator, None)

        weights = None
        if minibatch.wants_importance:
            weights = importance(posterior, of_terms, gradient.centred, at, white, root, seed, verbose)
        of_minibatch = minibatch.prepare(weights)
        if self.tolerance is None:
            return Found(preconditioner, of_minibatch, {})
        drawn, (dynamics, heat) = _drawn(sampler, posterior, of_minibatch), _moved(sampler)
        if self.to_sandwich:
            target = sandwich(posterior, at, white, seed)
            require_informed(sampler.name, posterior, at, white, target)
            tuning, noise = tuned_to(target, posterior, at, of_terms, dynamics, drawn, self.tolerance, seed)
            preconditioner[transforms.NOISE] = tf.constant(noise, model.dtype)
        else:
            tuning = tuned(
                posterior,
                at,
                white,
                root,
                of_terms,
                dynamics,
                drawn,
                self.tolerance,
                seed,
                gradient.own_reference,
                heat,
            )
        return Found(preconditioner, of_minibatch, self._told(sampler, posterior, mode, white, tuning))

    def _found_wide(self, sampler: ProductSampler, posterior: Posterior, mode: Mode, seed: int) -> Found:
        """The same for many elements, without dense matrices."""
        model, at, there = sampler.model, posterior.flat(mode.params), mode.precision
        assert isinstance(there, Wide)
        white = there.whitening
        preconditioner = transforms.low_rank(
            white.root, there.vectors, np.asarray(white.stretch), posterior.elements, model.dtype
        )
        of_minibatch = sampler.minibatch.prepare(None)
        if self.tolerance is None:
            return Found(preconditioner, of_minibatch, {})
        drawn, (dynamics, heat) = _drawn(sampler, posterior, of_minibatch), _moved(sampler)
        noise = noise_of_elements(
            posterior, sampler.gradient.centred, at, there, 1 + self.tolerance, seed, drawn.probabilities
        )
        tuning = tuned_wide(there, noise, dynamics, drawn, self.tolerance, heat)
        return Found(preconditioner, of_minibatch, self._told(sampler, posterior, mode, white, tuning))

    def _told(
        self, sampler: ProductSampler, posterior: Posterior, mode: Mode, white: Whitening, tuning: Tuning
    ) -> Tree:
        """The tuning as arrays, after warnings about it."""
        assert self.tolerance is not None
        n = sampler.minibatch.size if sampler.of_size is None else tuning.minibatch_size
        _warn_of_tuning(sampler.name, tuning, self.tolerance, n)
        far = distance(white, posterior.flat(mode.gradient))
        return tuning.as_tree(posterior) | {"distance": far, "mode": posterior.arrays(posterior.flat(mode.params))}

    def _precision(self, of: str, posterior: Posterior, mode: Mode, seed: int) -> np.ndarray:
        """The curvature at the mode, if it can be used."""
        at, precision = posterior.flat(mode.params), mode.precision
        if precision is None:
            precision = curvature(posterior, at, seed)
            warn_if_far(of, posterior, at, posterior.flat(mode.gradient), precision)
        if self.tolerance is not None or isinstance(self.preconditioner, str):
            require_curvature(of, posterior, at, precision, seed)
        return precision

    def _root(self, model: Model, precision: np.ndarray, white: Whitening) -> Whitening:
        if self.preconditioner is None:
            return Whitening(np.ones(len(precision)))
        if isinstance(self.preconditioner, str):
            return {DENSE: white, DIAGONAL: whitening(precision, model.dtype, diagonal=True)}[self.preconditioner]
        return Whitening(self.preconditioner)


def with_wide(sampler: ProductSampler, mode: Mode, verbose: bool) -> Mode:
    """The mode with its curvature, and closer to it: the search had only a rough diagonal."""
    posterior, seed = Posterior(sampler.model, sampler.shapes), random.child_seed(sampler.seed, Purpose.CURVATURE)
    at, precision = posterior.flat(mode.params), mode.precision
    rough = curvature(posterior, at, seed) if precision is None else precision
    there = wide(posterior, at, rough if rough.ndim == 1 else np.diag(rough), seed, verbose)
    require_concave(sampler.name, there)
    polished = newton(posterior, Point.of(posterior, at), there.whitening, CLOSE, STEPS)
    return Mode(posterior.tree(polished.theta), posterior.tree(polished.gradient), there)


def _drawn(sampler: ProductSampler, posterior: Posterior, of_minibatch: Tree) -> Drawn:
    """How the minibatches are drawn, with these constants."""
    minibatch = sampler.minibatch
    return Drawn(
        minibatch.size,
        sampler.model.data.size,
        minibatch.without_replacement,
        probabilities_of(of_minibatch),
        sampler.of_size is not None,
        beside_gradients(posterior.size, sampler.touched),
    )


def _moved(sampler: ProductSampler) -> tuple[Dynamics, float]:
    """The dynamics, shared by all parameters, and the factor by which the noise may exceed that at the mode."""
    return next(iter(sampler.dynamics.values())), FARTHER if sampler.gradient.centred else 1.0


def _warn_of_tuning(of: str, tuning: Tuning, tolerance: float, minibatch_size: int) -> None:
    if tuning.error > tolerance:
        warn_user(
            f"no stepsize of {of} keeps tolerance={tolerance}: with its other settings the predicted error of "
            f"an sd is up to {tuning.error:.0%}, and hardly less with a smaller stepsize. For sghmc use more leaps, "
            "such as L=20; for sgnht and ccadl use a smaller a."
        )
    if (enough := sufficient_size(minibatch_size, tuning.minibatch_size)) is not None:
        warn_user(
            f"minibatches of {of} have {minibatch_size} observations, more than is efficient: with "
            f"minibatchSize={enough}, a draw takes fewer gradients of single observations."
        )


def _warn_unless_concave(of: str, posterior: Posterior, white: Whitening) -> None:
    if white.not_concave:
        warn_user(
            f"the log posterior is not concave at the mode that {of} found, or is flat, in {white.not_concave} of "
            f"{posterior.size} directions; the absolute value of the curvature is used there. The search may have "
            "stopped early, or the posterior may be improper or have several modes: a preconditioner or a stepsize "
            "from one point may then be unsuitable."
        )
