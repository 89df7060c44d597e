"""The arguments of a sampler, checked and converted: here camelCase becomes snake_case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import process, random
from sgmcmc.core.checksum import checksum
from sgmcmc.core.precision import require_held, warn_of_lost_noise
from sgmcmc.core.schedules import Schedule, exploring, first
from sgmcmc.dataset.data import Data
from sgmcmc.dataset.elsewhere import Elsewhere
from sgmcmc.dataset.entry import described, first_non_finite, numeric
from sgmcmc.dataset.memory import InMemory
from sgmcmc.model import Model
from sgmcmc.run.curvature import Curvature
from sgmcmc.run.gibbs import GibbsStep
from sgmcmc.samplers._checks import (
    POSITIVE,
    STEPSIZE,
    Rule,
    is_integer,
    require_count,
    require_flag,
    require_number,
)
from sgmcmc.samplers._dataset import checked_dataset
from sgmcmc.samplers._gibbs import checked_gibbs
from sgmcmc.samplers._indices import attempt, gathers, require_in_range
from sgmcmc.samplers._minibatch import Minibatches, checked_minibatches
from sgmcmc.samplers._preconditioner import AUTO, checked_preconditioner
from sgmcmc.samplers._trial import Trial
from sgmcmc.samplers.subsampling import adaptive, preferential

Stepsize = float | str | Schedule | Mapping[str, float | Schedule]
PerParameter = float | Mapping[str, float]

DTYPES = {"float32": tf.float32, "float64": tf.float64}
EXACT = 2**53  # up to here every integer has its own float
SCHEDULE_AT = (0.0, 1.0, 100.0, 10_000.0, 1_000_000.0)  # iterations at which schedules are compared


@dataclass
class Choices:
    """The choices of model, minibatch, gradient and dynamics that every sampler has.

    Each is checked on first use.
    """

    sampler: str
    logLik: Callable
    dataset: Any
    params: Mapping[str, Any]
    stepsize: Stepsize
    logPrior: Callable | None
    minibatchSize: float | adaptive
    seed: int | None
    subsampling: Any
    integers: Sequence[str]
    dtype: str
    nChains: int | None
    starts: Any
    sharedMinibatch: bool
    preconditioner: Any
    tolerance: float
    temperature: float
    gibbs: Callable | None

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
        seed: Any = self.seed  # R's numbers are doubles
        if not (is_integer(seed) and 0 <= seed < 2**64) and not (
            isinstance(seed, float) and seed.is_integer() and 0 <= seed < EXACT
        ):
            raise self.refuse("seed", "be None or an integer from 0 to 2**64 - 1", repr(self.seed))
        return int(self.seed)

    @cached_property
    def start(self) -> dict[str, np.ndarray]:
        """`params` as arrays of the float type."""
        if (
            not isinstance(self.params, Mapping)
            or not self.params
            or not all(isinstance(name, str) for name in self.params)
        ):
            raise self.refuse("params", "be a dict with at least one entry and names as keys", described(self.params))
        return {name: self._start_of(f"params[{name!r}]", value) for name, value in self.params.items()}

    def _start_of(self, label: str, value: Any) -> np.ndarray:
        array = numeric(label, self.sampler, value)
        if array.size == 0:
            raise self.refuse(label, "have at least one element", f"shape {array.shape}")
        with np.errstate(over="ignore"):
            array = array.astype(self.float_type.as_numpy_dtype)
        if not np.isfinite(array).all():
            raise self.refuse(label, f"be finite in {self.dtype}", first_non_finite(array))
        return array

    @cached_property
    def step_of_user(self) -> GibbsStep | None:
        """`gibbs`, checked by a trial."""
        return None if self.gibbs is None else checked_gibbs(self)

    @property
    def moved_by_user(self) -> frozenset[str]:
        """The parameters that `gibbs` moves."""
        return frozenset() if self.step_of_user is None else self.step_of_user.moves

    @property
    def automatic(self) -> bool:
        """Whether the stepsize is to be found."""
        return isinstance(self.stepsize, str) and self.stepsize == AUTO

    @cached_property
    def curvature(self) -> Curvature:
        """`preconditioner` and `tolerance`."""
        preconditioner = checked_preconditioner(self.sampler, self.preconditioner, self.start, self.automatic)
        rule = (lambda x: 1e-3 <= x <= 1, "a number from 0.001 to 1")
        tolerance = require_number("tolerance", self.sampler, self.tolerance, rule)
        weighs = isinstance(self.subsampling, preferential) and self.subsampling.weights is None
        return Curvature(preconditioner, tolerance if self.automatic else None, weighs)

    @cached_property
    def stepsizes(self) -> dict[str, float | Schedule]:
        """`stepsize`, one for each parameter; NaN if it is to be found."""
        if self.automatic:
            return dict.fromkeys(self.start, np.nan)
        if isinstance(self.stepsize, str):
            raise self.refuse(
                "stepsize",
                "be 'auto', a positive number, or a schedule such as polynomial(h, a, b)",
                repr(self.stepsize),
            )
        stepsizes = self._for_each("stepsize", self.stepsize, self._stepsize)
        positions = self.chain_starts if isinstance(self.chain_starts, dict) else self.start
        by_gradients = self.start.keys() - self.moved_by_user
        if self.curvature.preconditioner is None:
            warn_of_lost_noise(
                self.sampler,
                {name: first(eps, self.float_type) ** 0.5 for name, eps in stepsizes.items() if name in by_gradients},
                positions,
            )
        return stepsizes

    def per_parameter(self, argument: str, value: Any, rule: Rule) -> dict[str, float]:
        """A number for all parameters, or a dict with one for each, as a dict."""
        return self._for_each(argument, value, lambda label, x: self.number(label, x, rule))

    def number(self, label: str, value: Any, rule: Rule) -> float:
        """One number that the rule allows, and that the float type holds."""
        number = require_number(label, self.sampler, value, rule)
        return require_held(label, self.sampler, number, np.dtype(self.float_type.as_numpy_dtype))

    def _for_each(self, argument: str, value: Any, check: Callable[[str, Any], Any]) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            return dict.fromkeys(self.start, check(argument, value))
        wanted = self.start.keys() - self.moved_by_user
        if not wanted <= set(value) <= self.start.keys():
            raise self.refuse(argument, f"have the keys of params, {sorted(wanted)}", f"keys {sorted(map(str, value))}")
        each = {name: check(f"{argument}[{name!r}]", value[name]) for name in self.start if name in value}
        unused = next(iter(each.values()))  # for parameters that gibbs moves
        return {name: each.get(name, unused) for name in self.start}

    def _stepsize(self, label: str, value: Any) -> float | Schedule:
        if not callable(value):
            return self.number(label, value, STEPSIZE)
        self._try_schedule(label, value)
        return value

    def _try_schedule(self, label: str, schedule: Schedule) -> None:
        """Try a schedule at iteration 0, as the compiled loop calls it; later values are not checked."""
        allowed, must = STEPSIZE
        traced = tf.function(lambda k: tf.convert_to_tensor(schedule(k), dtype_hint=self.float_type), autograph=False)
        try:
            at_zero = traced.get_concrete_function(tf.TensorSpec([], self.float_type))
            value = np.asarray(at_zero(tf.constant(0, self.float_type)), np.float64)
        except Exception as error:
            raise ValueError(
                f"{label} of {self.sampler} must be {must}, in TensorFlow operations of the iteration; it raised "
                f"{type(error).__name__}: {error}"
            ) from error
        if value.shape != () or not np.isfinite(value) or not allowed(float(value)):
            raise self.refuse(label, f"be {must}", f"a schedule that begins with {value}")

    @cached_property
    def n_chains(self) -> int | None:
        """`nChains`, checked."""
        return None if self.nChains is None else require_count("nChains", self.sampler, self.nChains, at_least=1)

    @cached_property
    def chain_starts(self) -> float | dict[str, np.ndarray] | None:
        """`starts`: None, a standard deviation, or the positions {name: [C, ...]}."""
        if self.starts is None:
            return None
        if self.n_chains is None:
            raise self.refuse("starts", "come with nChains", "nChains=None")
        if not isinstance(self.starts, Mapping):
            must = "None, a standard deviation, or a dict of arrays with nChains on the first axis"
            return self.number("starts", self.starts, (lambda s: 0 <= s < 1e30, must))
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
    def data(self) -> Data:
        """`dataset`, in memory or on disk."""
        return checked_dataset(self.sampler, self.dataset, self.integers, np.dtype(self.float_type.as_numpy_dtype))

    @property
    def reshuffled(self) -> bool:
        """Whether the minibatches of an epoch share no observation, so that their noises are dependent."""
        return isinstance(self.subsampling, str) and self.subsampling == "reshuffled"

    @cached_property
    def minibatches(self) -> Minibatches:
        """`minibatchSize` and `subsampling` together."""
        return checked_minibatches(self.sampler, self.minibatchSize, self.subsampling, self.data.size, self.float_type)

    @cached_property
    def model(self) -> Model:
        """The posterior, after a trial of the user's functions on abstract inputs and a few observations."""
        process.use()
        if not callable(self.logLik):
            raise self.refuse("logLik", "be a function of (params, dataset)", repr(self.logLik))
        if self.logPrior is not None and not callable(self.logPrior):
            raise self.refuse("logPrior", "be None or a function of params", repr(self.logPrior))
        params = {name: tf.TensorSpec(theta.shape, self.float_type) for name, theta in self.start.items()}
        trial = Trial(self.sampler, params, self.data, self.minibatches.n, self.float_type)
        returns = trial.log_lik(self.logLik)
        if self.logPrior is not None:
            trial.log_prior(self.logPrior)
        log_lik, log_prior = self.logLik, self.logPrior
        if (power := 1 / require_number("temperature", self.sampler, self.temperature, POSITIVE)) != 1:
            log_lik, log_prior = _times(power, log_lik), log_prior and _times(power, log_prior)
        model = Model(log_lik, log_prior, self.data, returns, self.float_type)
        trial.uses_all_parameters(model, but=self.moved_by_user)
        if gathers(self.logLik, params, self.data.layout.specs([self.minibatches.n])):
            self._require_in_range()
        return model

    def _require_in_range(self) -> None:
        """Check indices now for data in memory, and for other data when they are read."""
        attempting = attempt(self.sampler, self.logLik, self.start)
        if isinstance(self.data, InMemory):
            require_in_range(attempting, self.data)
        elif isinstance(self.data, Elsewhere):
            self.data.watch(attempting)

    def _checksum_of_matrix(self) -> str:
        """The checksum of the given matrix; rounding of its root depends on the machine."""
        given = self.preconditioner
        entries = given if isinstance(given, Mapping) else {"": given}
        return "matrix " + " ".join(checksum(np.asarray(entries[name], np.float64)) for name in sorted(entries))

    @property
    def settings(self) -> dict[str, Any]:
        """What the user chose, by R's names and as JSON."""
        starts = self.chain_starts
        given = self.curvature.preconditioner
        return {
            "sampler": self.sampler,
            "parameters": sorted(self.start),
            "N": self.data.size,
            "stepsize": AUTO
            if self.automatic
            else {name: _described(eps, self.float_type) for name, eps in self.stepsizes.items()},
            "tolerance": self.curvature.tolerance,
            "temperature": float(self.temperature),
            "preconditioner": self._checksum_of_matrix() if isinstance(given, np.ndarray) else given,
            "seed": self.random_seed,
            "integers": sorted(self.integers),
            "dtype": self.dtype,
            "nChains": self.n_chains,
            "starts": {k: checksum(v) for k, v in starts.items()} if isinstance(starts, dict) else starts,
            "sharedMinibatch": self.shared_minibatch,
            **self.minibatches.settings,
        }


def _times(power: float, function: Callable) -> Callable:
    return lambda *given: power * function(*given)


def _described(stepsize: float | Schedule, dtype: tf.DType) -> Any:
    """A number, or values that identify a schedule in any process."""
    if not callable(stepsize):
        return stepsize
    values = {"schedule": [_value_at(stepsize, tf.constant(k, dtype)) for k in SCHEDULE_AT]}
    return values | {key: eps.explorationFraction for key, eps in exploring({"explorationFraction": stepsize}).items()}


def _value_at(schedule: Schedule, iteration: tf.Tensor) -> float | None:
    try:
        return float(schedule(iteration))
    except Exception:  # such as a table that is shorter
        return None
