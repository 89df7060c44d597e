"""How a parameter moves, given an estimate of the gradient: one file for each update rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Memory = dict[str, tf.Tensor]
"""What a dynamics remembers of one parameter besides its position, e.g. ``{"momentum": ..., "thermostat": ...}``."""


class Given(NamedTuple):
    """The inputs of a dynamics for one step of one parameter, or of a transition for one iteration.

    For a transition, `eps` and `noise` are dicts with an entry for each parameter, and `gradient` and `covariance` are
    not given.

    Parameters
    ----------
    eps : tf.Tensor
        The stepsize, a scalar.
    noise : tf.Tensor or tuple of tf.Tensor
        Fresh standard normals, in the shape of theta; for a `step` with several `noises`, a tuple of so many.
    gradient : tf.Tensor
        The estimated gradient of the log posterior, summed over all N, in the shape of theta; not given to `init` and
        `refresh`.
    covariance : tf.Tensor
        The covariance of the noise of this gradient, estimated from the same minibatch, if the dynamics asks for it:
        the variance of each element, in the shape of theta, or the matrix [p, p] of the p elements in C order.
    norm : tf.Tensor
        The Euclidean norm of the gradient over all parameters together, a scalar, for a `step` that `wants_norm`.
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

    It is what `stationary` of a `Dynamics` returns, so that ``stepsize="auto"`` can choose a stepsize.

    Parameters
    ----------
    variance : numpy.ndarray
        The variance of the chain in each direction, float64 [D]; infinite where the chain does not settle.
    iterations : numpy.ndarray
        The integrated autocorrelation time, at least 1, float64 [D]: how many iterations an independent draw takes.

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

    Pure functions in TensorFlow operations. They do not handle chains, minibatches or the model. The memory is a
    dict of tensors that a dynamics keeps for the parameter besides its position, such as a momentum.

    Parameters
    ----------
    step : callable
        ``step(theta, memory, given) -> (theta, memory)``. `given.gradient` is the gradient of the log posterior at
        theta, summed over all N, `given.noise` are standard normals of theta's shape, `given.eps` is the stepsize, a
        scalar.
    init : callable, optional
        ``init(theta, given) -> memory``, before the first step; with `given.noise`, without a gradient. By default
        there is no memory.
    refresh : callable, optional
        ``refresh(theta, memory, given) -> memory``, before each iteration, with separate noise.
    drift : callable, optional
        ``drift(theta, memory) -> theta``: a move before each step, to the position where its gradient is evaluated.
    stats : callable, optional
        ``stats(memory, given) -> {name: scalar}``, recorded with each draw in ``out.sampleStats``. The averages of
        "kinetic_temperature" and "variance_ratio" should be `temperature` and 1; they are in ``out.summary()``, and a
        run warns if not. "time" is the time that a draw stands for, by which ``out.summary()`` weights it.
    leaps : int, default 1
        The number of steps in one iteration, each with its own minibatch.
    noises : int, default 1
        How many independent noises `step` uses, up to 3; that of a search for the mode uses none.
    wants_norm : bool, default False
        Whether `step` uses `given.norm`, which all parameters have in common.
    by_rows : bool, default False
        Whether only the rows of a parameter that `logLik` gathers for the minibatch may move. Each of these rows
        then has the stepsize m eps and the gradient divided by m, where m is its number of visits in the minibatch, 1
        on average. This is right for a step that passes no momentum or noise on to the next one. By default the
        whole parameter moves, which is right for every step. `step` is given the rows, with `given.eps` [rows, 1, ...],
        and memories of the parameter's shape are cut to them.
    stationary : callable, optional
        ``stationary(eps, precision, noise) -> Stationary``, in NumPy: the stationary distribution on a Gaussian
        posterior with these precisions in independent directions, [D], and gradients whose noise has these variances,
        [D].
        ``stepsize="auto"`` needs it.
    along : callable, optional
        ``along(noise, own) -> noise``, in NumPy, for a rule whose elements move by more than a multiple of their
        gradients, as Barker's. Then `stationary` is for directions that are elements. In others, where the gradient's
        noise has the variance `noise` and that of the elements is `own` on average, both [K], it is given the result.
    covariance : {"diag", "full"}, optional
        Whether `step` uses ``given.covariance``, and which of the two forms. It needs the gradients of single
        observations, and at least two of them in a minibatch.
    momentum : bool, default False
        Whether the stepsize is the variance of a momentum, and not of a noise of theta: for `tune`, which tries around
        a first guess.
    temperature : float, default 1.0
        What the average of "kinetic_temperature" should be, for a small stepsize and gradients without noise.
    variance : (float, float), optional
        (a, b), if for a small stepsize the variance of the chain on a Gaussian is a + b T times the posterior's, with T
        the average of "kinetic_temperature". Without it, and without a "variance_ratio", nothing is known of it.

    Examples
    --------
    See `sample`.
    """

    step: Callable[[tf.Tensor, Memory, Given], tuple[tf.Tensor, Memory]]
    init: Callable[[tf.Tensor, Given], Memory] = lambda theta, given: {}
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
    """The integrated autocorrelation time of the position, at least 1, [D].

    The recursion is x' = F x + noise with x = (theta, u) and F [D, 2, 2]; `covariance`,
    [D, 2], is that of x with theta.
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


def equilibrium_friction(temperature: Callable[[float], float], highest: float) -> float | None:
    """The friction in (0, highest] at which a thermostat has the temperature 1.

    None if there is none. The temperature must fall with the friction.
    """
    if highest <= 0 or not temperature(highest) <= 1:
        return None
    low, high = 0.0, highest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if temperature(middle) < 1 else (middle, high)
    return high
