"""Markov kernels: the interface of an algorithm to the loop, the storage and the output."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from sgmcmc.core.trees import Tree, no_memory
from sgmcmc.dynamics import Given
from sgmcmc.model import Batch


class Transition(NamedTuple):
    """A whole iteration of one chain, for parameters that do not move by a gradient, or not by a gradient alone.

    Pass a function ``f(model) -> Transition`` of your own as the argument `transition` of `sample`. The model is that
    of `Gradient`, with ``log_lik(params, data)``, the log likelihood of these observations, and ``log_prior(params)``;
    it is None if `logLik` is None.

    Parameters
    ----------
    step : callable
        ``step(params, memory, batch, given) -> (params, memory, value)``, in TensorFlow operations, with a `Batch` of
        observations. ``given.eps`` and ``given.noise`` hold a stepsize and standard normals for each parameter, and
        ``given.seed`` two integers for other random numbers. The value, a scalar, is the estimate of the log posterior
        to record; a run ends if it is NaN or infinite.
    init : callable, optional
        ``init(params, given) -> memory``, any nest of tensors, before the first iteration, with `given.noise`. By
        default the memory is empty.
    stats : callable, optional
        ``stats(memory) -> {name: tensor}``, recorded with each draw in ``out.sampleStats``.
    wants_noise : bool, default True
        Whether `step` uses `given.noise`.
    vectorized : bool, default True
        Whether tf.vectorized_map can step all chains at once. Otherwise they are stepped in turn, as loops of random
        length require, such as that of a rejection sampler.

    Examples
    --------
    The fraction of ones among binary observations, with a conjugate prior, by a random walk Metropolis step on the log
    odds, with all data in the acceptance probability (a minibatch of N):

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
    init: Callable[[Tree, Given], Any] = no_memory
    stats: Callable[[Any], dict[str, tf.Tensor]] | None = None
    wants_noise: bool = True
    vectorized: bool = True


class BlockInputs(NamedTuple):
    """The inputs of K iterations that depend only on their numbers, and so can be computed ahead of the chain.

    l is 1, or the number of gradients in an iteration.
    """

    indices: dict[str, tf.Tensor]  # int32 [K, l, ..., n], of observations, which the caller fetches
    draws: dict[str, tf.Tensor]  # [K, l, ...], which it passes on unchanged


class IterationInputs(Protocol):
    @property
    def iteration(self) -> tf.Tensor:
        """Counted from 0: uint32, a scalar."""

    def indices(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        """The indices of this name, [..., n], for one of the gradients of the iteration."""

    def draws(self, name: str, leap: int | tf.Tensor = 0) -> tf.Tensor:
        """The draws of this name, [...], for one of the gradients of the iteration."""

    def data(self, name: str, leap: int | tf.Tensor = 0) -> Tree:
        """The observations at the indices, {name: [..., n, *shape]}."""

    def fetch(self, indices: tf.Tensor) -> Tree:
        """The observations at indices that depend on the state, [..., n]; all data must be in memory."""


State = Any
"""A nest of tensors with leaves [C, ...], read only by its kernel."""


class Kernel(NamedTuple):
    """A Markov kernel: the interface of an algorithm to the loop, the storage and the output.

    Constants, a nested dict of tensors without a chain axis, are arguments, so that compiled programs depend only on
    their shapes. The params are leaves of the state.
    """

    init: Callable[[Tree, Tree], State]  # (constants, params [C, ...])
    draw_inputs: Callable[[Tree, tf.Tensor], BlockInputs]  # (constants, iterations, uint32 [K])
    step: Callable[[Tree, State, IterationInputs], State]  # (constants, state, inputs): one iteration
    finite: Callable[[State], Tree]  # {name: [C]}: whether each parameter and its memory are finite
    stats: Callable[[Tree, State, tf.Tensor], Tree]  # (constants, state, iteration), after that many: {name: [C, ...]}
    params: Callable[[State], Tree] = attrgetter("params")  # {name: [C, ...]}
    with_params: Callable[[State, Tree], State] = lambda state, params: state._replace(params=params)
    log_density: Callable[[State], tf.Tensor] = attrgetter("log_density")  # [C]: the last estimate; a run ends at NaN
    gradient: Callable[[Tree, State, IterationInputs], Tree] | None = None  # at a draw, {name: [C, *shape]}
    leaps: int = 1  # gradients in an iteration
    fetches: bool = False  # whether the observations that `step` fetches depend on the state
    every: int = 0  # the host calls `renew` before every iteration whose number is a multiple of this; 0 for never
    renew: Callable[[State], State] | None = None
