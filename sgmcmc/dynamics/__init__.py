"""How a parameter moves, given an estimate of the gradient: one file for each update rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.trees import nothing

Memory = dict[str, tf.Tensor]
"""The state of one parameter besides its position, e.g. ``{"momentum": ..., "thermostat": ...}``."""


class Given(NamedTuple):
    """The inputs of a dynamics for one step of one parameter, or of a transition for one iteration.

    A transition gets dicts as `eps` and `noise`, with an entry for each parameter, and neither `gradient` nor
    `covariance`.

    Parameters
    ----------
    eps : tf.Tensor
        The stepsize, a scalar.
    noise : tf.Tensor or tuple of tf.Tensor
        Fresh standard normals, in the shape of theta; a tuple of them if `step` uses several `noises`.
    gradient : tf.Tensor
        The estimated gradient of the log posterior, summed over all N, in the shape of theta; not given to `init` and
        `refresh`.
    covariance : tf.Tensor
        The covariance of the gradient noise, estimated from the same minibatch, if the dynamics requests it: the
        variance of each element, in the shape of theta, or the matrix [p, p] of the p elements in C order.
    norm : tf.Tensor
        The Euclidean norm of the gradient over all parameters together, a scalar, if the dynamics `wants_norm`.
    seed : tf.Tensor
        For a transition: two integers, int32 [2], for ``tf.random.stateless_uniform`` and similar functions.

    Examples
    --------
    See `sample`.
    """

    eps: Any
    noise: Any = None
    gradient: tf.Tensor = None
    covariance: tf.Tensor = None
    norm: tf.Tensor = None
    seed: tf.Tensor = None


class Stationary(NamedTuple):
    """The stationary distribution of a chain on a Gaussian posterior, in D independent directions.

    A `Dynamics` returns it from `stationary`, and ``stepsize="auto"`` chooses the stepsize by it.

    Parameters
    ----------
    variance : numpy.ndarray
        The variance of the chain in each direction, float64 [D]; infinite where the chain is not stable.
    iterations : numpy.ndarray
        The integrated autocorrelation time, at least 1, float64 [D]: the iterations per independent draw.

    Examples
    --------
    SGLD moves by ``theta + eps / 2 * gradient + sqrt(eps) * noise``. In a direction with precision `a` this is an
    autoregression with coefficient 1 - eps a / 2:

    >>> import numpy as np
    >>> from sgmcmc import Stationary
    >>> def stationary(eps, precision, noise):
    ...     coefficient = 1 - eps * precision / 2
    ...     settles = abs(coefficient) < 1
    ...     square = np.where(settles, coefficient**2, 0.0)
    ...     variance = np.where(settles, (eps + eps**2 / 4 * noise) / (1 - square), np.inf)
    ...     return Stationary(variance, np.maximum(1.0, (1 + coefficient) / (1 - coefficient)))
    >>> stationary(0.1, np.array([1.0, 4.0]), np.array([0.0, 40.0])).variance.round(3)
    array([1.026, 0.556])
    """

    variance: np.ndarray
    iterations: np.ndarray


class Dynamics(NamedTuple):
    """How one parameter array of one chain moves, given an estimated gradient of the log posterior.

    Its functions are pure, in TensorFlow operations, and see neither other chains nor the minibatch or the model. The
    memory is a dict of tensors that the dynamics keeps for the parameter besides its position, such as a momentum.

    Parameters
    ----------
    step : callable
        ``step(theta, memory, given) -> (theta, memory)``. `given.gradient` is the gradient of the log posterior at
        theta, summed over all N, `given.noise` holds standard normals of theta's shape, and `given.eps` is the
        stepsize, a scalar.
    init : callable, optional
        ``init(theta, given) -> memory``, before the first step, with `given.noise` but no gradient. By default the
        memory is empty.
    refresh : callable, optional
        ``refresh(theta, memory, given) -> memory``, before each iteration, with noise of its own.
    drift : callable, optional
        ``drift(theta, memory) -> theta``: a move before each step, to the point where its gradient is evaluated.
    stats : callable, optional
        ``stats(memory, given) -> {name: scalar}``, recorded with each draw in ``out.sampleStats``. The averages of
        "kinetic_temperature" and "variance_ratio" should be `temperature` and 1; ``out.summary()`` shows them, and a
        run warns if they are not. "time" weights the draw in ``out.summary()``.
    leaps : int, default 1
        The number of steps in one iteration, each with its own minibatch.
    noises : int, default 1
        The number of independent noises that `step` uses, up to 3; a search for the mode uses none.
    wants_norm : bool, default False
        Whether `step` uses `given.norm`.
    by_rows : bool, default False
        Whether an iteration may move only the rows of a parameter that `logLik` gathers for the minibatch. Each of
        these rows then has the stepsize m eps and the gradient divided by m, where m is its number of visits in the
        minibatch, 1 on average. This is valid for a step that carries no momentum or noise to the next one. By default
        the whole parameter moves, which is valid for every step. `step` gets the rows, with `given.eps`
        [rows, 1, ...], and the same rows of memories of the parameter's shape.
    stationary : callable, optional
        ``stationary(eps, precision, noise) -> Stationary``, in NumPy: the stationary distribution on a Gaussian
        posterior with these precisions in independent directions, [D], and gradient noise of these variances, [D].
        ``stepsize="auto"`` requires it.
    along : callable, optional
        ``along(noise, own) -> noise``, in NumPy, for a rule that is not linear in the gradient, as Barker's, whose
        `stationary` holds for single elements. In a direction across elements, with gradient noise of variance `noise`,
        and of variance `own` on average over its elements, both [K], `stationary` gets the result.
    covariance : {"diag", "full"}, optional
        Whether `step` uses ``given.covariance``, and in which form. It requires gradients of single observations, and
        at least two observations in a minibatch.
    momentum : bool, default False
        Whether the stepsize is the variance of a momentum, not of noise in theta; `tune` bases its first guess on
        it.
    temperature : float, default 1.0
        The expected average of "kinetic_temperature" for a small stepsize and exact gradients.
    variance : (float, float), optional
        (a, b), if for a small stepsize the variance of the chain on a Gaussian is a + b T times the posterior's, with T
        the average of "kinetic_temperature". Without it, and without a "variance_ratio", runs do not check the
        variance.

    Examples
    --------
    See `sample`.
    """

    step: Callable[[tf.Tensor, Memory, Given], tuple[tf.Tensor, Memory]]
    init: Callable[[tf.Tensor, Given], Memory] = nothing
    refresh: Callable[[tf.Tensor, Memory, Given], Memory] | None = None
    drift: Callable[[tf.Tensor, Memory], tf.Tensor] | None = None
    stats: Callable[[Memory, Given], dict[str, tf.Tensor]] | None = None
    leaps: int = 1
    noises: int = 1
    wants_norm: bool = False
    by_rows: bool = False
    stationary: Callable[[float, np.ndarray, np.ndarray], Stationary] | None = None
    along: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    covariance: str | None = None
    momentum: bool = False
    temperature: float = 1.0
    variance: tuple[float, float] | None = None


Entry = np.ndarray | float

BISECTIONS = 60


def iterations(F: np.ndarray, covariance: np.ndarray) -> np.ndarray:  # noqa: N803
    """The integrated autocorrelation time of theta, at least 1, [D], in the recursion x' = F x + noise, x = (theta, u).

    F is [D, 2, 2]; `covariance`, [D, 2], is that of x with theta.
    """
    later = np.linalg.solve(np.eye(2) - F, F @ covariance[..., None])[..., 0, 0]
    return np.maximum(1 + 2 * later / covariance[..., 0], 1.0)


def covariances(F: np.ndarray, added: np.ndarray) -> np.ndarray:  # noqa: N803
    """The stationary covariance P = F P F^T + added of the recursion x' = F x + noise, [D, 2, 2]."""
    both = np.einsum("dij,dkl->dikjl", F, F).reshape(len(F), 4, 4)
    return np.linalg.solve(np.eye(4) - both, added.reshape(len(F), 4, 1)).reshape(F.shape)


def matrices(a: Entry, b: Entry, c: Entry, d: Entry) -> np.ndarray:
    """[[a, b], [c, d]] in each direction, [D, 2, 2]."""
    a, b, c, d = np.broadcast_arrays(a, b, c, d)
    return np.stack([np.stack([a, b], -1), np.stack([c, d], -1)], -2)


def unstable(precision: np.ndarray) -> Stationary:
    return Stationary(np.full_like(precision, np.inf), np.ones_like(precision))


def equilibrium_friction(temperature: Callable[[float], float], highest: float) -> float | None:
    """The friction in (0, highest] at which a thermostat has the temperature 1, which falls with it, or None."""
    if highest <= 0 or not temperature(highest) <= 1:
        return None
    low, high = 0.0, highest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if temperature(middle) < 1 else (middle, high)
    return high
