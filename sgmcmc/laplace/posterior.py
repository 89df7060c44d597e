"""The log posterior as a function of one vector, with its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from sgmcmc.core.compiled import Compiled
from sgmcmc.core.parameters import joined, numbered, split
from sgmcmc.core.types import Tree
from sgmcmc.dataset.data import Data
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
        self._programs: dict[str, tuple[dict[int, Compiled], Compiled]] = {}  # for log likelihood and log prior
        self._passes: dict[str, FullPass] = {}

    def of(self, data: Data) -> Posterior:
        """The same posterior, estimated from other observations, by the same programs."""
        other = Posterior(self.model, {name: e.shape for name, e in self.elements.items()}, data)
        other._programs = self._programs
        if data is self.data:
            other._passes = self._passes
        return other

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
        value, gradient = self._sum(_first, theta, title=title, verbose=verbose)
        return float(value), gradient

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """The matrix of second derivatives, [D, D]."""
        (of_data,) = self._of_data(_second, max(16, BLOCK // self.size)).summed([self._tensor(theta)])
        at, along = self._tensor(theta), self._of_prior(_directed)
        # By columns: the programs of the search are there, and the prior has no observations to map over.
        of_prior = np.stack([along(at, self._tensor(e))[0].numpy() for e in np.eye(self.size)])
        matrix = self._factor * of_data + of_prior
        return (matrix + matrix.T) / 2

    def hessian_product(self, theta: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """The Hessian times a vector, [D]."""
        (product,) = self._sum(_directed, theta, vector)
        return product

    def squared_gradients(self, theta: np.ndarray) -> np.ndarray:
        """The sums of squared gradients plus the prior's curvature, [D], at least 0.

        They approximate minus the diagonal of the Hessian, if that is too expensive.
        The curvature of the prior is taken from the row sums of its Hessian, which are
        its diagonal if the prior is a product over the elements.
        """

        def squared(words: tf.Tensor, theta: tf.Tensor) -> list[tf.Tensor]:
            terms = self.model.term_gradients(self.split(theta), self.data.layout.unpack(words))
            return _double(tf.reduce_sum(joined(terms) ** 2, axis=0))

        at = self._tensor(theta)
        (squares,) = FullPass(self.data, squared, max(16, BLOCK // self.size)).summed([at])
        (prior,) = (x.numpy() for x in self._of_prior(_directed)(at, self._tensor(np.ones(self.size))))
        return self._factor * squares + np.maximum(-prior, 0.0)

    def _sum(self, derived: Derived, *vectors: np.ndarray, title: str = "", verbose: bool = False) -> list[np.ndarray]:
        values = [self._tensor(x) for x in vectors]
        likelihood = self._of_data(derived).summed(values, title, verbose)
        prior = [x.numpy() for x in self._of_prior(derived)(*values)]
        return [self._factor * x + y for x, y in zip(likelihood, prior, strict=True)]

    def _tensor(self, vector: np.ndarray) -> tf.Tensor:
        return tf.constant(vector, self.model.dtype)

    def _of_data(self, derived: Derived, block: int | None = None) -> FullPass:
        def of_data(words: tf.Tensor, *vectors: tf.Tensor) -> list[tf.Tensor]:
            data = self.data.layout.unpack(words)
            return derived(lambda theta: self.model.log_lik(self.split(theta), data), *vectors)

        name = derived.__name__
        if name not in self._passes:
            programs, _ = self._shared(derived)
            self._passes[name] = FullPass(self.data, of_data, block, programs)
        return self._passes[name]

    def _of_prior(self, derived: Derived) -> Compiled:
        return self._shared(derived)[1]

    def _shared(self, derived: Derived) -> tuple[dict[int, Compiled], Compiled]:
        """The programs for the log likelihood, by the length of a block, and for the log prior."""

        def of_prior(*vectors: tf.Tensor) -> list[tf.Tensor]:
            return derived(lambda theta: self.model.log_prior(self.split(theta)), *vectors)

        return self._programs.setdefault(derived.__name__, ({}, Compiled(of_prior)))


Derived = Callable[..., list[tf.Tensor]]
"""(density, theta, *vectors) -> a derivative of the density, a function of theta."""


def _first(density: Callable, theta: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(theta)
        value = density(theta)
    return _double(value, tape.gradient(value, theta, unconnected_gradients="zero"))


def _second(density: Callable, theta: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(theta)
        gradient = _gradient(density, theta)
    return _double(outer.jacobian(gradient, theta, unconnected_gradients="zero"))


def _directed(density: Callable, theta: tf.Tensor, vector: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(theta)
        along = tf.reduce_sum(_gradient(density, theta) * vector)
    return _double(outer.gradient(along, theta, unconnected_gradients="zero"))


def _gradient(density: Callable, theta: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(theta)
        value = density(theta)
    return tape.gradient(value, theta, unconnected_gradients="zero")


def _double(*tensors: tf.Tensor) -> list[tf.Tensor]:
    return [tf.cast(x, tf.float64) for x in tensors]
