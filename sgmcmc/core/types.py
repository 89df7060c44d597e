"""The types that the folders share.

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
    """A minibatch of one chain, as an estimator of the gradient sees it.

    Parameters
    ----------
    data : dict of tf.Tensor
        The observations, {name: [n, ...]}.
    weights : float or tf.Tensor
        Their weights in the sum over all N: N/n for all, or one for each, [n].
    indices : tf.Tensor
        Their numbers in the dataset, int32 [n].
    gathered : dict of tf.Tensor
        How often all N observations together gather each row of a parameter, {name: [rows]}, if only rows move.

    Examples
    --------
    See `Gradient`.
    """

    data: Tree
    weights: float | tf.Tensor
    indices: tf.Tensor | None = None
    gathered: Tree | None = None


class RowGradient(NamedTuple):
    """The gradient of a parameter of which `logLik` gathered only some rows.

    One entry for each *occurrence* of a row; entries of the same row are equal, each the row's whole gradient. `visits`
    is N/n times the count of the row in the minibatch, divided by its count in all data: 1 on average over minibatches.
    """

    rows: tf.Tensor  # int [k]
    values: tf.Tensor  # [k, ...]
    visits: tf.Tensor  # [k]


class Estimate(NamedTuple):
    """What an estimator of the gradient returns for a minibatch of one chain.

    Parameters
    ----------
    value : tf.Tensor
        The estimate of the log posterior, a scalar, summed over all N.
    gradient : dict of tf.Tensor
        The estimate of its gradient, ``{name: [*shape]}``.
    memory : any nest of tf.Tensor
        What the next estimate is given.

    Examples
    --------
    See `Gradient`.
    """

    value: tf.Tensor
    gradient: Tree  # a parameter of which only rows move has a RowGradient
    memory: Any = ()


class Mode(NamedTuple):
    """A point near the mode of the posterior, and the gradient of the log posterior there, summed over all N."""

    params: Tree
    gradient: Tree
    precision: Any = None  # minus the Hessian there, if it is known: [D, D], its diagonal [D], or a `Wide`


Part = int | tf.Tensor
"""The number of a part of a minibatch whose size is not fixed."""


class Minibatch(NamedTuple):
    """How minibatches are drawn.

    The argument `subsampling` of a sampler takes a function ``scheme(N, n) -> Minibatch`` of your own.

    Parameters
    ----------
    size : int
        The number n of observations.
    draw : callable
        ``draw(stream, counters, constants) -> (indices, weights)``: int32 [K, C, n] for the K gradients with these
        numbers, uint32 [K], in C chains, and the weights of the observations in the sum over all N, of type `dtype`,
        [K, C, n], or None if all have the weight `scale`. The weighted sum must be unbiased.
        ``stream.integers(counters, numbers, N)`` has uniform integers below N, [K, C, m], for m `numbers` that tell the
        draws of a gradient apart, and ``stream.uniform(counters, numbers)`` uniforms in (0, 1].
    scale : float, optional
        N/n, if all weights are equal.
    without_replacement : bool, default False
        Whether no observation can be in a minibatch twice.
    simple : bool, default False
        Whether its observations are independent draws, or a simple random sample without replacement. Then the noise of
        a gradient follows from single observations, which ``stepsize="auto"`` and a covariance of the noise need.
    independent : bool, default True
        Whether minibatches are independent of each other.
    prepare : callable, optional
        ``prepare(importance) -> constants``, a dict of tensors, called once, with the sizes of the observations' terms
        at the mode, [N], if `wants_importance`, else with None.
    wants_importance : bool, default False
    parts : callable, optional
        ``parts(params, constants) -> int32``, a scalar: the number of parts in a chain's next minibatch, if that is not
        one. Each part has n observations, and `draw` a fourth argument, its number. The estimate is the mean over them.

    Examples
    --------
    Systematic sampling: every N/n-th observation from a random one on. If the data are sorted, such minibatches have
    less noise:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import Minibatch, sgld
    >>> def systematic(N, n):
    ...     if N % n:
    ...         raise ValueError("n must divide N: otherwise the last observations are never drawn")
    ...     def draw(stream, counters, constants):
    ...         first = stream.integers(counters, tf.range(1), N // n)
    ...         return first + N // n * tf.range(n), None
    ...     return Minibatch(n, draw, scale=N / n, without_replacement=True)
    >>> dataset = {"x": np.sort(np.random.default_rng(0).normal(3.0, 1.0, size=1000))}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=10, nIters=2000, verbose=False, seed=1,
    ...     subsampling=systematic,
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    size: int
    draw: Callable[..., tuple[tf.Tensor, tf.Tensor | None]]
    scale: float | None = None
    without_replacement: bool = False
    simple: bool = False
    independent: bool = True
    prepare: Callable[[np.ndarray | None], Tree] = lambda importance: {}
    wants_importance: bool = False
    parts: Callable[[Tree, Tree], tf.Tensor] | None = None


FIRST = "first"  # the key of an estimator's constants that are only for its first memory


class Gradient(NamedTuple):
    """How the gradient of the log posterior is estimated, for one chain.

    The argument `gradient` of a sampler takes a function ``estimator(model) -> Gradient`` of your own. The model has
    ``value_and_gradient(params, batch)`` and ``gradient(params, batch)``, the plain estimates,
    ``prior_gradient(params)``, and ``term_gradients(params, data)``, those of the log likelihood of each observation,
    ``{name: [n, *shape]}``. All of these are tempered if there is a `temperature`.

    Parameters
    ----------
    estimate : callable
        ``estimate(params, batch, constants, memory) -> Estimate``, in TensorFlow operations, with a `Batch`.
    prepare : callable, optional
        ``prepare(begin, verbose) -> constants``, a dict of tensors, called once, with where the chains begin:
        ``begin.params`` and, if `wants_mode`, the exact gradient there, ``begin.gradient``.
    init : callable, optional
        ``init(params, constants) -> memory``, any nest of tensors, before the first estimate.
    wants_mode : bool, default False
        Whether the run searches for the mode and begins there.
    tables : mapping of str to int, default {}
        Entries of the memory, then a dict, with a row for each observation, {name: width}, which begin as zeros.
        `estimate` is given the rows of its minibatch, [n, width], and returns the new rows, equal ones for an
        observation that the minibatch has twice.
    terms : callable, optional
        ``terms(params, data, constants, memory) -> {name: [n, *shape]}``: what each observation adds to the sum over
        all N that a minibatch estimates. Without it the noise of the estimate is unknown, and there is no
        ``stepsize="auto"``, covariance of the noise, or `preferential`. Before there is a chain, memory is None.
    centred : bool, default False
        Whether the terms are differences that vanish at the mode.
    own_reference : bool, default False
        Whether each observation's term is a difference to a point of its own, as in SAGA: the mean of the terms is then
        noise too.
    every : int, default 0
        In iterations: how often `renew` is called; 0 is never.
    renew : callable, optional
        ``renew({name: [C, *shape]}) -> memory`` of all chains, [C, ...], before every iteration whose number is a
        multiple of `every`, outside of compiled code.

    Examples
    --------
    Recursive momentum (Cutkosky and Orabona 2019): the plain estimate, plus 1 - a times the error of the last estimate
    as the same minibatch sees it:

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import Estimate, Gradient, sgld
    >>> def recursive(model, a=0.1):
    ...     def init(params, constants):
    ...         zeros = {name: tf.zeros_like(theta) for name, theta in params.items()}
    ...         return {"params": params, "gradient": zeros, "keep": tf.zeros([], model.dtype)}
    ...     def estimate(params, batch, constants, memory):
    ...         value, here = model.value_and_gradient(params, batch)
    ...         there = model.gradient(memory["params"], batch)
    ...         gradient = {
    ...             name: here[name] + memory["keep"] * (memory["gradient"][name] - there[name]) for name in params
    ...         }
    ...         keep = tf.constant(1 - a, model.dtype)
    ...         return Estimate(value, gradient, {"params": params, "gradient": gradient, "keep": keep})
    ...     return Gradient(estimate, init=init)
    >>> dataset = {"x": np.random.default_rng(0).normal(3.0, 1.0, size=1000)}
    >>> def logLik(params, dataset):
    ...     return -0.5 * tf.reduce_sum((dataset["x"] - params["theta"]) ** 2)
    >>> out = sgld(
    ...     logLik, dataset, {"theta": 3.0}, stepsize=1e-4, minibatchSize=100, nIters=2000, verbose=False, seed=1,
    ...     gradient=recursive,
    ... )
    >>> bool(abs(out["theta"].mean() - 3.0) < 0.1)
    True
    """

    estimate: Callable[[Tree, Batch, Tree, Any], Estimate]
    prepare: Callable[[Mode, bool], Tree] = lambda begin, verbose: {}
    init: Callable[[Tree, Tree], Any] = lambda params, constants: ()
    wants_mode: bool = False
    tables: Mapping[str, int] = MappingProxyType({})
    terms: Callable[[Tree, Tree, Tree, Any], Tree] | None = None
    centred: bool = False
    own_reference: bool = False
    every: int = 0
    renew: Callable[[Tree], Tree] | None = None

    @property
    def has_history(self) -> bool:
        """Whether the noise of an estimate depends on the history of the chain."""
        return bool(self.tables or self.every or self.init is not Gradient._field_defaults["init"])


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


class Transition(NamedTuple):
    """A whole iteration of one chain: how parameters move that no gradient moves, or not a gradient alone.

    The argument `transition` of `sample` takes a function ``f(model) -> Transition`` of your own. The model is that of
    `Gradient`, with ``log_lik(params, data)``, the log likelihood of these observations, and ``log_prior(params)``; it
    is None if `logLik` is None.

    Parameters
    ----------
    step : callable
        ``step(params, memory, batch, given) -> (params, memory, value)``, in TensorFlow operations, with a `Batch` of
        observations. ``given.eps`` and ``given.noise`` have a stepsize and standard normals for each parameter, and
        ``given.seed`` two integers for other random numbers. The value, a scalar, is an estimate of the log posterior,
        which is recorded; a run ends if it is NaN or infinite.
    init : callable, optional
        ``init(params, given) -> memory``, any nest of tensors, before the first iteration; with `given.noise`. By
        default there is no memory.
    stats : callable, optional
        ``stats(memory) -> {name: tensor}``, recorded with each draw in ``out.sampleStats``.
    wants_noise : bool, default True
        Whether `step` uses `given.noise`.
    vectorized : bool, default True
        Whether all chains can be stepped at once, by tf.vectorized_map. With loops whose length depends on the data,
        such as a rejection sampler has, they are stepped one after the other.

    Examples
    --------
    The fraction of ones among binary observations, with a conjugate prior, by its logarithm of odds and a random walk
    that is accepted by all data (a minibatch of N):

    >>> import numpy as np
    >>> import tensorflow as tf
    >>> from sgmcmc import Transition, sample
    >>> def logLik(params, dataset):
    ...     return tf.reduce_sum(dataset["x"] * params["odds"] - tf.nn.softplus(params["odds"]))
    >>> def logPrior(params):
    ...     return params["odds"] - 2 * tf.nn.softplus(params["odds"])
    >>> def metropolis(model):
    ...     def density(params, batch):
    ...         return model.log_lik(params, batch.data) + model.log_prior(params)
    ...     def init(params, given):
    ...         return {"accepted": tf.zeros([], model.dtype)}
    ...     def step(params, memory, batch, given):
    ...         proposal = {"odds": params["odds"] + tf.sqrt(given.eps["odds"]) * given.noise["odds"]}
    ...         here, there = density(params, batch), density(proposal, batch)
    ...         accepted = tf.math.log(tf.random.stateless_uniform([], given.seed)) < there - here
    ...         params = {"odds": tf.where(accepted, proposal["odds"], params["odds"])}
    ...         return params, {"accepted": tf.cast(accepted, model.dtype)}, tf.where(accepted, there, here)
    ...     return Transition(step, init=init, stats=lambda memory: memory)
    >>> dataset = {"x": np.repeat([0.0, 1.0], [30, 70])}
    >>> out = sample(
    ...     logLik, dataset, {"odds": 0.8}, stepsize=0.2, logPrior=logPrior, minibatchSize=100, nIters=4000,
    ...     verbose=False, seed=1, transition=metropolis,
    ... )
    >>> bool(abs((1 / (1 + np.exp(-out["odds"]))).mean() - 71 / 102) < 0.01)
    True
    >>> bool(0.2 < out.sampleStats["accepted"].mean() < 0.9)
    True
    """

    step: Callable[[Tree, Any, Batch, Given], tuple[Tree, Any, tf.Tensor]]
    init: Callable[[Tree, Given], Any] = lambda params, given: ()
    stats: Callable[[Any], dict[str, tf.Tensor]] | None = None
    wants_noise: bool = True
    vectorized: bool = True


class Supply(NamedTuple):
    """The inputs of K iterations that depend only on their numbers, so that they can be computed ahead of the chain.

    The caller fetches the observations at the `indices`, int32 [K, l, ..., n], and passes on the `draws`, [K, l, ...],
    unchanged. l is 1, or the number of gradients in an iteration.
    """

    indices: dict[str, tf.Tensor]
    draws: dict[str, tf.Tensor]


class Supplied(Protocol):
    """The inputs of one iteration."""

    @property
    def iteration(self) -> tf.Tensor:
        """The number of the iteration, counted from 0: uint32, a scalar."""

    def indices(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        """The indices of this name, [..., n], for one of the gradients of the iteration."""

    def draws(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        """The draws of this name, [...], for one of the gradients of the iteration."""

    def data(self, name: str, leap: int | tf.Tensor = 0) -> Tree:
        """The observations at the indices, {name: [..., n, *shape]}."""

    def fetch(self, indices: tf.Tensor) -> Tree:
        """The observations at indices that depend on the state, [..., n]; all data must be in memory."""


State = Any
"""A nest of tensors with leaves [C, ...], which only its kernel reads."""


class Kernel(NamedTuple):
    """A Markov kernel: the interface of an algorithm to the loop, the storage and the output.

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
    finite : callable
        ``finite(state) -> {name: [C]}``: whether all numbers of each parameter and of its memory are finite.
    stats : callable
        ``stats(constants, state, iteration) -> {name: [C, ...]}``: the statistics of a draw, after
        `iteration` iterations.
    params : callable
        ``params(state) -> {name: [C, ...]}``; they are leaves of the state, by default ``state.params``.
    with_params : callable
        ``with_params(state, params) -> state``: the state with other parameters, as a user's Gibbs step draws them.
    log_density : callable
        ``log_density(state) -> [C]``: the last estimate of the log posterior. It is checked after each iteration; NaN
        or infinity is a divergence. By default ``state.log_density``.
    gradient : callable, optional
        ``gradient(constants, state, supplied) -> {name: [C, *shape]}``: the estimated gradient at a draw.
    leaps : int
        The number of gradients in an iteration.
    fetches : bool
        Whether `step` fetches observations that depend on the state.
    every : int
        ``renew(state) -> state`` is called before every iteration whose number is a multiple of it, on the host; 0 is
        never.
    """

    init: Callable[[Tree, Tree], State]
    supply: Callable[[Tree, tf.Tensor], Supply]
    step: Callable[[Tree, State, Supplied], State]
    finite: Callable[[State], Tree]
    stats: Callable[[Tree, State, tf.Tensor], Tree]
    params: Callable[[State], Tree] = lambda state: state.params
    with_params: Callable[[State, Tree], State] = lambda state, params: state._replace(params=params)
    log_density: Callable[[State], tf.Tensor] = lambda state: state.log_density
    gradient: Callable[[Tree, State, Supplied], Tree] | None = None
    leaps: int = 1
    fetches: bool = False
    every: int = 0
    renew: Callable[[State], State] | None = None


class Reducer(NamedTuple):
    """A summary of the draws of one chain that needs constant memory.

    Pure functions of TensorFlow operations, except for the last. A draw is a dict of tensors without a chain axis: the
    parameters, or what `collect` returns.

    Parameters
    ----------
    init : callable
        From a draw of zeros, which gives the shapes, to the first accumulator: any nest of tensors.
    update : callable
        (accumulator, draw) -> accumulator.
    result : callable, optional
        From the accumulator as NumPy arrays to the result, a dict of arrays. By default the accumulator itself.

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
