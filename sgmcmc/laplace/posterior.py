"""The log posterior as a function of one vector, with its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.core.parameters import joined, numbered, split
from sgmcmc.core.types import Tree
from sgmcmc.dataset.data import Data, block_size
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.model import Model

BLOCK = 2**22  # numbers in the largest array of a block


class Posterior:
    """log p(theta) + N/m times the log likelihood of m observations, and its derivatives, in float64.

    Each block is computed in the float type of the model, and blocks are summed in
    float64. The gradient near the mode, a small difference of large sums, is then as
    precise as its terms.

    Parameters
    ----------
    model : Model
    shapes : mapping of str to tuple of int
        The shapes of the parameters, which have D elements together.
    data : Data, optional
        The m observations; by default all N of the model.
    """

    def __init__(self, model: Model, shapes: Mapping[str, tuple[int, ...]], data: Data | None = None) -> None:
        self.model, self.elements = model.giving_rows(frozenset()), numbered(shapes)
        self.data = data or model.data
        self.size = sum(e.size for e in self.elements.values())
        self._factor = model.data.size / self.data.size

    def of(self, data: Data) -> Posterior:
        """The same posterior, estimated from other observations."""
        return Posterior(self.model, {name: e.shape for name, e in self.elements.items()}, data)

    def tree(self, theta: np.ndarray) -> Tree:
        """The parameters, {name: [*shape]}, in the model's float type."""
        return self.split(self._tensor(theta))

    def flat(self, params: Tree) -> np.ndarray:
        """The elements of the parameters, [D]."""
        return np.concatenate([np.ravel(np.asarray(params[name], np.float64)) for name in self.elements])

    def split(self, theta: tf.Tensor) -> Tree:
        """The parameters {name: [*shape]} in a tensor [D]."""
        return split(theta, self.elements)

    def value_and_gradient(self, theta: np.ndarray, title: str = "", verbose: bool = False) -> tuple[float, np.ndarray]:
        """The log posterior and its gradient, [D]."""
        value, gradient = self._sum(self._first, theta, title=title, verbose=verbose)
        return float(value), gradient

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """The matrix of second derivatives, [D, D]."""
        (matrix,) = self._sum(self._second, theta)
        return (matrix + matrix.T) / 2

    def hessian_product(self, theta: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """The Hessian times a vector, [D]."""
        (product,) = self._sum(self._directed, theta, vector)
        return product

    def squared_gradients(self, theta: np.ndarray) -> np.ndarray:
        """The sums of squared gradients plus the prior's curvature, [D], at least 0.

        They approximate minus the diagonal of the Hessian, if that is too expensive.
        The curvature of the prior is taken from the row sums of its Hessian, which are
        its diagonal if the prior is a product over the elements.
        """
        (squares,) = self._squared.summed([self._tensor(theta)])
        (prior,) = (x.numpy() for x in self._directed[1](self._tensor(theta), self._tensor(np.ones(self.size))))
        return self._factor * squares + np.maximum(-prior, 0.0)

    def _sum(
        self, programs: tuple[FullPass, Compiled], *vectors: np.ndarray, title: str = "", verbose: bool = False
    ) -> list[np.ndarray]:
        of_data, of_prior = programs
        values = [self._tensor(x) for x in vectors]
        likelihood = of_data.summed(values, title, verbose)
        prior = [x.numpy() for x in of_prior(*values)]
        return [self._factor * x + y for x, y in zip(likelihood, prior, strict=True)]

    def _tensor(self, vector: np.ndarray) -> tf.Tensor:
        return tf.constant(vector, self.model.dtype)

    @cached_property
    def _first(self) -> tuple[FullPass, Compiled]:
        def derived(density: Callable, theta: tf.Tensor) -> list[tf.Tensor]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(theta)
                value = density(theta)
            return _double(value, tape.gradient(value, theta, unconnected_gradients="zero"))

        return self._programs(derived, block_size(self.data))

    @cached_property
    def _second(self) -> tuple[FullPass, Compiled]:
        def derived(density: Callable, theta: tf.Tensor) -> list[tf.Tensor]:
            with tf.GradientTape(watch_accessed_variables=False) as outer:
                outer.watch(theta)
                gradient = _gradient(density, theta)
            return _double(outer.jacobian(gradient, theta, unconnected_gradients="zero"))

        return self._programs(derived, max(16, BLOCK // self.size))

    @cached_property
    def _directed(self) -> tuple[FullPass, Compiled]:
        def derived(density: Callable, theta: tf.Tensor, vector: tf.Tensor) -> list[tf.Tensor]:
            with tf.GradientTape(watch_accessed_variables=False) as outer:
                outer.watch(theta)
                along = tf.reduce_sum(_gradient(density, theta) * vector)
            return _double(outer.gradient(along, theta, unconnected_gradients="zero"))

        return self._programs(derived, block_size(self.data))

    @cached_property
    def _squared(self) -> FullPass:
        def squared(words: tf.Tensor, theta: tf.Tensor) -> list[tf.Tensor]:
            terms = self.model.term_gradients(self.split(theta), self.data.layout.unpack(words))
            return _double(tf.reduce_sum(joined(terms) ** 2, axis=0))

        return FullPass(self.data, squared, max(16, BLOCK // self.size))

    def _programs(self, derived: Callable, block: int) -> tuple[FullPass, Compiled]:
        """Programs for the log likelihood of a block, and for the log prior."""

        def of_data(words: tf.Tensor, *vectors: tf.Tensor) -> list[tf.Tensor]:
            data = self.data.layout.unpack(words)
            return derived(lambda theta: self.model.log_lik(self.split(theta), data), *vectors)

        def of_prior(*vectors: tf.Tensor) -> list[tf.Tensor]:
            return derived(lambda theta: self.model.log_prior(self.split(theta)), *vectors)

        return FullPass(self.data, of_data, block), Compiled(of_prior)


def _gradient(density: Callable, theta: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(theta)
        value = density(theta)
    return tape.gradient(value, theta, unconnected_gradients="zero")


def _double(*tensors: tf.Tensor) -> list[tf.Tensor]:
    return [tf.cast(x, tf.float64) for x in tensors]
