"""The log posterior and its derivatives, summed over the data in blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.compilation import Compiled
from sgmcmc.core.trees import Tree, joined, numbered, split
from sgmcmc.core.xla import not_vectorizable
from sgmcmc.dataset import Data, Layout, derivative_block
from sgmcmc.dataset.full_pass import FullPass
from sgmcmc.model import Model
from sgmcmc.nonfinite import explained


class Passes:
    """Counts the observations for which a derivative of the log likelihood was computed, including repeats."""

    def __init__(self, n_data: int) -> None:
        self._n_data, self._observations = n_data, Counter[str]()
        self.watch: Callable[[float], None] | None = None  # called with the passes for gradients so far
        self.refused: np.ndarray | None = None  # the last position at which the log posterior was not finite

    def count(self, derivative: str, observations: int) -> None:
        self._observations[derivative] += observations
        if self.watch is not None:
            self.watch(self.of("first", "directed"))

    def of(self, *derivatives: str) -> float:
        """The passes over all N observations for these derivatives together."""
        return sum(self._observations[name] for name in derivatives) / self._n_data


MANY = 2000  # blocks: with more of them, another program for larger blocks is faster
FEWEST, OF_EACH, MOST = 1000, 20, 20_000  # observations that a search begins with: at least, for each element, at most


class Posterior:
    """log p(theta) + N/m times the log likelihood of m observations, and its derivatives, in float64.

    Each block is computed in the float type of the model, and blocks are summed in float64. The gradient near the mode,
    a small difference of large sums, is then as precise as its terms.
    """

    def __init__(self, model: Model, shapes: Mapping[str, tuple[int, ...]], data: Data | None = None) -> None:
        self.model, self.elements = model.giving_rows(frozenset()), numbered(shapes)
        self.data = data or model.data
        self.size = sum(e.size for e in self.elements.values())  # D
        self.block = _block(model.data, self.size)  # for second derivatives, and in parts of the data
        self.passes = Passes(model.data.size)  # also of the posteriors that `of` returns
        self._factor = model.data.size / self.data.size
        self._programs: dict[str, dict[int, Compiled]] = {}  # of the log likelihood, by the length of a block
        self._of_priors: dict[str, Compiled] = {}
        self._passes: dict[str, FullPass] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self._shapes, self.data)

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: e.shape for name, e in self.elements.items()}

    def of(self, data: Data) -> Posterior:
        """The same posterior, estimated from other observations, by the same programs."""
        other = Posterior(self.model, self._shapes, data)
        other._programs, other._of_priors, other.passes = self._programs, self._of_priors, self.passes
        if data is self.data:
            other._passes = self._passes
        return other

    def tree(self, theta: np.ndarray) -> Tree:
        """The parameters, {name: [*shape]}, in the model's float type."""
        return self.split(self._tensor(theta))

    def flat(self, params: Tree) -> np.ndarray:
        return np.concatenate([np.ravel(np.asarray(params[name], np.float64)) for name in self.elements])

    def split(self, theta: tf.Tensor) -> Tree:
        """The parameters {name: [*shape]} in a tensor [D]."""
        return split(theta, self.elements)

    def arrays(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The elements [D] as arrays, {name: [*shape]}."""
        return {name: flat[e.start : e.stop].reshape(e.shape) for name, e in self.elements.items()}

    def names(self, which: np.ndarray) -> list[str]:
        """The parameters with some of these elements, bool [D]."""
        return [name for name, e in self.elements.items() if which[e.start : e.stop].any()]

    def main_names(self, lengths: np.ndarray) -> list[str]:
        """The parameters with the longest parts of a direction, whose elements have these lengths, [D]."""
        return self.names(lengths > lengths.max() / 2)

    def value_and_gradient(self, theta: np.ndarray, title: str = "", verbose: bool = False) -> tuple[float, np.ndarray]:
        value, gradient = self._sum(_first, theta, title=title, verbose=verbose)
        if not is_finite(value, gradient):
            self.passes.refused = theta
        return float(value), gradient

    def prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The log prior density and its gradient."""
        value, gradient = self._of_prior(_first)(self._tensor(theta))
        return float(value), gradient.numpy()

    def explained(self, theta: np.ndarray) -> str:
        """Why the log posterior or its gradient is not finite at theta; empty if it is."""
        return explained(self.model, self.tree(theta), self.data)

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        many = self.data.size > MANY * self.block
        larger = derivative_block(self.data, self.size) // self.block * self.block
        block = max(self.block, larger) if many else self.block
        (of_data,) = self._of_data(_second, block).summed([self._tensor(theta)])
        self.passes.count("second", self.data.size)
        matrix = self._factor * of_data - self.prior_precision(theta)
        return (matrix + matrix.T) / 2

    def prior_precision(self, theta: np.ndarray) -> np.ndarray:
        """Minus the Hessian of the log prior, [D, D], by columns with the programs of the search."""
        at, along = self._tensor(theta), self._of_prior(_directed)
        return -np.stack([along(at, self._tensor(e))[0].numpy() for e in np.eye(self.size)])

    def hessian_product(self, theta: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return self._sum(_directed, theta, vector)[0]

    def squared_gradients(self, theta: np.ndarray) -> np.ndarray:
        """An approximation of minus the diagonal of the Hessian, [D], at least 0, if that is too expensive.

        The curvature of the prior is taken from the row sums of its Hessian, which are its diagonal if the prior is a
        product over the elements.
        """
        (prior,) = self._of_prior(_directed)(self._tensor(theta), self._tensor(np.ones(self.size)))
        return self.scores(theta) + np.maximum(-prior.numpy(), 0.0)

    def log_lik_terms(self, thetas: np.ndarray, verbose: bool = False) -> np.ndarray:
        """The log likelihood of each observation at each of the positions [S, D], as [S, N]; of groups if bundled."""

        def of_block(data: Tree, thetas: tf.Tensor) -> list[tf.Tensor]:
            of_all = tf.map_fn(lambda theta: self.model.log_lik_terms(self.split(theta), data), thetas)
            return [tf.transpose(of_all)]

        found = np.empty((len(thetas), self.data.as_counted(self.data.size)), self.model.dtype.as_numpy_dtype)
        for numbers, blocks in self._of_units(of_block, max(len(thetas), self.size)):
            (terms,) = blocks.joined([self._tensor(thetas)], "Log likelihoods", verbose)
            found[:, numbers] = terms.T
        return found

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """The sums of squared gradients of the observations' terms, [D]."""
        return self._of_scores(lambda s: tf.reduce_sum(s**2, axis=0), theta)

    def score_products(self, theta: np.ndarray, root: np.ndarray) -> np.ndarray:
        """The sum of s s^T over the observations' gradients s by phi, with theta = root phi, [D, D]."""

        def products(s: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
            of_phi = tf.matmul(s, root)
            return tf.matmul(of_phi, of_phi, transpose_a=True)

        return self._of_scores(products, theta, root)

    def _of_scores(self, made: Callable[..., tf.Tensor], theta: np.ndarray, *values: np.ndarray) -> np.ndarray:
        """The sum over blocks of `made`, a function of the gradients of a block's terms, [n, D]."""

        def of_block(data: Tree, theta: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
            return _double(made(joined(self.model.term_gradients(self.split(theta), data)), *values))

        given = [self._tensor(x) for x in (theta, *values)]
        totals = [blocks.summed(given)[0] for _, blocks in self._of_units(of_block, self.size)]
        self.passes.count("scores", self.data.size)
        return self._factor * np.sum(totals, axis=0)

    def _of_units(self, of_block: Callable[..., list[tf.Tensor]], numbers: int) -> Iterator[tuple[Any, FullPass]]:
        """Passes over the smallest units with a term, by ``of_block(data, *values)``, and where their terms belong."""
        for data, where in self.data.units():

            def of_words(words: tf.Tensor, *values: tf.Tensor, layout: Layout = data.layout) -> list[tf.Tensor]:
                return of_block(layout.unpack(words), *values)

            yield where, FullPass(data, of_words, derivative_block(data, numbers))

    def _sum(self, derived: Derived, *vectors: np.ndarray, title: str = "", verbose: bool = False) -> list[np.ndarray]:
        values = [self._tensor(x) for x in vectors]
        # On part of the data in small blocks, so that parts of all sizes share a program.
        block = self.block if self.data is not self.model.data else None
        likelihood = self._of_data(derived, block).summed(values, title, verbose)
        self.passes.count(derived.__name__.strip("_"), self.data.size)
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
            self._passes[name] = FullPass(self.data, of_data, block, self._programs.setdefault(name, {}))
        return self._passes[name]

    def _of_prior(self, derived: Derived) -> Compiled:
        def of_prior(*vectors: tf.Tensor) -> list[tf.Tensor]:
            return derived(lambda theta: self.model.log_prior(self.split(theta)), *vectors)

        return self._of_priors.setdefault(derived.__name__, Compiled(of_prior, hides=True))


def is_finite(value: float | np.ndarray, gradient: np.ndarray) -> bool:
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def fewest_to_locate(size: int) -> int:
    """The fewest observations that roughly locate the mode of D elements."""
    return min(max(FEWEST, OF_EACH * size), MOST)


def _block(data: Data, size: int) -> int:
    """The length of a small block, a divisor of N if one is near: a shorter last block needs another program."""
    few = min(fewest_to_locate(size), derivative_block(data, size))
    return next((n for n in range(few, 2 * few) if data.size % n == 0), few)


Derived = Callable[..., list[tf.Tensor]]  # (density, theta, *vectors) -> a derivative of the density at theta


def _first(density: Callable, theta: tf.Tensor) -> list[tf.Tensor]:
    return _double(*_value_and_gradient(density, theta))


def _second(density: Callable, theta: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape(watch_accessed_variables=False) as outer, not_vectorizable() as found:
        outer.watch(theta)
        _, gradient = _value_and_gradient(density, theta)
    if found():  # operations over which the Jacobian cannot be vectorized
        basis = tf.eye(theta.shape[0], dtype=theta.dtype)
        return tf.map_fn(lambda e: _directed(density, theta, e), basis, fn_output_signature=[tf.float64])
    return _double(outer.jacobian(gradient, theta, unconnected_gradients="zero"))


def _directed(density: Callable, theta: tf.Tensor, vector: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(theta)
        along = tf.reduce_sum(_value_and_gradient(density, theta)[1] * vector)
    return _double(outer.gradient(along, theta, unconnected_gradients="zero"))


def _value_and_gradient(density: Callable, theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(theta)
        value = density(theta)
    return value, tape.gradient(value, theta, unconnected_gradients="zero")


def _double(*tensors: tf.Tensor) -> list[tf.Tensor]:
    return [tf.cast(x, tf.float64) for x in tensors]
