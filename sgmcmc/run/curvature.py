"""Preconditioner, weights and stepsize from the curvature at the mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from sgmcmc.core import random, transforms
from sgmcmc.core.errors import warn_user
from sgmcmc.core.random import Purpose
from sgmcmc.core.transforms import DENSE, DIAGONAL
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.draws.draws import sufficient_size
from sgmcmc.dynamics import Dynamics
from sgmcmc.laplace.high_dimensional import LowRankCurvature, low_rank_curvature, noise_of_elements, tuned_low_rank
from sgmcmc.laplace.mode_diagnostics import require_concave, require_curvature, warn_if_far
from sgmcmc.laplace.newton import Point, distance, newton
from sgmcmc.laplace.noise import Terms, importance
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.sandwich import require_informed, sandwich, tuned_to
from sgmcmc.laplace.stepsize import MinibatchSampling, Tuning, overhead, tuned
from sgmcmc.laplace.whitening import Whitening, curvature, whitening
from sgmcmc.minibatch.weighted import probabilities_of
from sgmcmc.model import Mode, Model
from sgmcmc.run import TUNING

if TYPE_CHECKING:
    from sgmcmc.run.product import ProductSampler


def count_gathered_rows(model: Model, start: Mapping[str, np.ndarray], verbose: bool) -> Tree:
    """How often each row of these parameters is gathered, {name: [rows]}, which may depend only on the data."""
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


NOISE_GROWTH = 3.0  # E z^4 of a standard normal: the largest factor for noise that grows with the distance
CLOSE, STEPS = 0.1, 8  # posterior sds from the mode, in all directions together; Newton steps to get there


def from_curvature(sampler: ProductSampler, mode: Mode, estimator: Tree, verbose: bool) -> Tree:
    """Compute what the sampler needs; `estimator` has the constants of the gradient estimator."""
    use, model, minibatch, gradient = sampler.curvature, sampler.model, sampler.minibatch, sampler.gradient
    posterior, seed = Posterior(model, sampler.shapes), random.child_seed(sampler.seed, Purpose.CURVATURE)
    if use.is_low_rank:
        return _from_low_rank(sampler, posterior, mode, seed)
    at, precision = posterior.flat(mode.params), _precision(sampler, posterior, mode, seed)
    white = whitening(precision, model.dtype)
    _warn_unless_concave(sampler.name, posterior, white)
    root = _root(sampler, precision, white)
    preconditioner = (
        {} if use.preconditioner is None else transforms.root_of(root.root, posterior.elements, model.dtype)
    )

    terms = Terms(gradient.terms, estimator)
    weights = None
    if minibatch.wants_importance:
        weights = importance(posterior, terms, gradient.centred, at, white, root, seed, verbose)
    of_minibatch = minibatch.prepare(weights)
    if use.tolerance is None:
        return _constants(preconditioner, of_minibatch, {})
    drawn, (dynamics, heat) = _minibatch_sampling(sampler, posterior, of_minibatch), _shared_dynamics(sampler)
    if use.targets_sandwich:
        target = sandwich(posterior, at, white, seed)
        require_informed(sampler.name, posterior, at, white, target)
        tuning, noise = tuned_to(target, posterior, at, terms, dynamics, drawn, use.tolerance, seed)
        preconditioner[transforms.NOISE] = tf.constant(noise, model.dtype)
    else:
        tuning = tuned(
            posterior,
            at,
            white,
            root,
            terms,
            dynamics,
            drawn,
            use.tolerance,
            seed,
            gradient.has_own_reference,
            heat,
        )
    return _constants(preconditioner, of_minibatch, _as_tree(sampler, posterior, mode, white, tuning))


def _from_low_rank(sampler: ProductSampler, posterior: Posterior, mode: Mode, seed: int) -> Tree:
    """The same without dense matrices."""
    use, model, at, there = sampler.curvature, sampler.model, posterior.flat(mode.params), mode.precision
    assert isinstance(there, LowRankCurvature)
    white = there.whitening
    preconditioner = transforms.low_rank(
        white.root, there.vectors, np.asarray(white.stretch), posterior.elements, model.dtype
    )
    of_minibatch = sampler.minibatch.prepare(None)
    if use.tolerance is None:
        return _constants(preconditioner, of_minibatch, {})
    drawn, (dynamics, heat) = _minibatch_sampling(sampler, posterior, of_minibatch), _shared_dynamics(sampler)
    noise = noise_of_elements(
        posterior, sampler.gradient.centred, at, there, 1 + use.tolerance, seed, drawn.probabilities
    )
    tuning = tuned_low_rank(there, noise, dynamics, drawn, use.tolerance, heat)
    return _constants(preconditioner, of_minibatch, _as_tree(sampler, posterior, mode, white, tuning))


def _as_tree(sampler: ProductSampler, posterior: Posterior, mode: Mode, white: Whitening, tuning: Tuning) -> Tree:
    """The tuning as arrays, after warnings about it."""
    tolerance = sampler.curvature.tolerance
    assert tolerance is not None
    n = sampler.minibatch.size if sampler.minibatch_of_size is None else tuning.minibatch_size
    count = sampler.data.as_counted
    _warn_of_tuning(sampler.name, tuning, tolerance, count(n), count(tuning.minibatch_size))
    far = distance(white, posterior.flat(mode.gradient))
    return tuning.as_tree(posterior) | {"distance": far, "mode": posterior.arrays(posterior.flat(mode.params))}


def _precision(sampler: ProductSampler, posterior: Posterior, mode: Mode, seed: int) -> np.ndarray:
    """The curvature at the mode, if it can be used."""
    of, use = sampler.name, sampler.curvature
    at, precision = posterior.flat(mode.params), mode.precision
    if precision is None:
        precision = curvature(posterior, at, seed)
        warn_if_far(of, posterior, at, posterior.flat(mode.gradient), precision)
    if use.tolerance is not None or isinstance(use.preconditioner, str):
        require_curvature(of, posterior, at, precision, seed)
    return precision


def _root(sampler: ProductSampler, precision: np.ndarray, white: Whitening) -> Whitening:
    given = sampler.curvature.preconditioner
    if given is None:
        return Whitening(np.ones(len(precision)))
    if isinstance(given, str):
        return {DENSE: white, DIAGONAL: whitening(precision, sampler.dtype, diagonal=True)}[given]
    return Whitening(given)


def _constants(preconditioner: Tree, minibatch: Tree, tuning: Tree) -> Tree:
    return {"minibatch": minibatch, "preconditioner": preconditioner, TUNING: tuning}


def with_low_rank_curvature(sampler: ProductSampler, mode: Mode, verbose: bool) -> Mode:
    """The mode with its curvature, and closer to it: the search had only a rough diagonal."""
    posterior, seed = Posterior(sampler.model, sampler.shapes), random.child_seed(sampler.seed, Purpose.CURVATURE)
    at, precision = posterior.flat(mode.params), mode.precision
    rough = curvature(posterior, at, seed) if precision is None else precision
    there = low_rank_curvature(posterior, at, rough if rough.ndim == 1 else np.diag(rough), seed, verbose)
    require_concave(sampler.name, there)
    polished = newton(posterior, Point.of(posterior, at), there.whitening, CLOSE, STEPS)
    return Mode(posterior.tree(polished.theta), posterior.tree(polished.gradient), there)


def _minibatch_sampling(sampler: ProductSampler, posterior: Posterior, of_minibatch: Tree) -> MinibatchSampling:
    """How the minibatches are drawn, with these constants."""
    minibatch = sampler.minibatch
    return MinibatchSampling(
        minibatch.size,
        sampler.model.data.size,
        minibatch.without_replacement,
        probabilities_of(of_minibatch),
        sampler.minibatch_of_size is not None,
        overhead(posterior.size, sampler.touched),
    )


def _shared_dynamics(sampler: ProductSampler) -> tuple[Dynamics, float]:
    """The dynamics, shared by all parameters, and the factor by which the noise may exceed that at the mode."""
    return next(iter(sampler.dynamics.values())), NOISE_GROWTH if sampler.gradient.centred else 1.0


def _warn_of_tuning(of: str, tuning: Tuning, tolerance: float, minibatch_size: int, best: int) -> None:
    if tuning.error > tolerance:
        warn_user(
            f"no stepsize of {of} keeps tolerance={tolerance}: with its other settings the predicted error of "
            f"an sd is up to {tuning.error:.0%}, and hardly less with a smaller stepsize. For sghmc use more leaps, "
            "such as L=20; for sgnht and ccadl use a smaller a."
        )
    if (enough := sufficient_size(minibatch_size, best)) is not None:
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
