"""Diagnostics of a search for the mode that failed, and of a curvature that carries no information."""

from __future__ import annotations

import numpy as np

from sgmcmc.core.errors import warn_user
from sgmcmc.dataset.subset import random_subset
from sgmcmc.laplace.high_dimensional import LowRankCurvature
from sgmcmc.laplace.newton import distance
from sgmcmc.laplace.posterior import Posterior
from sgmcmc.laplace.whitening import Whitening, diagonal_of, whitening

FAR, FAR_EACH = 0.1, 0.05  # posterior standard deviations from the mode: in all directions together; in each of many
GREW = 1e6  # a curvature that grows or shrinks by this factor on the way does not converge
DOUBLINGS = 10  # of a step of one standard deviation, along which a log posterior without a mode never falls
SLIGHT = 1e-4  # the data's curvature relative to their squared gradients: about 1 in a regular model
SCORED = 10_000  # observations for the squared gradients


def warn_if_far(
    of: str,
    posterior: Posterior,
    theta: np.ndarray,
    gradient: np.ndarray,
    precision: np.ndarray,
    first: np.ndarray | None = None,  # the curvature at the start of an automatic search
) -> None:
    """Warn if theta is not at the mode, and say why if that is apparent."""
    white = whitening(precision, posterior.model.dtype)
    far, too_far = distance(white, gradient), far_from(precision)
    here, before = (np.abs(diagonal_of(x)) for x in (precision, precision if first is None else first))
    lost = bool((GREW * here < before).any())
    if far <= too_far and not lost:
        return
    if grown := posterior.names(here > GREW * before):
        warn_user(
            f"the search for the mode of {of} did not converge, and on the way the curvature in {grown} grew more than "
            "a million times: the log posterior seems to rise without bound there, and to have no mode. The joint "
            "density of a hierarchical model does so as a scale approaches 0. Use sgld or sghmc with a number as "
            "stepsize and gibbs= for the scales, or write the effects as scale times standard normal parameters."
        )
    elif (lost or not white.not_concave) and _rises(posterior, theta, white, gradient, far):
        along = posterior.main_names(np.abs(white.newton_step(gradient)) / white.sds)
        warn_user(
            f"the search for the mode of {of} did not converge: the log posterior is still rising a thousand posterior "
            f"standard deviations further on, mostly along {along}. It therefore has no mode there and is improper, as "
            "with a flat prior when the data separate two classes. Specify a proper prior."
        )
    elif far > too_far and not white.not_concave:
        warn_user(
            f"the search for the mode of {of} stopped about {far:.2g} posterior standard deviations away from it"
            f"{_why_not_further(posterior)}"
        )


def require_finite(of: str, posterior: Posterior, theta: np.ndarray, gradient: np.ndarray) -> None:
    if not np.isfinite(gradient).all():
        raise ValueError(
            f"the search for the mode of {of} ended where the log posterior or its gradient is not finite: "
            f"{posterior.explained(theta) or 'its terms are too large for the dtype.'}"
        )


def _why_not_further(posterior: Posterior) -> str:
    refused = posterior.passes.refused
    if refused is not None and (because := posterior.explained(refused)):
        return f", since the log posterior is not finite on the way: {because}"
    return (
        "; search longer, with another optStepsize, or with optStepsize='auto'. If it is already 'auto', rounding or a "
        "kink in the posterior may have stopped the search, or the observations used for the curvature were not "
        "typical."
    )


def far_from(precision: np.ndarray) -> float:
    """The distance from the mode that is too far, in posterior standard deviations."""
    return FAR if precision.ndim == 2 else max(FAR, FAR_EACH * len(precision) ** 0.5)


def require_concave(of: str, curvature: LowRankCurvature) -> None:
    """Refuse a posterior with many elements that is flat or not concave in some direction."""
    if np.isnan(curvature.sds).any():
        least = min([curvature.low, *curvature.values])
        raise ValueError(
            f"stepsize of {of} must be a number, with preconditioner=None, if params have this many elements and the "
            "log posterior is flat or not concave at the mode, as for a neural network; its curvature there, relative "
            f"to its diagonal, is as small as {least:.2g}. checkTemperature finds a stepsize. For a regression, "
            "specify a prior."
        )


def require_curvature(of: str, posterior: Posterior, theta: np.ndarray, precision: np.ndarray, seed: int) -> None:
    """Refuse a curvature, [D, D], that is 0, or only the prior's though the gradients show informative data."""
    if precision.ndim == 1:  # from squared gradients
        return
    of_prior = np.diag(posterior.prior_precision(theta))
    of_data = np.diag(precision) - of_prior
    if not precision.any():
        without = np.ones(posterior.size, bool)
    elif (of_data > np.abs(of_prior)).all():
        return
    else:
        scores = posterior.of(random_subset(posterior.data, SCORED, seed)).scores(theta)
        without = (np.abs(of_data) < SLIGHT * scores) & (scores > np.abs(of_prior))
    if without.any():
        raise ValueError(
            f"logLik of {of} has no usable curvature at the mode in {posterior.names(without)}, so 'auto' cannot find "
            "a stepsize or a preconditioner: it is flat there or has a kink, like an absolute value or a quantile "
            "loss. Give a number as stepsize, which tune can find, with preconditioner=None or your own; or begin at "
            "other params, if it is flat only here; or use a smooth logLik."
        )


def _rises(posterior: Posterior, theta: np.ndarray, white: Whitening, gradient: np.ndarray, far: float) -> bool:
    """Whether the log posterior never falls along the Newton step, up to a thousand standard deviations."""
    step = white.newton_step(gradient) / max(far, np.finfo(float).tiny)
    value = posterior.value_and_gradient(theta)[0]
    for doubling in range(DOUBLINGS + 1):
        before, value = value, posterior.value_and_gradient(theta + 2.0**doubling * step)[0]
        if not value >= before:
            return False
    return True
