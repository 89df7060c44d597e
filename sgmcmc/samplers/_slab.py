"""The density at 0 of the elements of a prior, from its gradient alone.

If the elements of a parameter are independent, the log density is a sum of f_i(theta_i). So its gradient where all
elements are x has every f_i'(x), and

    F(x) = int_0^x f'(y) dy,    1/p(0) = int exp(F(x)) dx

with x = e^u and x = -e^u, in small steps of u, is right for any scale, and for log densities without their constants.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from sgmcmc.core.chains import mapped
from sgmcmc.core.tracing import trace
from sgmcmc.core.types import Tree
from sgmcmc.model import Model
from sgmcmc.samplers._choices import Choices

FIRST, LAST, STEP = -25.0, 25.0, 0.02  # of u
AT_ONCE = 10**7  # numbers
FLAT = 0.01  # the change of f with u at its first value
LEFT_OUT = 1e-4  # of the integral, for each unit of u at its last value
NOWHERE = -20.0  # of the logarithm of the density, where its gradient may overflow
TRIALS = 8  # of independence, each of which misses a pair of dependent elements with the probability 1/2
CLOSE = 1e-3  # slopes that rounding makes different

Slopes = Callable[[np.ndarray, Tree], np.ndarray]


def density_at_zero(choices: Choices, name: str) -> np.ndarray:
    """[*shape], of the parameter `name`.

    Raises
    ------
    ValueError
        If `logPrior` has no such density, or it depends on other elements or parameters.
    """
    shape, others = choices.start[name].shape, {key: x for key, x in choices.start.items() if key != name}
    slopes = _slopes(choices.model, name, shape, others)
    left = _integrals(lambda x: -slopes(-x, others), shape)
    right = _integrals(lambda x: slopes(x, others), shape)
    total, moment = np.add(left, right)
    if not np.isfinite(total).all():
        must = f"be a log density of {name!r}, which inclusion names, that is finite at 0 and has an integral"
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
    """Those of exp(F(x)) and of x exp(F(x)) from 0 on, of each element; NaN where there is none."""

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
    """Whether slopes stay as they are where other elements and parameters change."""
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
