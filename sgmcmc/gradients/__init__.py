"""How the gradient of the log posterior is estimated from a minibatch: one file for each estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core.trees import Tree, no_memory, nothing
from sgmcmc.model import Batch, Mode


class Estimate(NamedTuple):
    """The result of an estimator of the gradient, for a minibatch of one chain.

    Parameters
    ----------
    value : tf.Tensor
        The estimate of the log posterior, a scalar, summed over all N.
    gradient : dict of tf.Tensor
        The estimate of its gradient, ``{name: [*shape]}``.
    memory : any nest of tf.Tensor
        The memory passed to the next estimate.

    Examples
    --------
    See `Gradient`.
    """

    value: tf.Tensor
    gradient: Tree  # a parameter of which only rows move has a RowGradient
    memory: Any = ()


FIRST = "first"  # the key of constants that only the first memory needs


class Gradient(NamedTuple):
    """An estimator of the gradient of the log posterior, for one chain.

    The argument `gradient` of a sampler takes a function ``estimator(model) -> Gradient`` of your own. The model has
    ``value_and_gradient(params, batch)`` and ``gradient(params, batch)``, the plain estimates,
    ``prior_gradient(params)``, and ``term_gradients(params, data)``, those of the log likelihood of each observation,
    ``{name: [n, *shape]}``. A `temperature` applies to all of them.

    Parameters
    ----------
    estimate : callable
        ``estimate(params, batch, constants, memory) -> Estimate``, in TensorFlow operations, with a `Batch`.
    prepare : callable, optional
        ``prepare(begin, verbose) -> constants``, a dict of tensors, called once, with the point where the chains begin,
        ``begin.params``, and, if `wants_mode`, the exact gradient there, ``begin.gradient``.
    init : callable, optional
        ``init(params, constants) -> memory``, any nest of tensors, before the first estimate.
    wants_mode : bool, default False
        Whether the run searches for the mode and begins there.
    tables : mapping of str to int, default {}
        Entries of the memory, which is then a dict, with a row for each observation, {name: width}, initially zero.
        `estimate` gets the rows of its minibatch, [n, width], and returns the new rows, the same for an observation
        that occurs twice.
    terms : callable, optional
        ``terms(params, data, constants, memory) -> {name: [n, *shape]}``: the contribution of each observation to the
        sum over all N that a minibatch estimates. Without it the noise of the estimate is unknown, which rules out
        ``stepsize="auto"``, a covariance of the noise, and `preferential`. Before a chain begins, memory is None.
    centred : bool, default False
        Whether the terms are differences that vanish at the mode.
    has_own_reference : bool, default False
        Whether each observation's term is a difference from a point of its own, as in SAGA, so that the mean of the
        terms is noise too.
    every : int, default 0
        The number of iterations between calls of `renew`; 0 for never.
    renew : callable, optional
        ``renew({name: [C, *shape]}) -> memory``, of all chains, [C, ...], before every iteration whose number is a
        multiple of `every`, outside compiled code.

    Examples
    --------
    Recursive momentum (Cutkosky and Orabona 2019): the plain estimate, plus 1 - a times the error of the last estimate,
    evaluated on the same minibatch:

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
    prepare: Callable[[Mode, bool], Tree] = nothing
    init: Callable[[Tree, Tree], Any] = no_memory
    wants_mode: bool = False
    tables: Mapping[str, int] = MappingProxyType({})
    terms: Callable[[Tree, Tree, Tree, Any], Tree] | None = None
    centred: bool = False
    has_own_reference: bool = False
    every: int = 0
    renew: Callable[[Tree], Tree] | None = None

    @property
    def has_history(self) -> bool:
        """Whether the noise of an estimate depends on the history of the chain."""
        return bool(self.tables or self.every or self.init is not no_memory)
