"""The stochastic gradient zig-zag process, also with an atom at 0: sgzigzag and sgzigzagSetup.

If the elements of a parameter are independent, the log density is a sum of f_i(theta_i). So its gradient at the point
where all elements are x has every f_i'(x), and

    F(x) = int_0^x f'(y) dy,    1/p(0) = int exp(F(x)) dx

The integrals are over x = e^u and x = -e^u, in small steps of u. They are right for any scale, and for log densities
without their constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Unpack

import numpy as np
import tensorflow as tf

from sgmcmc.arguments import FRACTION
from sgmcmc.arguments.choices import Choices
from sgmcmc.arguments.common import Stepsize
from sgmcmc.arguments.gradient import Estimator
from sgmcmc.arguments.minibatch import adaptive
from sgmcmc.arguments.sampler import Sgmcmc, set_up
from sgmcmc.arguments.signatures import Options, SetupOptions, one_call, public
from sgmcmc.core.chains import mapped
from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.arrays import described, numeric
from sgmcmc.draws.draws import Draws
from sgmcmc.dynamics.sgzigzag import sgzigzag as sgzigzag_dynamics
from sgmcmc.model import LogLik, LogPrior, Model

FIRST, LAST, STEP = -25.0, 25.0, 0.02  # of u
AT_ONCE = 10**7  # numbers
FLAT = 0.01  # the change of f with u at its first value
LEFT_OUT = 1e-4  # of the integral, for each unit of u at its last value
NOWHERE = -20.0  # of the logarithm of the density, where its gradient may overflow
TRIALS = 8  # of independence, each of which misses a pair of dependent elements with probability 1/2
CLOSE = 1e-3  # differences of slopes that may come from rounding

Slopes = Callable[[np.ndarray, Tree], np.ndarray]


def _density_at_zero(choices: Choices, name: str) -> np.ndarray:
    """The density of `logPrior` at 0 for each element of the parameter `name`, [*shape]."""
    shape, others = choices.start[name].shape, {key: x for key, x in choices.start.items() if key != name}
    slopes = _slopes(choices.model, name, shape, others)
    left = _integrals(lambda x: -slopes(-x, others), shape)
    right = _integrals(lambda x: slopes(x, others), shape)
    total, moment = np.add(left, right)
    if not np.isfinite(total).all():
        must = f"be a log density of {name!r}, which inclusion names, that is finite at 0 and integrable"
        raise choices.refuse("logPrior", must, "None" if choices.logPrior is None else "another function")
    if not _independent(slopes, moment / total, others):
        must = f"be a log density of {name!r}, which inclusion names, with independent elements"
        raise choices.refuse("logPrior", must, "one that depends on other elements or parameters")
    return 1 / total


def _slopes(model: Model, name: str, shape: tuple[int, ...], others: Tree) -> Slopes:
    """The gradient of the log prior at some x, [M, *shape], given the other parameters."""

    def gradients(x: tf.Tensor, others: Tree) -> tf.Tensor:
        return mapped(lambda one: model.prior_gradient({**others, name: one})[name], x)

    specs = {key: tf.TensorSpec(np.shape(theta), model.dtype) for key, theta in others.items()}
    traced = trace(gradients, tf.TensorSpec([None, *shape], model.dtype), specs)

    def slopes(x: np.ndarray, others: Tree) -> np.ndarray:
        given = tf.nest.map_structure(lambda each: tf.constant(each, model.dtype), (x, others))
        return traced(*given).numpy().astype(np.float64)

    return slopes


@np.errstate(over="ignore", invalid="ignore")
def _integrals(slope: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The integrals of exp(F(x)) and of x exp(F(x)) from 0 on, for each element; NaN where there is none."""

    def by_u(x: np.ndarray) -> np.ndarray:
        return slope(np.broadcast_to(x, (len(x), *shape))) * x

    grid = np.exp(np.arange(FIRST, LAST, STEP)).reshape(-1, *[1] * len(shape))
    F, last = np.zeros(shape), by_u(grid[:1])[0]
    total, moment = np.where(np.abs(last) > FLAT, np.nan, grid[0]), np.zeros(shape)
    at_once = max(1, AT_ONCE // int(np.prod(shape)))
    for x in np.split(grid[1:], range(at_once, len(grid), at_once)):
        each = np.concatenate([last[None], by_u(x)])
        path = np.concatenate([F[None], F + np.cumsum(STEP * (each[1:] + each[:-1]) / 2, axis=0)])
        ended = np.logical_or.accumulate(~np.isfinite(path[1:]), axis=0)
        total[(ended & (path[:-1] > NOWHERE)).any(axis=0)] = np.nan
        density = np.where(ended, 0.0, np.exp(path[1:]))
        total += (STEP * density * x).sum(axis=0)
        moment += (STEP * density * x**2).sum(axis=0)
        F, last = np.where(ended[-1], -np.inf, path[-1]), each[-1]
    total[~(np.log(LEFT_OUT * total) > F + LAST)] = np.nan
    return total, moment


def _independent(slopes: Slopes, scale: np.ndarray, others: Tree) -> bool:
    """Whether slopes do not depend on other elements and parameters."""
    rng = np.random.default_rng(0)
    for _ in range(TRIALS):
        first, second = scale * rng.normal(size=(2, *scale.shape))
        of_first = rng.random(scale.shape) < 0.5
        moved = {name: np.where(x == 0, 1.0, x) * rng.uniform(0.5, 1.5, np.shape(x)) for name, x in others.items()}
        at_first, at_second = slopes(np.stack([first, second]), others)
        (found,) = slopes(np.where(of_first, first, second)[None], moved)
        if not np.allclose(found, np.where(of_first, at_first, at_second), rtol=CLOSE, atol=CLOSE / scale):
            return False
    return True


class Spike(NamedTuple):
    """The prior probabilities that elements are not 0, and the slab's densities at 0, {name: [*shape]}."""

    inclusion: Mapping[str, np.ndarray]
    slab: Mapping[str, np.ndarray]

    def rates(self) -> dict[str, np.ndarray]:
        """The rates at which elements leave 0, per unit of the distance that they would travel."""
        return {name: w / (1 - w) * self.slab[name] for name, w in self.inclusion.items()}

    def told(self) -> dict[str, Any]:
        """The settings to record."""
        return {"inclusion": {name: w.tolist() for name, w in self.inclusion.items()}}


def _checked_spike(choices: Choices, inclusion: Any) -> Spike | None:
    """The argument `inclusion`, checked, with the slab from `logPrior`; None without it."""
    if inclusion is None:
        return None
    names = sorted(choices.start)
    if not isinstance(inclusion, Mapping) or not inclusion or not set(inclusion) <= set(names):
        raise choices.refuse("inclusion", f"be None or a dict with some of {names}", described(inclusion))
    _require_plain(choices, set(inclusion))
    each = {name: _of_elements(choices, name, w) for name, w in inclusion.items()}
    return Spike(each, {name: _density_at_zero(choices, name) for name in each})


def _require_plain(choices: Choices, names: set[str]) -> None:
    """Reject arguments that move 0, or change the density there."""
    if choices.automatic:
        raise choices.refuse("stepsize", "be a number with inclusion, for which 'auto' finds no mode", "'auto'")
    if choices.curvature.preconditioner is not None:
        raise choices.refuse("preconditioner", "be None with inclusion, whose elements must not be mixed", "another")
    if choices.temperature != 1:
        raise choices.refuse("temperature", "be 1 with inclusion, whose atoms are not tempered", choices.temperature)
    if moved := names & set(choices.constraints.each):
        raise choices.refuse("transforms", f"leave out {sorted(moved)}, which inclusion names", sorted(moved))
    if moved := names & choices.moved_by_gibbs:
        raise choices.refuse("gibbs", f"leave out {sorted(moved)}, which inclusion names", sorted(moved))


def _of_elements(choices: Choices, name: str, value: Any) -> np.ndarray:
    """One probability for all elements, or an array of them, in the shape of the parameter."""
    label, shape = f"inclusion[{name!r}]", choices.start[name].shape
    array = numeric(label, choices.sampler, value).astype(np.float64)
    if array.shape not in ((), shape):
        raise choices.refuse(label, f"be a number or have the shape of the parameter, {shape}", f"shape {array.shape}")
    allowed, must = FRACTION
    if bad := [x for x in array.flat if not (np.isfinite(x) and allowed(x))]:
        raise choices.refuse(label, f"be {must}, or an array of such numbers", bad[0])
    return np.broadcast_to(array, shape).copy()


@public
def sgzigzag(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    nIters: int | str = 10**4,
    verbose: bool = True,
    seed: int | None = None,
    *,
    inclusion: Mapping[str, Any] | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[Options],
) -> Draws:
    """The stochastic gradient zig-zag process.

    Each element of the parameters moves with a velocity v of 1 or -1, in steps of length h, the square root of the
    `stepsize`. In each iteration the gradient of the log posterior is estimated from a minibatch, in the middle of the
    step. The velocity changes sign after a time tau, if that is within the step::

        tau ~ Exp(max(0, -v gradient))
        theta' = theta + v h, v' = v                        if tau > h
        theta' = theta + v tau - v (h - tau), v' = -v       else

    (Fearnhead et al. [1]_, who take the gradient at the beginning of the step). The process keeps its direction until
    the density falls, so with `gradient=controlVariates()` it needs few iterations for an independent draw. If the
    variance v of the gradient noise is large, the variance of the draws is too large, with the relative error
    ``sqrt(stepsize v / (2 pi))``. Skewed noise biases the mean.

    **Variable selection.** With `inclusion` the elements of some parameters have a prior with an atom at 0: each is 0
    with probability ``1 - inclusion``, and otherwise has the distribution of `logPrior`, the slab. An element that
    reaches 0 stays there for a random time (Bierkens et al. [2]_), with draws that are exactly 0. So
    ``(out["beta"] != 0).mean(axis=0)`` are the posterior probabilities of inclusion. The time depends on the density of
    the slab at 0, which is computed from `logPrior` by integration and must not depend on the other elements and
    parameters.

    References
    ----------
    .. [1] Fearnhead, P., Grazzi, S., Nemeth, C. and Roberts, G. O. (2024). Stochastic gradient piecewise deterministic
       Monte Carlo samplers. arXiv:2406.19051.
    .. [2] Bierkens, J., Grazzi, S., van der Meulen, F. and Schauer, M. (2023). Sticky PDMP samplers for sparse and
       local inference problems. Statistics and Computing 33.
    """
    return one_call(sgzigzagSetup, **locals())


@public
def sgzigzagSetup(
    logLik: LogLik,
    dataset: Mapping[str, Any],
    params: Mapping[str, Any],
    stepsize: Stepsize = "auto",
    logPrior: LogPrior | None = None,
    minibatchSize: float | str | adaptive = 0.01,
    seed: int | None = None,
    *,
    inclusion: Mapping[str, Any] | None = None,
    gradient: Estimator | None = None,
    **options: Unpack[SetupOptions],
) -> Sgmcmc:
    """Set up the stochastic gradient zig-zag process, to run step by step; see `sgzigzag`."""
    choices = Choices(
        "sgzigzag", dataset, params, stepsize, minibatchSize, seed, logLik=logLik, logPrior=logPrior, **options
    )
    spike = _checked_spike(choices, inclusion)
    if not spike:
        return set_up(choices, sgzigzag_dynamics(), gradient, {"inclusion": None})
    rates = spike.rates()
    dynamics = {name: sgzigzag_dynamics(rates.get(name)) for name in choices.start}
    return set_up(choices, dynamics, gradient, spike.told())
