"""The few types that pass between rooms.

Shapes everywhere: C chains, T stored draws, N observations, n minibatch, D elements of one parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

Tree = dict[str, Any]
"""One entry per parameter."""

Aux = dict[str, tf.Tensor]
"""What a dynamics remembers of one parameter besides its position, e.g. ``{"momentum": ..., "thermostat": ...}``."""


class State(NamedTuple):
    """All that a chain needs to go on. Every leaf but the step has a leading chain axis [C, ...].

    The last entry is not needed to go on, but costs nothing to know.
    """

    step: tf.Tensor  # uint32: gradient steps made so far
    params: Tree
    dynamics: Tree
    gradient: Any
    minibatch: Any
    log_density: tf.Tensor  # [C]: the log posterior where the last gradient was taken, estimated from its minibatch


class RowGradient(NamedTuple):
    """The gradient of a parameter of which `logLik` gathered only some rows.

    One entry for each *occurrence* of a row; entries of the same row are equal, each the row's whole gradient.
    """

    rows: tf.Tensor  # int [k]
    values: tf.Tensor  # [k, ...]
    share: tf.Tensor  # [k]: one over the number of occurrences of the row


class Batch(NamedTuple):
    """A minibatch of one chain: its observations, and what each weighs in the sum over all N."""

    data: Tree  # {name: [n, ...]}
    weights: float | tf.Tensor  # N/n for all, or one weight for each, [n]


class Minibatch(NamedTuple):
    """Which observations, and with what weights.

    ``draw(stream, step, state) -> (indices [C, n], weights, state)``, where weights are [C, n], or () if all
    observations weigh `scale`.
    """

    size: int
    draw: Callable[..., tuple[tf.Tensor, Any, Any]]
    scale: float | None = None
    init: Callable[[], Any] = tuple


class Gradient(NamedTuple):
    """How the gradient of the log posterior is estimated, for one chain.

    ``init(centre) -> aux``, once for all chains, and ``estimate(params, batch, aux) -> (value, gradient, aux)``, where
    value is the plain estimate of the log posterior, a scalar.
    """

    init: Callable[[Tree], Any]
    estimate: Callable[[Tree, Batch, Any], tuple[tf.Tensor, Tree, Any]]


Mean = Callable[[tf.Tensor], tf.Tensor]
"""The average over the elements that move in this step: all of the parameter, or its gathered rows."""


def no_aux(eps: tf.Tensor, theta: tf.Tensor, noise: tf.Tensor) -> Aux:
    """The `init` of a dynamics without memory."""
    return {}


class Dynamics(NamedTuple):
    """How one parameter array of one chain moves, given a gradient.

    ``noise`` is a fresh standard normal array of theta's shape. ``init`` makes the memory before the first step;
    ``refresh`` remakes it before each iteration; ``drift`` gives the position at which the gradient is wanted;
    ``stats`` is what the memory tells about the chain, scalars under names that all dynamics share.
    """

    step: Callable[[tf.Tensor, tf.Tensor, Aux, tf.Tensor, tf.Tensor, Mean], tuple[tf.Tensor, Aux]]
    init: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Aux] = no_aux
    refresh: Callable[[tf.Tensor, tf.Tensor, Aux, tf.Tensor], Aux] | None = None
    drift: Callable[[tf.Tensor, Aux], tf.Tensor] | None = None
    stats: Callable[[tf.Tensor, Aux], dict[str, tf.Tensor]] | None = None
    inner_steps: int = 1


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


class Transition(NamedTuple):
    """A Markov transition: all that the loop knows of an algorithm.

    ``init(params, centre)`` begins at params, [C, ...], with a gradient estimator made around centre, [...];
    one iteration is ``inner_steps`` steps. ``stats(state)`` is what the state tells about the chain, {name: [C, ...]},
    and ``gradient(state)`` the estimated gradient there, {name: [C, *shape]}, from a minibatch of its own.
    """

    init: Callable[[Tree, Tree], State]
    step: Callable[[State], State]
    stats: Callable[[State], Tree]
    gradient: Callable[[State], Tree]
    inner_steps: int
