"""Trials of the user's functions on abstract inputs, and checks that a log likelihood is a sum."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import warn_user
from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Tree
from sgmcmc.core.xla import operations
from sgmcmc.dataset import Data, aligned_zeros, spaced_rows
from sgmcmc.dataset.bundles import Bundles, column_of
from sgmcmc.dataset.remote import RemoteShards
from sgmcmc.dataset.row_groups import INSIDE, RowGroups
from sgmcmc.dataset.shards import Joined
from sgmcmc.dataset.windows import Windows
from sgmcmc.kernel.iterations import RESERVED
from sgmcmc.model import LogLik, LogPrior, Returns, dense

WHOLE, HALF = 22, 11  # observations of the two traces: the half is prime, which reveals rows that belong together
LOOKED_AT = 1000  # observations that are searched for whole numbers

RANDOM = re.compile(
    "(Random(Uniform|UniformInt|StandardNormal|Gamma|Poisson|PoissonV2|Shuffle)|(Parameterized)?TruncatedNormal|Multinomial"
    "|Rng(ReadAnd)?Skip|Stateful(Uniform|Standard|Truncated|Random).*|.*CandidateSampler)"
)  # operations that draw from TensorFlow's own generators
GATHERING = re.compile(".*(Gather|Scatter|Segment).*")
PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
OTHER_NOISE = (
    "Draw them before the run, as an entry of dataset, or use tf.random.stateless_normal and similar functions."
)
PYTHONIC = "try decorating this function with @tf.function"  # from TensorFlow's error for loops over tensors
OTHER_TYPE = {"float32": "float64", "float64": "float32"}


class Traced(NamedTuple):
    """Facts from a trace of the log likelihood of some observations, its gradient and the log prior."""

    gradient: Callable[[Tree, Tree], Tree]  # (params, data) -> the gradient of the log likelihood
    shape: tf.TensorShape  # of what logLik returned
    rows: dict[str, int | None]  # the number of rows gathered, for each parameter used only in this way
    touched: float  # the elements on which the log likelihood of an observation depends
    unused: frozenset[str]  # parameters without a gradient
    gathers: bool  # whether logLik uses indices
    pure: bool  # whether nothing calls Python or draws random numbers


@dataclass(frozen=True)
class Trial:
    """A trial of the user's functions, by one trace on `WHOLE` observations and one on `HALF` of them."""

    sampler: str
    logLik: LogLik
    logPrior: LogPrior | None
    params: dict[str, tf.TensorSpec]
    data: Data
    n: int  # observations in a minibatch
    dtype: tf.DType

    @cached_property
    def whole(self) -> Traced:
        """The trace on `WHOLE` observations, if both functions return the right types and shapes."""
        try:
            traced = self._traced(WHOLE, self.logPrior)
        except ValueError:
            # The user knows the size of a minibatch: if this size fails too, the error names it.
            self._traced(self.n, self.logPrior)
            raise
        if not traced.pure:
            given: dict[str, tuple] = {"logLik": (self.logLik, self.params, self.data.layout.specs([WHOLE]))}
            if self.logPrior is not None:
                given["logPrior"] = (self.logPrior, self.params)
            for argument, (function, *specs) in given.items():
                require_pure(f"{argument} of {self.sampler}", trace(function, *specs).graph, OTHER_NOISE)
        return traced

    @cached_property
    def half(self) -> Traced:
        """The trace on `HALF` observations, without the prior."""
        return self._traced(HALF, None)

    @cached_property
    def returns(self) -> Returns:
        """Whether `logLik` returns a sum or a vector of terms; anything else is refused."""
        if self.whole.shape.rank == self.half.shape.rank == 0:
            return Returns.SUM
        if (self.whole.shape, self.half.shape) != ([WHOLE], [HALF]):
            shape, n = self.whole.shape, WHOLE
            with contextlib.suppress(ValueError):
                shape, n = self._traced(self.n, None).shape, self.n
            raise ValueError(
                f"logLik of {self.sampler} must return a scalar, the sum over the observations, or a vector with one "
                f"term for each; got shape {shape} for a minibatch of n = {n} observations."
            )
        return Returns.TERMS

    def uses_all_parameters(self, but: Collection[str]) -> None:
        """Refuse parameters that have no gradient, except those in `but`."""
        if unused := self.whole.unused - set(but):
            raise ValueError(
                f"params of {self.sampler} must have a gradient in logLik or logPrior; got none for {sorted(unused)}, "
                "which are not used, or only by operations without a gradient."
            )

    @property
    def gathered(self) -> frozenset[str]:
        """The parameters of which `logLik` gathers the same number of rows for each observation.

        Rows that are gathered whatever the observations, or by the log prior, do not count.
        """
        few, more = self.half.rows, self.whole.rows
        return frozenset(
            name for name, k in few.items() if k is not None and (m := more.get(name)) and k * WHOLE == m * HALF
        )

    def _traced(self, n: int, log_prior: LogPrior | None) -> Traced:
        seen = _TraceLog(self.dtype)

        def gradient(params: Tree, data: Tree) -> Tree:
            with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
                tape.watch(params)
                value = seen.value_of("logLik", lambda: self.logLik(dict(params), dict(data)))
                total = tf.reduce_sum(value) if value.shape.rank else value
                prior = None
                if log_prior is not None:
                    prior = seen.value_of("logPrior", lambda: log_prior(dict(params)))
            seen.at = None
            if any(result.dtype != self.dtype for result in seen.results.values()):  # gradients make no sense
                return {}
            of_data = tape.gradient(total, params)
            of_prior = dict.fromkeys(params) if prior is None else tape.gradient(prior, params)
            seen.unused = frozenset(name for name in params if of_data[name] is None and of_prior[name] is None)
            seen.rows = {
                name: g.indices.shape[0]
                for name, g in of_data.items()
                if isinstance(g, tf.IndexedSlices) and of_prior[name] is None
            }
            seen.touched = sum(_touched(g, params[name], n) for name, g in of_data.items())
            return {name: tf.zeros_like(params[name]) if g is None else dense(g) for name, g in of_data.items()}

        rows = self.data.layout.specs([n])
        try:
            concrete = trace(gradient, self.params, rows)
        except Exception as error:
            if seen.at is None:
                raise
            inputs = (self.params, rows) if seen.at == "logLik" else (self.params,)
            given = ", ".join(map(_described, inputs))
            raise ValueError(
                f"{seen.at} of {self.sampler} must {self._must(seen.at, n)}; on {given} it raised "
                f"{_named(error)}{remedy(str(error), self.dtype, self.data)}"
            ) from error
        self._require_valid(seen)
        definition = concrete.graph.as_graph_def()
        own = [node.op for node in definition.node]
        called = [node.op for function in definition.library.function for node in function.node_def]
        gathers = any(map(GATHERING.fullmatch, own[: seen.n_operations] + called))
        pure = not any(name in PYTHON or RANDOM.fullmatch(name) for name in own + called)
        return Traced(concrete, seen.results["logLik"].shape, seen.rows, seen.touched, seen.unused, gathers, pure)

    def _must(self, argument: str, n: int) -> str:
        if argument == "logLik" and n != self.n:
            return f"take any number of observations, not only the n = {self.n} of a minibatch"
        return f"be a function in TensorFlow operations of {self.dtype.name} tensors"

    def _require_valid(self, seen: _TraceLog) -> None:
        for argument, result in seen.results.items():
            if result.dtype != self.dtype:
                advice = remedy(f"{result.dtype.name} is not {self.dtype.name}", self.dtype, self.data)
                must = f"{argument} of {self.sampler} must return {self.dtype.name}"
                raise ValueError(f"{must}; got {result.dtype.name}{advice}")
        prior = seen.results.get("logPrior")
        if prior is not None and prior.shape.num_elements() != 1:
            raise ValueError(f"logPrior of {self.sampler} must return a scalar; got shape {prior.shape}.")


@dataclass
class _TraceLog:
    """A record of one trace."""

    dtype: tf.DType
    at: str | None = None  # the user's function that is being traced
    results: dict[str, tf.TensorSpec] = field(default_factory=dict)
    n_operations: int = 0  # of logLik
    rows: dict[str, int | None] = field(default_factory=dict)
    touched: float = 0.0
    unused: frozenset[str] = frozenset()

    def value_of(self, argument: str, function: Callable[[], Any]) -> tf.Tensor:
        self.at = argument
        value = tf.convert_to_tensor(function(), dtype_hint=self.dtype)
        self.results[argument] = tf.TensorSpec(value.shape, value.dtype)
        if argument == "logLik":
            self.n_operations = len(tf.compat.v1.get_default_graph().get_operations())
        return value


def _touched(gradient: Any, theta: tf.Tensor, n: int) -> float:
    """The elements of theta on which the log likelihood of one of n observations depends, on average."""
    if gradient is None:
        return 0.0
    in_rows = gradient.values.shape.num_elements() if isinstance(gradient, tf.IndexedSlices) else None
    return theta.shape.num_elements() if in_rows is None else in_rows / n  # the number of rows may be unknown


def remedy(error: str, dtype: tf.DType, data: Data) -> str:
    """What to do about the most common mistakes."""
    if re.search(r"float(32|64) not in list of allowed values: .*int32|valid indices, got .*float", error):
        return f". Name index entries of dataset in integers, such as integers={_whole_numbers(data)}."
    if "symbolic tf.Tensor" in error and "numpy" in error.lower():
        return ". Use TensorFlow's functions, such as tf.exp in place of np.exp."
    if PYTHONIC in error:
        return ". Decorate it with @tf.function, which turns Python's loops and branches into TensorFlow's."
    if "MatMul" in error and "must be rank 2 but is rank 1" in error:
        return ". Multiply a matrix and a vector with tf.linalg.matvec(X, b); @ and tf.matmul multiply two matrices."
    other = OTHER_TYPE[dtype.name]
    if (other in error and dtype.name in error and "allowed values" not in error) or "a double tensor" in error:
        choice = f", or use dtype={other!r} for all" if other == "float64" else ""
        return f". A constant in it is {other}: make it {dtype.name}, with tf.constant(..., tf.{dtype.name}){choice}."
    return ""


def _named(error: Exception) -> str:
    """The type and text of an error, without TensorFlow's page on AutoGraph."""
    text = str(error)
    return f"{type(error).__name__}: {(text.partition('. ')[0] if PYTHONIC in text else text).rstrip('.')}"


def _whole_numbers(data: Data) -> list[str]:
    """The float entries that could be indices."""
    words = aligned_zeros(min(data.size, LOOKED_AT), data.layout.width)
    with contextlib.suppress(Exception):  # data on disk may be unreadable, and this is only a hint
        data.read(0, words)
    views = data.layout.views(words)
    return sorted({column_of(name) for name, x in views.items() if x.dtype.kind == "f" and _are_indices(x)})


def _are_indices(x: np.ndarray) -> bool:
    return bool(((x == np.floor(x)) & (x >= 0)).all())


def require_free(label: str, stats: Any) -> None:
    """Refuse statistics that are not a dict, or have reserved names."""
    if not isinstance(stats, Mapping):
        raise ValueError(f"{label} must return a dict of numbers by name from `stats`; got {stats!r}.")
    if taken := sorted(RESERVED.intersection(stats)):
        raise ValueError(f"{label} must have names of statistics other than {sorted(RESERVED)}; got {taken}.")


def require_pure(label: str, graph: Any, instead: str) -> None:
    """Refuse calls of Python, and random numbers that the seed does not govern; `instead` is advice on these."""
    require_repeatable(label, graph, instead)
    if called := sorted(PYTHON.intersection(operations(graph))):
        python = "a call of Python (tf.py_function, tf.numpy_function)"
        got = f"{', '.join(called)}, {python}, which can be neither compiled nor mapped over chains"
        raise ValueError(f"{label} must use TensorFlow operations only; got {got}.")


def require_repeatable(label: str, graph: Any, instead: str) -> None:
    if drawn := sorted(filter(RANDOM.fullmatch, operations(graph))):
        raise ValueError(
            f"{label} must not draw random numbers by itself, since seed would not govern them and the run could not "
            f"be repeated; got {', '.join(drawn)}. {instead}"
        )


def _described(specs: Mapping[str, tf.TensorSpec]) -> str:
    return "{" + ", ".join(f"{name}: {spec.dtype.name}{list(spec.shape)}" for name, spec in specs.items()) + "}"


ADDITIVE = 1e-3  # relative
# Distances from the start: a log likelihood with a prior in it, say, may look like a sum at the start itself.
AROUND = (0.0, 0.1, 1.0)
Gradient = Callable[[Tree, Tree], Tree]
NOT_A_SUM = (
    "whose gradient for some observations is not the sum of those for the two halves of them. A prior belongs in "
    "logPrior; data must come from the argument dataset alone; and entries of shapes (n, 1) and (n,) combine to a "
    "matrix [n, n]. Nor may the term of an observation use other observations: make observations of rows that belong "
    "together by groups, and of a time series by windows. A Cox partial likelihood uses other observations; a "
    "parametric or piecewise constant hazard does not."
)
A_MEAN = (
    f"looks like a mean over the observations: its gradient does not change if each of {HALF} observations is "
    "repeated. It must be their sum, as from tf.reduce_sum, or a vector with a term for each"
)


class Sums:
    """Whether gradients of the log likelihood of `WHOLE` and of `HALF` observations are sums, or means."""

    def __init__(self, whole: Gradient, half: Gradient, data: Data, start: Mapping[str, np.ndarray]) -> None:
        some = {name: x.numpy()[_in_halves(len(x))] for name, x in spaced_rows(data, WHOLE).items()}
        both, first, second = (
            {name: tf.constant(x[part]) for name, x in some.items()}
            for part in (slice(None), slice(HALF), slice(HALF, None))
        )
        twice = {name: tf.concat([x, x], axis=0) for name, x in first.items()}

        def adds_up(params: Tree) -> bool:
            one, other = _flat(half(params, first)), _flat(half(params, second))
            return not _differ(_flat(whole(params, both)), one + other, one, other)

        def is_mean(params: Tree) -> bool:  # repeating all observations changes nothing, leaving out half of them does
            once, again = _flat(half(params, first)), _flat(whole(params, twice))
            same = np.isfinite(once).all() and not _differ(once, again)
            return bool(same) and _differ(once, _flat(whole(params, both)))

        points = _around(start)
        self.add_up = all(map(adds_up, points))
        self.are_means = not self.add_up and all(map(is_mean, points))


def sums_of(trial: Trial, start: Mapping[str, np.ndarray]) -> Sums:
    """The sums for a trial, computed where the observations are."""
    if isinstance(trial.data, RemoteShards):
        return _asked_of_a_shard(sums_of, trial, trial.data, start)
    return Sums(trial.whole.gradient, trial.half.gradient, trial.data, start)


def _asked_of_a_shard(function: Callable, trial: Trial, data: RemoteShards, start: Mapping[str, np.ndarray]) -> Any:
    """``function(trial, start)`` with the observations of the first shard, where they are."""
    return data.parts[0].asked(_of_shard, (function, replace(trial), start))  # without what was traced here


def _of_shard(data: Data, given: tuple[Callable, Trial, Mapping[str, np.ndarray]]) -> Any:
    function, trial, start = given
    return function(replace(trial, data=data), start)


def require_sum(name: str, sums: Sums, of: str) -> None:
    """Refuse a log likelihood that is not a sum, which `of` needs."""
    if sums.are_means:
        raise ValueError(f"logLik of {name} {A_MEAN}.")
    if not sums.add_up:
        raise ValueError(f"logLik of {name} must be a sum over the observations, for {of}; got one {NOT_A_SUM}")


def warn_unless_sum(name: str, sums: Sums) -> None:
    if sums.are_means:
        warn_user(
            f"logLik of {name} {A_MEAN}; otherwise the posterior is that of only N/n observations, with n the size of "
            "a minibatch, and its standard deviations are about sqrt(n) times too large."
        )
    elif not sums.add_up:
        warn_user(f"logLik of {name} should be a sum over the observations; got one {NOT_A_SUM}")


def require_masked(trial: Trial, start: Mapping[str, np.ndarray]) -> None:
    """Refuse a log likelihood of data with padding that counts it, or steps of a series outside their window."""
    if isinstance(trial.data, RemoteShards):
        return _asked_of_a_shard(require_masked, trial, trial.data, start)
    data = trial.data.parts[0] if isinstance(trial.data, Joined) else trial.data
    assert isinstance(data, RowGroups | Bundles)
    some, otherwise = data.shortest(WHOLE)
    outside = some | {INSIDE: tf.zeros_like(some[INSIDE])} if isinstance(data, Windows) else {}
    for params in _around(start):
        gradient = _flat(trial.whole.gradient(params, some))
        if any(_differ(gradient, _flat(trial.whole.gradient(params, other))) for other in otherwise):
            raise ValueError(
                f"logLik of {trial.sampler} must not depend on padding; got another gradient for other padding. "
                "Multiply what is summed over rows by dataset['inside'], and in a softmax replace padding, as by "
                "tf.where(dataset['inside'] > 0, x, -1e30)."
            )
        if outside and _differ(gradient, gradient - _flat(trial.whole.gradient(params, outside))):
            raise ValueError(
                f"logLik of {trial.sampler} must count only those steps of a window for which dataset['inside'] is 1; "
                "got a gradient other than 0 for windows without any. Multiply the predictive log density of each step "
                "by dataset['inside']."
            )


def _around(start: Mapping[str, np.ndarray]) -> list[Tree]:
    rng = np.random.default_rng(0)

    def near(theta: np.ndarray, scale: float) -> tf.Tensor:
        return tf.constant((theta + scale * rng.normal(size=theta.shape)).astype(theta.dtype))

    return [{name: near(theta, scale) for name, theta in start.items()} for scale in AROUND]


def _flat(gradient: Tree) -> np.ndarray:
    return np.concatenate([np.ravel(gradient[name]) for name in sorted(gradient)])


def _differ(x: np.ndarray, y: np.ndarray, *terms: np.ndarray) -> bool:
    """Whether x and y differ by more than rounding, that of their terms included."""
    size = max(np.abs(one).max() for one in (x, y, *terms))
    return bool(np.isfinite(size) and np.abs(x - y).max() > ADDITIVE * size)


def _in_halves(n: int) -> np.ndarray:
    """`WHOLE` indices of n observations, from the first half of them and then from the second."""
    # If n is smaller, indices are repeated, since a sum adds up for these too, but none is in both halves.
    steps = np.arange(HALF)
    return np.concatenate([steps * max(n // 2, 1) // HALF, n // 2 + steps * (n - n // 2) // HALF])
