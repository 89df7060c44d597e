"""The posterior: the only caller of the user's functions.

Everything here is for one chain, without a chain axis. Log posteriors are sums over all N observations, not means.
"""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from sgmcmc.core.chains import mapped
from sgmcmc.core.transforms import Transforms
from sgmcmc.core.trees import Tree, numbered, split
from sgmcmc.dataset import Data


class Batch(NamedTuple):
    """A minibatch of one chain.

    Parameters
    ----------
    data : dict of tf.Tensor
        The observations, {name: [n, ...]}.
    weights : float or tf.Tensor
        Their weights in the sum over all N: N/n for all, or one for each, [n].
    indices : tf.Tensor
        Their numbers in the dataset, int32 [n].
    gathered : dict of tf.Tensor
        The number of times that all N observations gather each row of a parameter, {name: [rows]}, if only gathered
        rows move.

    Examples
    --------
    See `Gradient`.
    """

    data: Tree
    weights: float | tf.Tensor
    indices: tf.Tensor | None = None
    gathered: Tree | None = None


class RowGradient(NamedTuple):
    """The gradient of a parameter of which `logLik` gathered only some rows, with an entry for each *occurrence*."""

    rows: tf.Tensor  # int [k]
    values: tf.Tensor  # [k, ...], each the row's whole gradient
    visits: tf.Tensor  # [k]: N/n times the row's count in the minibatch over that in all data, 1 on average


class Mode(NamedTuple):
    """A point near the mode of the posterior, and the gradient of the log posterior there, summed over all N."""

    params: Tree
    gradient: Tree
    precision: Any = None  # minus the Hessian there, if it is known: [D, D], its diagonal [D], or a `Wide`


FORWARD = 4  # a derivative of all terms along one element costs about as much as that many gradients of single terms

LogLik = Callable[[Tree, Tree], tf.Tensor]
LogPrior = Callable[[Tree], tf.Tensor]


class Returns(enum.Enum):
    """What the user's log likelihood returns for n observations."""

    SUM = "the sum"  # []
    TERMS = "the terms"  # [n]


def constrained(log_lik: LogLik, log_prior: LogPrior | None, transforms: Transforms) -> tuple[LogLik, LogPrior]:
    """The log likelihood and the log prior density of unconstrained parameters, from those of constrained ones."""

    def prior(params: Tree) -> tf.Tensor:
        log_det = transforms.log_det(params)
        if log_prior is None:
            return log_det
        value = tf.convert_to_tensor(log_prior(transforms.forward(params)), dtype_hint=log_det.dtype)
        return tf.reshape(value, []) + log_det

    return lambda params, data: log_lik(transforms.forward(params), data), prior


class Model:
    def __init__(
        self,
        log_lik: LogLik,
        log_prior: LogPrior | None,  # None is the improper uniform prior
        data: Data,
        returns: Returns,
        dtype: tf.DType,  # of parameters, data and draws
        by_rows: frozenset[str] = frozenset(),  # parameters whose gradients are given as rows
        gathered: frozenset[str] = frozenset(),  # of which `log_lik` uses only rows, equally many for each observation
        shown: Callable[[Tree], Tree] = dict,  # the parameters that the user sees, from those of the model
    ) -> None:
        self._log_lik, self._log_prior, self._returns = log_lik, log_prior, returns
        self.data, self.dtype, self.by_rows, self.gathered, self.shown = data, dtype, by_rows, gathered, shown

    def giving_rows(self, of: frozenset[str]) -> Model:
        """The same model, with the gradients of these parameters as rows."""
        return self._with(by_rows=of)

    def over(self, data: Data) -> Model:
        return self._with(data=data)

    def _with(self, **changes: Any) -> Model:
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def log_density(self, params: Tree, batch: Batch) -> tf.Tensor:
        """The estimate log p(theta) + sum_{i in S} w_i log p(x_i | theta), a scalar."""
        if isinstance(batch.weights, float):
            log_lik = tf.constant(batch.weights, self.dtype) * self.log_lik(params, batch.data)
        else:
            log_lik = tf.reduce_sum(batch.weights * self.log_lik_terms(params, batch.data))
        return log_lik + self.log_prior(params)

    def gradient(self, params: Tree, batch: Batch) -> Tree:
        """The gradient of `log_density`; a RowGradient for the parameters `by_rows`."""
        return self.value_and_gradient(params, batch)[1]

    def value_and_gradient(self, params: Tree, batch: Batch) -> tuple[tf.Tensor, Tree]:
        """`log_density` and its `gradient`."""
        value, gradient = taped(lambda: self.log_density(params, batch), params)
        return value, {
            name: _combined(g, batch, name) if name in self.by_rows else dense(g) for name, g in gradient.items()
        }

    def log_lik_gradient(self, params: Tree, data: Tree) -> Tree:
        """The gradient of the log likelihood of `data`, {name: [*shape]}."""
        return _gradient(lambda: self.log_lik(params, data), params)

    def prior_gradient(self, params: Tree) -> Tree:
        return _gradient(lambda: self.log_prior(params), params)

    def log_prior(self, params: Tree) -> tf.Tensor:
        """The log prior density, a scalar; zero when there is none."""
        if self._log_prior is None:
            return tf.zeros([], self.dtype)
        return tf.reshape(tf.convert_to_tensor(self._log_prior(dict(params)), dtype_hint=self.dtype), [])

    def log_lik(self, params: Tree, data: Tree) -> tf.Tensor:
        """The log likelihood of `data`, summed: a scalar."""
        value = self._log_lik(dict(params), dict(data))
        return tf.reduce_sum(value) if self._returns is Returns.TERMS else tf.reshape(value, [])

    def log_lik_terms(self, params: Tree, data: Tree) -> tf.Tensor:
        """The log likelihood of each observation in `data`, [n]."""
        if self._returns is Returns.TERMS:
            return self._log_lik(dict(params), dict(data))

        def term(row: Tree) -> tf.Tensor:
            return self.log_lik(params, {name: entry[None] for name, entry in row.items()})

        return mapped(term, data)

    def term_gradients(self, params: Tree, data: Tree) -> Tree:
        """The gradient of the log likelihood of each observation in `data`, {name: [n, *shape]}."""

        def of_term(row: Tree) -> Tree:
            return self.log_lik_gradient(params, {name: entry[None] for name, entry in row.items()})

        size = sum(math.prod(theta.shape) for theta in params.values())
        n_terms = next(iter(data.values())).shape[0]
        if self._returns is Returns.TERMS and n_terms is not None and FORWARD * size <= n_terms:
            return mapped(of_term, data, otherwise=lambda: self._term_gradients_forward(params, data))
        return mapped(of_term, data)

    def _term_gradients_forward(self, params: Tree, data: Tree) -> Tree:
        """The term gradients, element by element of the parameters, for all observations at once."""
        elements = numbered({name: tuple(theta.shape) for name, theta in params.items()})
        ones = tf.ones([next(iter(data.values())).shape[0]], self.dtype)

        def along(direction: tf.Tensor) -> tf.Tensor:
            # The gradient is linear in the weights of the terms: its derivatives in them are the terms' gradients.
            with tf.GradientTape(watch_accessed_variables=False) as outer:
                outer.watch(ones)
                gradient = _gradient(lambda: tf.reduce_sum(ones * self.log_lik_terms(params, data)), params)
                change = tf.add_n([tf.reduce_sum(gradient[k] * d) for k, d in split(direction, elements).items()])
            return outer.gradient(change, ones, unconnected_gradients="zero")

        columns = tf.map_fn(along, tf.eye(sum(e.size for e in elements.values()), dtype=self.dtype))  # [D, n]
        return split(tf.transpose(columns), elements)

    def rows(self, params: Tree, data: Tree) -> dict[str, tf.Tensor]:
        """Which rows of which parameters `log_lik` gathers for `data`, with repeats, [k].

        Only of parameters whose gradient has no other part, such as that of a log prior on all rows.
        """
        _, gradient = taped(lambda: self.log_density(params, Batch(data, 1.0)), params, unconnected="none")
        return {name: g.indices for name, g in gradient.items() if isinstance(g, tf.IndexedSlices)}


def taped(of: Callable[[], tf.Tensor], params: Tree, unconnected: str = "zero") -> tuple[tf.Tensor, Tree]:
    """The value, and its gradient; 0 for parameters on which it does not depend, such as those of a Gibbs step."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(params)
        value = of()
    return value, tape.gradient(value, params, unconnected_gradients=unconnected)


def _gradient(of: Callable[[], tf.Tensor], params: Tree) -> Tree:
    return {name: dense(g) for name, g in taped(of, params)[1].items()}


def dense(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """The gradient of a whole parameter, from that of the rows that were gathered."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, gradient.dense_shape[0])


def _combined(slices: tf.IndexedSlices, batch: Batch, name: str) -> RowGradient:
    """Give every occurrence of a row the sum over all its occurrences."""
    n_rows, n = slices.dense_shape[0], tf.shape(slices.indices)[0]
    position = tf.range(n)
    # The last occurrence of a row represents all. (vectorized_map can map this reduction, but not a scatter.)
    owner = tf.math.unsorted_segment_max(position, slices.indices, n_rows)
    owner = tf.gather(owner, slices.indices)
    totals = tf.math.unsorted_segment_sum(slices.values, owner, n)
    visits = tf.math.unsorted_segment_sum(tf.ones_like(position, slices.values.dtype), owner, n)
    visits = tf.gather(visits, owner)
    if batch.gathered:
        visits *= batch.weights / tf.gather(batch.gathered[name], slices.indices)
    else:  # the search for the mode needs no visits: it has no distribution to leave invariant
        visits = tf.ones_like(visits)
    return RowGradient(slices.indices, tf.gather(totals, owner), visits)
