"""Markov kernels: the interface of an algorithm to the loop, the storage and the output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from sgmcmc.core.trees import Tree
from sgmcmc.dynamics import Given
from sgmcmc.model import Batch


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
