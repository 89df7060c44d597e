"""A number or a schedule for each parameter, from one for all or a dict with one for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import attempted
from sgmcmc.core.precision import require_held
from sgmcmc.core.schedules import Schedule
from sgmcmc.core.tracing import trace
from sgmcmc.samplers._checks import STEPSIZE, Rule, require_number


class Each(NamedTuple):
    """The values of an argument for the parameters of one sampler.

    `by_gibbs` are those that need none.
    """

    sampler: str
    names: tuple[str, ...]
    dtype: tf.DType
    by_gibbs: frozenset[str] = frozenset()

    def number(self, label: str, value: Any, rule: Rule) -> float:
        """One number that the rule allows, and that the float type holds."""
        number = require_number(label, self.sampler, value, rule)
        return require_held(label, self.sampler, number, np.dtype(self.dtype.as_numpy_dtype))

    def numbers(self, argument: str, value: Any, rule: Rule) -> dict[str, float]:
        """A number for each parameter."""
        return self._of(argument, value, lambda label, x: self.number(label, x, rule))

    def stepsizes(self, value: Any) -> dict[str, float | Schedule]:
        """A stepsize or a schedule for each parameter."""
        return self._of("stepsize", value, self._stepsize)

    def _of(self, argument: str, value: Any, check: Callable[[str, Any], Any]) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            return dict.fromkeys(self.names, check(argument, value))
        wanted = set(self.names) - self.by_gibbs
        if wanted != set(value):
            but = f" that gibbs does not move, {sorted(wanted)}" if self.by_gibbs else f", {sorted(wanted)}"
            got = f"keys {sorted(map(str, value))}"
            raise ValueError(f"{argument} of {self.sampler} must have the keys of params{but}; got {got}.")
        each = {name: check(f"{argument}[{name!r}]", value[name]) for name in self.names if name in value}
        unused = next(iter(each.values()))  # for parameters that gibbs moves
        return {name: each.get(name, unused) for name in self.names}

    def _stepsize(self, label: str, value: Any) -> float | Schedule:
        if not callable(value):
            return self.number(label, value, STEPSIZE)
        self._try_schedule(label, value)
        return value

    def _try_schedule(self, label: str, schedule: Schedule) -> None:
        """Try a schedule at iteration 0, as the compiled loop calls it; later values are not checked."""
        allowed, must = STEPSIZE

        def value_at(iteration: tf.Tensor) -> tf.Tensor:
            return tf.convert_to_tensor(schedule(iteration), dtype_hint=self.dtype)

        def first() -> np.ndarray:
            traced = trace(value_at, tf.TensorSpec([], self.dtype))
            return np.asarray(traced(tf.constant(0, self.dtype)), np.float64)

        value = attempted(f"{label} of {self.sampler} must be {must}, in TensorFlow operations of the iteration", first)
        if value.shape != () or not np.isfinite(value) or not allowed(float(value)):
            raise ValueError(f"{label} of {self.sampler} must be {must}; got a schedule that begins with {value}.")
