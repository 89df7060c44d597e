"""Checks and conversions of the samplers' arguments, from camelCase to snake_case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.errors import attempted, is_integer, refused, require_count, require_held
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.tracing import trace
from sgmcmc.dataset.arrays import described, n_masked

DTYPES = {"float32": tf.float32, "float64": tf.float64}
LAST_STEP = 2**32
LAST_CHAIN = 2**31 - 1
AUTO = "auto"
EXACT = 2**53  # up to here a float holds every integer

Rule = tuple[Callable[[float], bool], str]
"""A test of a number, and the words for the numbers that pass it."""

POSITIVE: Rule = (lambda x: x > 0, "a positive number")
STEPSIZE: Rule = (lambda eps: eps > 0, "a positive number or a schedule such as polynomial(h, a, b)")
FRICTION: Rule = (lambda alpha: 0 < alpha <= 1, "a number in (0, 1]")
FRACTION: Rule = (lambda x: 0 < x < 1, "a number between 0 and 1")
DECAY: Rule = (lambda beta: 0 <= beta < 1, "a number from 0 to below 1")
DIFFUSION: Rule = (
    lambda a: 0 < a < 0.5,
    "a positive number below 0.5, since chains have no equilibrium at 0.5 or above",
)


def is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def require_number(label: str, of: str, value: Any, rule: Rule) -> float:
    """The value as a float, if it is one number that the rule allows."""
    allowed, must = rule
    scalar = isinstance(value, Real | np.number) and not isinstance(value, bool)
    if not scalar and isinstance(value, np.ndarray | tf.Tensor) and np.ndim(value) == 0 and not n_masked(value):
        scalar, value = True, np.asarray(value).item()
    try:
        number = float(value) if scalar else np.nan
    except OverflowError:  # an integer too large for a float
        number = np.inf
    if not np.isfinite(number) or not allowed(number):
        raise refused(of, label, f"be {must}", described(value))
    return number


def require_float_type(of: str, dtype: Any) -> tf.DType:
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise refused(of, "dtype", "be 'float32' or 'float64'", repr(dtype))
    return DTYPES[dtype]


def require_seed(of: str, seed: Any) -> int:
    is_whole = isinstance(seed, float) and seed.is_integer() and seed < EXACT  # R's numbers are doubles
    if not (is_integer(seed) or is_whole) or not 0 <= seed < 2**64:
        raise refused(of, "seed", "be None or an integer from 0 to 2**64 - 1", repr(seed))
    return int(seed)


def checked_chains(of: str, chains: Any) -> range:
    """The numbers of the chains, from their count or a range; one chain for None."""
    if not isinstance(chains, range):
        return range(1 if chains is None else require_count("nChains", of, chains, at_least=1))
    if chains.step != 1 or not 0 <= chains.start < chains.stop <= LAST_CHAIN:
        must = "be an integer of at least 1, or a range of chain numbers such as range(4, 8)"
        raise refused(of, "nChains", must, repr(chains))
    return chains


def require_counter(argument: str, of: str, n_iterations: int, leaps: int) -> None:
    """Refuse runs that would exhaust the counter of the random numbers."""
    if n_iterations * leaps >= LAST_STEP:
        must = "make fewer than 2**32 steps in all, or random numbers would repeat"
        raise refused(of, argument, must, f"{n_iterations} iterations of {leaps}")


class Each(NamedTuple):
    """The values of an argument for the parameters of one sampler."""

    sampler: str
    names: tuple[str, ...]
    dtype: tf.DType
    by_gibbs: frozenset[str] = frozenset()  # the parameters that need none

    def number(self, label: str, value: Any, rule: Rule) -> float:
        """One number that the rule allows and the float type can represent."""
        number = require_number(label, self.sampler, value, rule)
        return require_held(label, self.sampler, number, np.dtype(self.dtype.as_numpy_dtype))

    def numbers(self, argument: str, value: Any, rule: Rule) -> dict[str, float]:
        return self._of(argument, value, lambda label, x: self.number(label, x, rule))

    def stepsizes(self, value: Any) -> dict[str, float | Schedule]:
        return self._of("stepsize", value, self._stepsize)

    def _of(self, argument: str, value: Any, check: Callable[[str, Any], Any]) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            return dict.fromkeys(self.names, check(argument, value))
        wanted = set(self.names) - self.by_gibbs
        if wanted != set(value):
            but = f" that gibbs does not move, {sorted(wanted)}" if self.by_gibbs else f", {sorted(wanted)}"
            got = f"keys {sorted(map(str, value))}"
            raise refused(self.sampler, argument, f"have the keys of params{but}", got)
        each = {name: check(f"{argument}[{name!r}]", value[name]) for name in self.names if name in value}
        unused = next(iter(each.values()))  # for parameters that gibbs moves
        return {name: each.get(name, unused) for name in self.names}

    def _stepsize(self, label: str, value: Any) -> float | Schedule:
        """A number, or a schedule, which is tried at iteration 0 only, as the compiled loop calls it."""
        if not callable(value):
            return self.number(label, value, STEPSIZE)
        allowed, must = STEPSIZE

        def value_at(iteration: tf.Tensor) -> tf.Tensor:
            return tf.convert_to_tensor(value(iteration), dtype_hint=self.dtype)

        def first() -> np.ndarray:
            traced = trace(value_at, tf.TensorSpec([], self.dtype))
            return np.asarray(traced(tf.constant(0, self.dtype)), np.float64)

        eps = attempted(f"{label} of {self.sampler} must be {must}, in TensorFlow operations of the iteration", first)
        if eps.shape != () or not np.isfinite(eps) or not allowed(float(eps)):
            raise refused(self.sampler, label, f"be {must}", f"a schedule that begins with {eps}")
        return value
