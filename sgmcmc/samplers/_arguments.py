"""What users pass, checked and converted: here camelCase becomes snake_case, and every bad argument is named.

All errors have one shape: *argument* of *function* must be *what would work*; got *what came*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import random
from sgmcmc.core.checksum import checksum
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.types import Batch, Minibatch
from sgmcmc.dataset import Dataset
from sgmcmc.minibatch import uniform
from sgmcmc.minibatch.weighted import weighted
from sgmcmc.model import Model, Returns

Stepsize = float | Schedule | Mapping[str, float | Schedule]
PerParameter = float | Mapping[str, float]

DTYPES = {"float32": tf.float32, "float64": tf.float64}
SCHEDULE_AT = (0.0, 1.0, 100.0, 10_000.0, 1_000_000.0)  # iterations by which schedules are compared
LAST_STEP = 2**32
TRACED_ROWS = 1009  # a length that no parameter has, to tell a vector of terms


@dataclass
class Arguments:
    """The arguments that all samplers share; each is checked when it is first wanted."""

    sampler: str
    logLik: Callable
    dataset: Mapping[str, Any]
    params: Mapping[str, Any]
    logPrior: Callable | None
    minibatchSize: float
    seed: int | None
    subsampling: Any
    integers: Sequence[str]
    dtype: str
    nChains: int | None = None
    starts: Any = None
    sharedMinibatch: bool = False

    def refuse(self, argument: str, must: str, got: Any) -> ValueError:
        """The error for a bad argument."""
        return ValueError(f"{argument} of {self.sampler} must {must}; got {got}.")

    @cached_property
    def float_type(self) -> tf.DType:
        """`dtype` as a TensorFlow type."""
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            raise self.refuse("dtype", "be 'float32' or 'float64'", repr(self.dtype))
        return DTYPES[self.dtype]

    @cached_property
    def random_seed(self) -> int:
        """`seed`, or a fresh one."""
        if self.seed is None:
            return random.fresh_seed()
        if not _is_integer(self.seed) or not 0 <= self.seed < 2**64:
            raise self.refuse("seed", "be None or an integer from 0 to 2**64 - 1", repr(self.seed))
        return int(self.seed)

    @cached_property
    def start(self) -> dict[str, np.ndarray]:
        """`params` as arrays of the float type."""
        self._require_named("params", self.params)
        return {name: self._start_of(f"params[{name!r}]", value) for name, value in self.params.items()}

    def _start_of(self, label: str, value: Any) -> np.ndarray:
        array = self._numeric(label, value)
        if array.size == 0:
            raise self.refuse(label, "have at least one element", f"shape {array.shape}")
        with np.errstate(over="ignore"):
            array = array.astype(self.float_type.as_numpy_dtype)
        if not np.isfinite(array).all():
            raise self.refuse(label, f"be finite in {self.dtype}", _first_non_finite(array))
        return array

    @cached_property
    def n_chains(self) -> int | None:
        """`nChains`, checked."""
        return None if self.nChains is None else require_count("nChains", self.sampler, self.nChains, at_least=1)

    @cached_property
    def chain_starts(self) -> float | dict[str, np.ndarray] | None:
        """`starts`: None, a standard deviation, or the positions {name: [C, ...]}."""
        must = "be None, a standard deviation, or a dict of arrays with nChains on the first axis"
        if self.starts is not None and self.n_chains is None:
            raise self.refuse("starts", "come with nChains", "nChains=None")
        if self.starts is None or not isinstance(self.starts, Mapping):
            return (
                self.starts
                if self.starts is None
                else self.number("starts", self.starts, lambda s: 0 <= s < 1e30, must[3:])
            )
        if set(self.starts) != set(self.start):
            raise self.refuse(
                "starts", f"have the keys of params, {sorted(self.start)}", f"keys {sorted(map(str, self.starts))}"
            )
        starts = {name: self._start_of(f"starts[{name!r}]", value) for name, value in self.starts.items()}
        for name, array in starts.items():
            shape = (self.n_chains, *self.start[name].shape)
            if array.shape != shape:
                raise self.refuse(f"starts[{name!r}]", f"have shape {shape}, one start for each chain", array.shape)
        return starts

    @property
    def shared_minibatch(self) -> bool:
        """`sharedMinibatch`, checked."""
        shared = require_flag("sharedMinibatch", self.sampler, self.sharedMinibatch)
        if shared and self.n_chains is None:
            raise self.refuse("sharedMinibatch", "come with nChains", "nChains=None")
        return shared

    @cached_property
    def data(self) -> Dataset:
        """`dataset`, packed."""
        self._require_named("dataset", self.dataset)
        names = self.integers
        if (
            isinstance(names, str)
            or not isinstance(names, Collection)
            or any(x not in list(self.dataset) for x in names)
        ):
            raise self.refuse("integers", f"list names in dataset, {sorted(self.dataset)}", repr(self.integers))
        arrays = {name: self._entry(name, value) for name, value in self.dataset.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise self.refuse("dataset", "have entries of one length, the number of observations", lengths)
        if 0 in lengths.values():
            raise self.refuse("dataset", "have at least one observation", lengths)
        return Dataset(arrays)

    def _entry(self, name: str, value: Any) -> np.ndarray:
        label = f"dataset[{name!r}]"
        array = self._numeric(label, value)
        if array.ndim == 0:
            raise self.refuse(label, "have its observations on a first axis", f"the single number {array}")
        if name in self.integers:
            return self._integer_entry(label, array)
        float_type = np.dtype(self.float_type.as_numpy_dtype)
        exact = 2 ** (np.finfo(float_type).nmant + 1)
        if array.dtype.kind in "iu" and array.size and max(-int(array.min()), int(array.max())) > exact:
            raise self.refuse(
                label,
                f"hold integers that {float_type} represents exactly, up to {exact} "
                f"(or name it in integers=, or use dtype='float64')",
                f"values up to {max(-int(array.min()), int(array.max()))}",
            )
        with np.errstate(over="ignore"):
            converted = array.astype(float_type, copy=False)
        if not np.isfinite(converted).all():
            raise self.refuse(label, f"be finite in {float_type}", _first_non_finite(converted))
        return converted

    def _integer_entry(self, label: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind not in "iu":
            raise self.refuse(label, "have an integer type, since it is named in integers", f"dtype {array.dtype}")
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise self.refuse(label, "fit into int64", f"values up to {array.max()}")
        return array.astype(np.int64 if array.dtype in (np.int64, np.uint32, np.uint64) else np.int32, copy=False)

    @cached_property
    def n(self) -> int:
        """`minibatchSize` as a number of observations."""
        size, n_data = self.minibatchSize, self.data.size
        must = f"be an integer in [1, N] or a proportion in (0, 1) of N = {n_data} observations"
        if isinstance(size, bool) or not isinstance(size, Real | np.number) or not np.isfinite(size):
            raise self.refuse("minibatchSize", must, repr(size))
        if 0 < size < 1:
            n = round(float(size) * n_data)
            if n == 0:
                raise self.refuse("minibatchSize", must, f"{size!r}, which rounds to 0 observations")
            return n
        if size != int(size) or not 1 <= size <= n_data:
            raise self.refuse("minibatchSize", must, repr(size))
        return int(size)

    @cached_property
    def minibatch(self) -> Minibatch:
        """`subsampling` and `minibatchSize` together."""
        if isinstance(self.subsampling, str):
            schemes = {"uniform": uniform.without_replacement, "withReplacement": uniform.with_replacement}
            if self.subsampling not in schemes:
                raise self.refuse(
                    "subsampling", "be 'uniform', 'withReplacement' or N positive weights", repr(self.subsampling)
                )
            return schemes[self.subsampling](self.data.size, self.n)
        weights = self._numeric("subsampling", self.subsampling).astype(np.float64)
        if weights.shape != (self.data.size,):
            raise self.refuse(
                "subsampling", f"give one weight for each of {self.data.size} observations", weights.shape
            )
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise self.refuse("subsampling", "give positive finite weights", f"a smallest weight of {weights.min()}")
        return weighted(weights / weights.sum(), self.n, self.float_type)

    @cached_property
    def model(self) -> Model:
        """The posterior, after a trial of the user's functions on abstract inputs."""
        if not callable(self.logLik):
            raise self.refuse("logLik", "be a function of (params, dataset)", repr(self.logLik))
        if self.logPrior is not None and not callable(self.logPrior):
            raise self.refuse("logPrior", "be None or a function of params", repr(self.logPrior))
        params = {name: tf.TensorSpec(theta.shape, self.float_type) for name, theta in self.start.items()}
        rows = self.data.specs(TRACED_ROWS)
        log_lik = self._trial("logLik", self.logLik, (params, rows))
        if self.logPrior is not None:
            log_prior = self._trial("logPrior", self.logPrior, (params,))
            if log_prior.shape.num_elements() != 1:
                raise self.refuse("logPrior", "return a scalar", f"shape {log_prior.shape}")
        shapes = {(): Returns.SUM, (TRACED_ROWS,): Returns.TERMS}
        shape = tuple(log_lik.shape)
        if shape not in shapes:
            raise self.refuse(
                "logLik",
                "return a scalar, the sum over the observations, or a vector with one term for each",
                f"shape {shape} for {TRACED_ROWS} observations",
            )
        model = Model(self.logLik, self.logPrior, self.data, shapes[shape], self.float_type)
        self._require_used(model, params, rows)
        return model

    def settings(self, stepsize: Mapping[str, float | Schedule]) -> dict[str, Any]:
        """What the user chose, by R's names and as JSON."""
        starts = self.chain_starts
        weights = None if isinstance(self.subsampling, str) else np.asarray(self.subsampling, np.float64)
        return {
            "sampler": self.sampler,
            "N": self.data.size,
            "minibatchSize": self.n,
            "stepsize": {name: _described(eps, self.float_type) for name, eps in stepsize.items()},
            "seed": self.random_seed,
            "subsampling": self.subsampling if weights is None else f"weights {checksum(weights)}",
            "integers": sorted(self.integers),
            "dtype": self.dtype,
            "nChains": self.n_chains,
            "starts": {k: checksum(v) for k, v in starts.items()} if isinstance(starts, dict) else starts,
            "sharedMinibatch": self.shared_minibatch,
        }

    def _trial(self, argument: str, function: Callable, inputs: tuple) -> tf.Tensor:
        try:
            traced = tf.function(
                lambda *x: tf.convert_to_tensor(function(*x), dtype_hint=self.float_type), autograph=False
            )
            output = traced.get_concrete_function(*inputs).structured_outputs
        except Exception as error:
            given = ", ".join(_describe(specs) for specs in inputs)
            raise ValueError(
                f"{argument} of {self.sampler} must be a function in TensorFlow operations of {self.float_type.name} "
                f"tensors; on {given} it raised {type(error).__name__}: {error}"
            ) from error
        if output.dtype != self.float_type:
            raise self.refuse(argument, f"return {self.float_type.name}", output.dtype.name)
        return output

    def _require_used(self, model: Model, params: dict, rows: dict) -> None:
        unused: list[str] = []

        def gradient(params: dict, rows: dict) -> None:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(params)
                value = model.log_density(params, Batch(rows, 1.0))
            gradients = tape.gradient(value, params)
            unused.extend(name for name, g in gradients.items() if g is None)

        tf.function(gradient, autograph=False).get_concrete_function(params, rows)
        if unused:
            raise self.refuse("params", "be used by logLik or logPrior, differentiably", f"unused {sorted(unused)}")

    def per_parameter(
        self, argument: str, value: Any, allowed: Callable[[float], bool], must: str
    ) -> dict[str, float | Schedule]:
        """A number or schedule for all parameters, or a dict with one for each, as a dict."""
        if isinstance(value, Mapping):
            if set(value) != set(self.start):
                raise self.refuse(
                    argument, f"have the keys of params, {sorted(self.start)}", f"keys {sorted(map(str, value))}"
                )
            labels = {name: f"{argument}[{name!r}]" for name in self.start}
            return {name: self._one(labels[name], value[name], argument, allowed, must) for name in self.start}
        return dict.fromkeys(self.start, self._one(argument, value, argument, allowed, must))

    def _one(
        self, label: str, value: Any, argument: str, allowed: Callable[[float], bool], must: str
    ) -> float | Schedule:
        if argument == "stepsize" and callable(value):
            self._try_schedule(label, value, allowed, must)
            return value
        return self.number(label, value, allowed, must)

    def _try_schedule(self, label: str, schedule: Schedule, allowed: Callable[[float], bool], must: str) -> None:
        """At iteration 0, as the compiled loop will call it; whether it stays `allowed` is for its author to know."""
        traced = tf.function(
            lambda k: tf.convert_to_tensor(schedule(k), dtype_hint=self.float_type),
            autograph=False,
            reduce_retracing=True,
        )
        try:
            value = np.asarray(traced(tf.constant(0, self.float_type)), np.float64)
        except Exception as error:
            raise ValueError(
                f"{label} of {self.sampler} must be {must}, in TensorFlow operations of the iteration; it raised "
                f"{type(error).__name__}: {error}"
            ) from error
        if value.shape != () or not np.isfinite(value) or not allowed(float(value)):
            raise self.refuse(label, f"be {must}", f"a schedule that begins with {value}")

    def number(self, label: str, value: Any, allowed: Callable[[float], bool], must: str) -> float:
        """One number that is `allowed`."""
        scalar = isinstance(value, Real | np.number) and not isinstance(value, bool)
        if not scalar and isinstance(value, np.ndarray | tf.Tensor) and np.ndim(value) == 0:
            scalar, value = True, np.asarray(value).item()
        if not scalar or not np.isfinite(value) or not allowed(float(value)):
            raise self.refuse(label, f"be {must}", repr(value))
        return float(value)

    def _require_named(self, argument: str, value: Any) -> None:
        if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
            raise self.refuse(argument, "be a dict with at least one entry and names as keys", repr(value)[:200])

    def _numeric(self, label: str, value: Any) -> np.ndarray:
        try:
            array = np.asarray(value)
        except Exception as error:
            raise self.refuse(label, "be an array of numbers", f"{type(value).__name__} ({error})") from error
        if array.dtype.kind == "b":
            return array.astype(np.int8)
        if array.dtype.kind not in "iuf":
            raise self.refuse(label, "be an array of real numbers", f"dtype {array.dtype}")
        return array


def _described(stepsize: float | Schedule, dtype: tf.DType) -> Any:
    """A number, or what tells one schedule from another in any process."""
    if not callable(stepsize):
        return stepsize
    return {"schedule": [_value_at(stepsize, tf.constant(k, dtype)) for k in SCHEDULE_AT]}


def _value_at(schedule: Schedule, iteration: tf.Tensor) -> float | None:
    try:
        return float(schedule(iteration))
    except Exception:  # such as a table that is not as long
        return None


def require_flag(argument: str, of: str, value: Any) -> bool:
    """True or False, as bool or NumPy bool."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{argument} of {of} must be True or False; got {value!r}.")
    return bool(value)


def require_count(argument: str, of: str, value: Any, at_least: int) -> int:
    """An integer; floats such as 1e4 that are one are welcome."""
    whole = _is_integer(value) or (isinstance(value, float) and np.isfinite(value) and value == int(value))
    if not whole or value < at_least:
        raise ValueError(f"{argument} of {of} must be an integer of at least {at_least}; got {value!r}.")
    return int(value)


def require_counter(argument: str, of: str, n_iterations: int, steps: int) -> None:
    """Not more gradients than can be told apart."""
    if n_iterations * steps >= LAST_STEP:
        raise ValueError(
            f"{argument} of {of} must make fewer than 2**32 steps in all, since random numbers would repeat; "
            f"got {n_iterations} iterations of {steps}."
        )


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral | np.integer) and not isinstance(value, bool)


def _first_non_finite(array: np.ndarray) -> str:
    where = np.argwhere(~np.isfinite(array))[0]
    return f"{array[tuple(where)]} at index {tuple(int(i) for i in where)}"


def _describe(specs: dict[str, tf.TensorSpec]) -> str:
    return "{" + ", ".join(f"{name}: {spec.dtype.name}{list(spec.shape)}" for name, spec in specs.items()) + "}"
