"""Explanations of a log posterior or gradient that is not finite: the observation, and the value in float64."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.compilation import Compiled
from sgmcmc.core.trees import Tree
from sgmcmc.dataset import Data, aligned_zeros, block_size
from sgmcmc.dataset.remote import RemoteShards
from sgmcmc.model import Model, taped

SEARCHED, BLOCK = 10**6, 2**16  # observations: in all, and in one block
TRIED = 20  # observations, since a later one may show more than the first
MODERATE = 1e9  # larger terms are not due to the number type, but to implausible params
SHOWN = 8  # elements of a parameter
STABLE = "tf.nn.softplus, tf.math.log_sigmoid or a loss with from_logits=True"


class Value(NamedTuple):
    """A log density, and the parameters for which its gradient is NaN or infinite."""

    value: float
    without_gradient: list[str]

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.value)) and not self.without_gradient

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return f"is {self.value:.3g}"
        return f"is {self.value:.3g}, but its gradient with respect to {self.without_gradient} is not finite,"


class NonfiniteTerm(NamedTuple):
    """An observation, or the prior, whose log density or its gradient is not finite."""

    what: str
    value: Value
    double: Value | None  # the same in float64, if that can be computed
    outside: str | None  # a parameter that is not positive, at whose absolute value it is finite

    @property
    def is_rounding(self) -> bool:
        return self.double is not None and self.double.is_finite and abs(self.double.value) <= MODERATE

    @property
    def is_large(self) -> bool:
        """Whether it is finite in float64, but larger than the number type holds or than a term should be."""
        return self.double is not None and self.double.is_finite and not self.is_rounding


def explained(model: Model, params: Tree, data: Data | None = None, step: str = "") -> str:
    """Sentences on what is not finite at these positions, with a remedy; empty if all is finite, or far too large.

    `data` are part of the model's. `step` is the argument that may make params that were reached in steps too large.
    """
    at = {name: np.asarray(theta) for name, theta in params.items()}
    with contextlib.suppress(Exception):  # it must not hide the error that it explains
        found = _prior(model, at) or _observation(model, at, model.data if data is None else data)
        if found is not None and not found.is_large:
            return _sentences(found, model.shown(at), model.dtype, step)
    return ""


def explained_nearby(model: Model, near: Sequence[Tree], step: str = "stepsize") -> str:
    """As `explained`, for a chain that diverged, at its positions before and after."""
    finite = [at for at in near if all(np.isfinite(theta).all() for theta in at.values())]
    return next(filter(None, (explained(model, at, step=step) for at in finite)), "")


Density = Callable[[Tree, tf.Tensor], tf.Tensor]
"""(params, packed rows) -> a log density."""


class _Program:
    """Whether a density and its gradient are finite, compiled, since XLA may give NaN where TensorFlow does not."""

    def __init__(self, density: Density, dtype: tf.DType, names: Iterable[str]) -> None:
        self._density, self._dtype, self._names = density, dtype, sorted(names)
        self._program = Compiled(self._finite, hides=True)

    def __call__(self, params: Tree, words: np.ndarray) -> Value:
        thetas = [tf.constant(params[name], self._dtype) for name in self._names]
        value, *finite = self._program(tf.constant(words), *thetas)
        return Value(float(value), [name for name, one in zip(self._names, finite, strict=True) if not one])

    def _finite(self, words: tf.Tensor, *thetas: tf.Tensor) -> list[tf.Tensor]:
        params = dict(zip(self._names, thetas, strict=True))
        value, gradient = taped(lambda: self._density(params, words), params)
        return [value, *(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(gradient[k]))) for k in self._names)]


class _FiniteChecks:
    def __init__(self, model: Model, params: Tree, density: Density, in_double: Density) -> None:
        self._params, self._shown = params, {name: np.asarray(x) for name, x in model.shown(params).items()}
        self._single, self._double = _Program(density, model.dtype, params), None
        if model.dtype != tf.float64:
            self._double = _Program(in_double, tf.float64, params)

    def found(self, what: str, words: np.ndarray) -> NonfiniteTerm | None:
        value, double = self._single(self._params, words), None
        if value.is_finite:
            return None
        if self._double is not None:
            with contextlib.suppress(Exception):  # such as with constants of type float32
                double = self._double(self._params, words)
        outside = next((name for name in self._shown if self._is_outside(name, words)), None)
        return NonfiniteTerm(what, value, double, outside)

    def _is_outside(self, name: str, words: np.ndarray) -> bool:
        if (self._shown[name] > 0).all():
            return False
        inside = self._single(self._params | {name: np.abs(self._params[name])}, words)
        return bool(np.isfinite(inside.value))


def _prior(model: Model, params: Tree) -> NonfiniteTerm | None:
    def density(params: Tree, _: tf.Tensor) -> tf.Tensor:
        return model.log_prior(params)

    return _FiniteChecks(model, params, density, density).found("logPrior", np.zeros((1, 1), np.uint32))


def _observation(model: Model, params: Tree, data: Data) -> NonfiniteTerm | None:
    """The first observation whose term is not finite, unless a later one shows that rounding is the cause."""
    if isinstance(data, RemoteShards):
        parts = zip(data.shards.starts, data.parts, strict=True)
        return next(filter(None, (part.asked(_here, (model, params, int(start))) for start, part in parts)), None)
    return _here(data, (model, params, 0))


def _here(data: Data, given: tuple[Model, Tree, int]) -> NonfiniteTerm | None:
    model, params, first = given

    def density(params: Tree, words: tf.Tensor) -> tf.Tensor:
        return model.log_lik(params, data.layout.unpack(words))

    def in_double(params: Tree, words: tf.Tensor) -> tf.Tensor:
        rows = data.layout.unpack(words).items()
        return model.log_lik(params, {name: tf.cast(x, tf.float64) if x.dtype.is_floating else x for name, x in rows})

    judge, indices = _FiniteChecks(model, params, density, in_double), getattr(data, "indices", range(data.size))
    shown: NonfiniteTerm | None = None
    for k, words in _rows(data, _Program(density, model.dtype, params), params):
        found = judge.found(f"the log likelihood of observation {first + int(indices[k])} (counted from 0)", words)
        if found is not None and found.is_rounding:
            return found
        shown = shown or found
    return shown


def _rows(data: Data, of_block: _Program, params: Tree) -> Iterator[tuple[int, np.ndarray]]:
    """Some observations with terms or gradients that are not finite: their numbers, and their packed rows."""
    size, tried = min(block_size(data), BLOCK, data.size), 0
    for start in range(0, min(data.size, SEARCHED), size):
        words = aligned_zeros(min(size, data.size - start), data.layout.width)
        data.read(start, words)
        low = 0
        while low < len(words) and not _are_finite(of_block, params, words[low:], size):
            high = len(words)
            while high - low > 1:
                middle = (low + high) // 2
                finite = _are_finite(of_block, params, words[low:middle], size)
                low, high = (middle, high) if finite else (low, middle)
            yield start + low, words[low:high]
            low, tried = high, tried + 1
            if tried == TRIED:
                return


def _are_finite(of_block: _Program, params: Tree, words: np.ndarray, size: int) -> bool:
    """Whether the rows are finite; they are repeated up to `size`, so that there is only one program."""
    return of_block(params, words[np.arange(size) % len(words)]).is_finite


def _sentences(found: NonfiniteTerm, shown: Tree, dtype: tf.DType, step: str) -> str:
    where = ", ".join(f"{name!r}: {_numbers(np.asarray(x))}" for name, x in shown.items())
    also = f" If these params are implausible, decrease {step}." if step else ""
    return f"{found.what} {found.value} at params {{{where}}}. {_cause(found, dtype.name)}{also}"


def _cause(found: NonfiniteTerm, dtype: str) -> str:
    value, double = found.value.value, found.double
    if double is not None and found.is_rounding:
        is_then = "that gradient is finite" if np.isfinite(value) else f"it is {double.value:.3g}"
        return (
            f"In float64 {is_then}: {dtype} rounds a number too far, such as a probability to 0 or 1. Compute on the "
            f"scale of logits or logarithms, with {STABLE}, or use dtype='float64'."
        )
    if np.isfinite(value):
        return (
            "A derivative is infinite there, such as that of tf.sqrt or tf.norm at 0. Even in the branch of tf.where "
            "that is not taken, it makes the gradient NaN: give both branches arguments within their domain."
        )
    if found.outside is not None:
        return (
            f"It is finite for positive values of {found.outside!r}: declare its domain in transforms, such as "
            f"transforms={{{found.outside!r}: 'positive'}}, or 'simplex' for probabilities."
        )
    either = "It is not finite in float64 either: is" if double is not None else "Is"
    return (
        f"{either} it the logarithm of 0 or of a negative number, a division by 0, or a parameter outside its "
        f"domain? {STABLE} avoid the first two, transforms the last."
    )


def _numbers(x: np.ndarray) -> str:
    if x.size > SHOWN:
        return f"{x.size} elements from {x.min():.3g} to {x.max():.3g}"
    return np.array2string(x, separator=", ", formatter={"float_kind": lambda number: f"{number:.3g}"})
