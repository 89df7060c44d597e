"""The few types that pass between folders.

Shapes everywhere: C chains, T stored draws, N observations, n minibatch, D elements of one parameter, K iterations of a
block, L gradients of an iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

Tree = dict[str, Any]
"""One entry per parameter."""

Memory = dict[str, tf.Tensor]
"""What a dynamics remembers of one parameter besides its position, e.g. ``{"momentum": ..., "thermostat": ...}``."""


class Batch(NamedTuple):
    """A minibatch of one chain: its observations, what each weighs in the sum over all N, and which they are."""

    data: Tree  # {name: [n, ...]}
    weights: float | tf.Tensor  # N/n for all, or one weight for each, [n]
    indices: tf.Tensor | None = None  # int32 [n]
    gathered: Tree | None = None  # {name: [rows]}: how often all N observations together gather each row


class RowGradient(NamedTuple):
    """The gradient of a parameter of which `logLik` gathered only some rows.

    One entry for each *occurrence* of a row; entries of the same row are equal, each the row's whole gradient. `visits`
    is N/n times how often the minibatch gathers the row, over how often all data do: over all minibatches 1 on average.
    """

    rows: tf.Tensor  # int [k]
    values: tf.Tensor  # [k, ...]
    visits: tf.Tensor  # [k]


class Estimate(NamedTuple):
    """What a gradient estimator makes of a minibatch, for one chain."""

    value: tf.Tensor  # []: the plain estimate of the log posterior
    gradient: Tree  # of the log posterior, for each parameter its shape or a RowGradient
    memory: Any = ()  # of the estimator, for the next estimate


class Mode(NamedTuple):
    """A point near the mode of the posterior, and the gradient of the log posterior there, summed over all N."""

    params: Tree
    gradient: Tree
    precision: np.ndarray | None = None  # minus the Hessian there, if it is known, [D, D] or its diagonal [D]


Part = int | tf.Tensor
"""The number of a part of a minibatch whose size is not fixed."""


class Minibatch(NamedTuple):
    """Which observations, and with what weights.

    ``draw(stream, counters [K], constants, part) -> (indices int32 [K, C, n], weights)``, where weights are [K, C, n],
    or None if all observations weigh `scale`. ``prepare(importance) -> constants`` is called once, with how large the
    terms of the observations are, [N], if `wants_importance`, else with None. ``parts(params, constants) -> int32``, if
    there is one, says of how many parts a chain's next minibatch is made; each is of n observations, and the estimate
    is the mean of those from the parts.
    """

    size: int
    draw: Callable[..., tuple[tf.Tensor, tf.Tensor | None]]
    scale: float | None = None
    without_replacement: bool = False
    prepare: Callable[[np.ndarray | None], Tree] = lambda importance: {}
    wants_importance: bool = False
    parts: Callable[[Tree, Tree], tf.Tensor] | None = None


FIRST = "first"  # the constants of an estimator that are there for its first memory only


class Gradient(NamedTuple):
    """How the gradient of the log posterior is estimated, for one chain.

    ``prepare(begin, verbose) -> constants`` is called once for all chains, with where they begin, which is the mode if
    `wants_mode`; ``init(params, constants) -> memory`` begins a chain's memory, and
    ``estimate(params, batch, constants, memory) -> Estimate``. `tables` are entries of a memory, then a dict, that
    have a row for each observation, with so many elements; `estimate` is given the rows of its minibatch, [n, width],
    and returns them as they are to be, equal ones for an observation that the minibatch has twice. They begin as the
    constant `FIRST` has them, [N, width], or else with zeros; this constant is kept for `init` only.
    ``renew({name: [C, ...]}) -> memory`` of all chains, [C, ...], is called on the host before every iteration whose
    number is a multiple of `every`.
    ``terms(params, data, constants, memory) -> {name: [n, *shape]}`` is what each observation adds to the sum over all
    N that a minibatch estimates; without it the noise of the estimate cannot be told. Where there is no chain yet,
    memory is None. `centred` says that these are differences, which vanish at the mode, and `by_themselves` that each
    is to a point of its own, so that even those that are equal at one point are noise.
    """

    estimate: Callable[[Tree, Batch, Tree, Any], Estimate]
    prepare: Callable[[Mode, bool], Tree] = lambda begin, verbose: {}
    init: Callable[[Tree, Tree], Any] = lambda params, constants: ()
    wants_mode: bool = False
    tables: Mapping[str, int] = MappingProxyType({})
    terms: Callable[[Tree, Tree, Tree, Any], Tree] | None = None
    centred: bool = False
    by_themselves: bool = False
    every: int = 0
    renew: Callable[[Tree], Tree] | None = None


class Given(NamedTuple):
    """What a dynamics is given for one step of one parameter; all have the shape of theta, or none.

    Parameters
    ----------
    eps : tf.Tensor
        The stepsize, a scalar.
    noise : tf.Tensor
        Fresh standard normals.
    gradient : tf.Tensor
        The estimated gradient of the log posterior, summed over all N; not given to `init` and `refresh`.
    covariance : tf.Tensor
        Of the noise of this gradient, estimated from the same minibatch, for a dynamics that asks for it: the variance
        of each element, or the matrix [p, p] for the p elements in a row.

    Examples
    --------
    See `sample`.
    """

    eps: tf.Tensor
    noise: tf.Tensor = None
    gradient: tf.Tensor = None
    covariance: tf.Tensor = None


class Stationary(NamedTuple):
    """The distribution in which a chain settles on a Gaussian posterior, for each of some directions, [D] float64."""

    variance: np.ndarray  # infinite where it does not settle
    iterations: np.ndarray  # per independent draw: the integrated autocorrelation time, at least 1


class Dynamics(NamedTuple):
    """How one parameter array of one chain moves, given an estimated gradient of the log posterior.

    Pure functions in TensorFlow operations. Chains, minibatches and gradients are not their business; the memory is a
    dict of tensors, what a dynamics remembers of the parameter besides its position, such as a momentum.

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
        ``refresh(theta, memory, given) -> memory``, before each iteration, with noise of its own.
    drift : callable, optional
        ``drift(theta, memory) -> theta``: the position at which the gradient of a step is wanted, if not at theta.
    stats : callable, optional
        ``stats(memory, given) -> {name: scalar}``, what is recorded of each draw as ``out.sampleStats``. Of these
        "kinetic_temperature" and "variance_ratio", right at 1, are in ``out.summary()``, and warned of.
    leaps : int, default 1
        Steps in one iteration, each with a minibatch of its own.
    wants_noise : bool, default True
        Whether `step` uses noise; a search for the mode does not.
    by_rows : bool, default False
        Whether, of a parameter of which `logLik` gathers rows, those that a minibatch gathers may move alone. Each
        then has the stepsize m eps and the gradient divided by m, where m is how often the minibatch visits the row, 1
        on average: the right distribution for a step that carries no momentum or noise on to the next. By default the
        whole parameter moves, which is right for every step. `step` is given the rows, with `given.eps` [rows, 1, ...],
        and what in the memory has the parameter's shape is cut to them.
    stationary : callable, optional
        ``stationary(eps, precision, noise) -> Stationary``, in NumPy: where the rule settles on a Gaussian posterior
        with these precisions in independent directions, [D], and gradients whose noise has these variances, [D]. It is
        what ``stepsize="auto"`` goes by, and refused without.
    covariance : {"diag", "full"}, optional
        Whether `step` wants ``given.covariance``, and which of the two it is. It takes the gradients of single
        observations, and at least two of them in a minibatch.

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
    wants_noise: bool = True
    by_rows: bool = False
    stationary: Callable[[float, np.ndarray, np.ndarray], Stationary] | None = None
    covariance: str | None = None


class Supply(NamedTuple):
    """What K iterations need that depends on their numbers alone, so that it can be made before the chain is there.

    Observations at the `indices`, int32 [K, l, ..., n], are fetched by whoever runs the chain; `draws` [K, l, ...] are
    handed on as they are. l is 1, or the number of gradients in an iteration.
    """

    indices: dict[str, tf.Tensor]
    draws: dict[str, tf.Tensor]


class Supplied(Protocol):
    """What one iteration was supplied with."""

    @property
    def iteration(self) -> tf.Tensor:
        """Its number, counted from 0: uint32, a scalar."""

    def indices(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        """Those under this name, [..., n], for one of the gradients of the iteration."""

    def draws(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        """Those under this name, [...], for one of the gradients of the iteration."""

    def data(self, name: str, leap: int | tf.Tensor = 0) -> Tree:
        """The observations at the indices, {name: [..., n, *shape]}."""

    def fetch(self, indices: tf.Tensor) -> Tree:
        """The observations at indices that the state determines, [..., n], where all are in memory."""


State = Any
"""A nest of tensors, with leaves [C, ...], that nobody but its transition looks into."""


class Transition(NamedTuple):
    """A Markov transition: all that the loop, the storage and the output know of an algorithm.

    Constants, a nested dict of tensors without a chain axis, are passed in, so that programs depend on their shapes
    only.

    Parameters
    ----------
    init : callable
        ``init(constants, params) -> state``, with params [C, ...].
    supply : callable
        ``supply(constants, iterations) -> Supply``, with iterations uint32 [K].
    step : callable
        ``step(constants, state, supplied) -> state``: one iteration.
    params : callable
        ``params(state) -> {name: [C, ...]}``; they are leaves of the state, which a user may replace between
        iterations.
    log_density : callable
        ``log_density(state) -> [C]``: the last estimate of the log posterior; looked at after each iteration, and a
        divergence if it is not finite.
    finite : callable
        ``finite(state) -> {name: [C]}``: which parameters, with all that is remembered of them, are finite.
    stats : callable
        ``stats(constants, state, iteration) -> {name: [C, ...]}``: what is recorded beside each draw, after
        `iteration` iterations.
    gradient : callable, optional
        ``gradient(constants, state, supplied) -> {name: [C, *shape]}``: the estimated gradient at a draw.
    leaps : int
        Gradients in an iteration.
    fetches : bool
        Whether `step` fetches observations that the state determines.
    every : int
        ``renew(state) -> state`` is called before every iteration whose number is a multiple of it, on the host; 0 is
        never.
    """

    init: Callable[[Tree, Tree], State]
    supply: Callable[[Tree, tf.Tensor], Supply]
    step: Callable[[Tree, State, Supplied], State]
    params: Callable[[State], Tree]
    log_density: Callable[[State], tf.Tensor]
    finite: Callable[[State], Tree]
    stats: Callable[[Tree, State, tf.Tensor], Tree]
    gradient: Callable[[Tree, State, Supplied], Tree] | None = None
    leaps: int = 1
    fetches: bool = False
    every: int = 0
    renew: Callable[[State], State] | None = None


class Reducer(NamedTuple):
    """A sum over the draws of one chain that needs no more memory however many there are.

    Pure functions of TensorFlow operations, but for the last. A draw is a dict of tensors without a chain axis: the
    parameters, or what `collect` gives.

    Parameters
    ----------
    init : callable
        From a draw of zeros, for its shapes, to the accumulator: any nest of tensors.
    update : callable
        (accumulator, draw) -> accumulator.
    result : callable, optional
        From the accumulator as NumPy arrays to what is returned: a dict of arrays. By default the accumulator.

    Examples
    --------
    The largest value of each parameter:

    >>> import tensorflow as tf
    >>> from sgmcmc import Reducer
    >>> largest = Reducer(
    ...     init=lambda draw: {name: x - float("inf") for name, x in draw.items()},
    ...     update=lambda top, draw: {name: tf.maximum(top[name], x) for name, x in draw.items()},
    ... )
    """

    init: Callable[[Tree], Any]
    update: Callable[[Any, Tree], Any]
    result: Callable[[Any], Tree] | None = None
