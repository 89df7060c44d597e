"""Checks and conversions of the arguments that all samplers share, from camelCase to snake_case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from sgmcmc.arguments import STEPSIZE, Each, checked_chains, is_list, require_float_type, require_seed
from sgmcmc.arguments.data import checked_dataset
from sgmcmc.arguments.minibatch import (
    Minibatches,
    adaptive,
    checked_minibatches,
    minibatches_of_bundles,
    minibatches_within,
)
from sgmcmc.arguments.refusals import OF_ALL, refuse
from sgmcmc.core import random
from sgmcmc.core.errors import refused, require_flag
from sgmcmc.core.schedules import Schedule, exploring
from sgmcmc.dataset import Data
from sgmcmc.dataset.arrays import described, first_non_finite, numeric
from sgmcmc.dataset.bundles import Bundles
from sgmcmc.dataset.windows import Windows
from sgmcmc.run.sampler import settings_of_chains

Stepsize = float | str | Schedule | Mapping[str, float | Schedule]
PerParameter = float | Mapping[str, float]

# Iterations at which schedules are compared; some are not round numbers, to tell periodic schedules apart.
SCHEDULE_AT = (0.0, 1.0, 37.0, 100.0, 1_237.0, 10_000.0, 31_337.0, 1_000_000.0)


@dataclass(frozen=True)
class CommonChoices:
    """The choices that every sampler has, checked on construction."""

    sampler: str
    dataset: Any
    params: Mapping[str, Any]
    stepsize: Stepsize
    minibatchSize: float | str | adaptive
    seed: int | None
    subsampling: Any
    integers: Sequence[str]
    dtype: str
    nChains: int | range | None
    starts: Any
    sharedMinibatch: bool

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        refuse(OF_ALL, self.sampler, self)
        _ = self.shared_minibatch, self.sampler_fields

    def refuse(self, argument: str, must: str, got: Any) -> ValueError:
        return refused(self.sampler, argument, must, got)

    @cached_property
    def float_type(self) -> tf.DType:
        """`dtype` as a TensorFlow type."""
        return require_float_type(self.sampler, self.dtype)

    @cached_property
    def random_seed(self) -> int:
        """`seed`, or a fresh one."""
        if self.seed is None:
            return random.fresh_seed()
        return require_seed(self.sampler, self.seed)

    @property
    def start(self) -> dict[str, np.ndarray]:
        return self.given

    @cached_property
    def given(self) -> dict[str, np.ndarray]:
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
    def stepsizes(self) -> dict[str, float | Schedule]:
        """`stepsize`, one for each parameter."""
        if isinstance(self.stepsize, str):
            raise self.refuse("stepsize", f"be {self._stepsize_must}", repr(self.stepsize))
        return self.each.stepsizes(self.stepsize)

    @property
    def _stepsize_must(self) -> str:
        return STEPSIZE[1]

    @property
    def moved_by_gibbs(self) -> frozenset[str]:
        return frozenset()

    @property
    def each(self) -> Each:
        return Each(self.sampler, tuple(self.given), self.float_type, self.moved_by_gibbs)

    @property
    def asked_chains(self) -> int | range | None:
        """`nChains`, or if that is None the length of a list of `starts`."""
        if self.nChains is not None or not is_list(self.starts):
            return self.nChains
        if not self.starts:
            raise self.refuse("starts", "have at least one entry", self.starts)
        return len(self.starts)

    @cached_property
    def chains(self) -> range:
        return checked_chains(self.sampler, self.asked_chains)

    @cached_property
    def n_chains(self) -> int | None:
        if self.asked_chains is None:
            return None
        n_chains = len(self.chains)
        # At least the positions before and after a call, the variables of a session, and noise and minibatches for one
        # iteration.
        of_minibatch = 0 if self.shared_minibatch else self.minibatches.n * (4 + self.data.layout.row_bytes)
        of_each = 4 * sum(x.nbytes for x in self.start.values()) + of_minibatch
        needed, free = n_chains * of_each, psutil.virtual_memory().available
        if needed > free:
            raise MemoryError(
                f"nChains of {self.sampler} must fit into memory; got {n_chains}, which need at least "
                f"{needed / 1e9:.1f} GB, while {free / 1e9:.1f} GB are free."
            )
        return n_chains

    @cached_property
    def chain_starts(self) -> float | dict[str, np.ndarray] | None:
        """`starts`: None, a standard deviation, or the positions {name: [C, ...]}."""
        if self.starts is None:
            return None
        if is_list(self.starts):
            return self._stacked(self.starts)
        if not isinstance(self.starts, Mapping):
            must = "None, a standard deviation, a list of params, or a dict of arrays with nChains on the first axis"
            return self.each.number("starts", self.starts, (lambda s: 0 <= s < 1e30, must))
        starts = self._of_params("starts", self.starts)
        for name, array in starts.items():
            shape = (self.n_chains, *self.given[name].shape)
            if array.shape != shape:
                raise self.refuse(f"starts[{name!r}]", f"have shape {shape}, one start for each chain", array.shape)
        return starts

    def _stacked(self, starts: Sequence[Any]) -> dict[str, np.ndarray]:
        if len(starts) != len(self.chains):
            raise self.refuse("starts", f"have an entry for each of {len(self.chains)} chains", len(starts))
        each = [self._of_params(f"starts[{c}]", one) for c, one in enumerate(starts)]
        for c, one in enumerate(each):
            for name, array in one.items():
                if array.shape != (shape := self.given[name].shape):
                    raise self.refuse(f"starts[{c}][{name!r}]", f"have the shape {shape} of params", array.shape)
        return {name: np.stack([one[name] for one in each]) for name in self.given}

    def _of_params(self, label: str, values: Any) -> dict[str, np.ndarray]:
        if not isinstance(values, Mapping) or set(values) != set(self.given):
            got = f"keys {sorted(map(str, values))}" if isinstance(values, Mapping) else described(values)
            raise self.refuse(label, f"have the keys of params, {sorted(self.given)}", got)
        return {name: self._start_of(f"{label}[{name!r}]", value) for name, value in values.items()}

    @cached_property
    def shared_minibatch(self) -> bool:
        return require_flag("sharedMinibatch", self.sampler, self.sharedMinibatch)

    @property
    def may_bundle(self) -> bool:
        """Whether only sums over groups matter, and not which observation is which group."""
        return False

    @cached_property
    def data(self) -> Data:
        dtype = np.dtype(self.float_type.as_numpy_dtype)
        return checked_dataset(self.sampler, self.dataset, self.integers, dtype, self.may_bundle)

    @cached_property
    def minibatches(self) -> Minibatches:
        if self.data.shards is not None:
            return minibatches_within(self.sampler, self.minibatchSize, self.subsampling, self.data.shards)
        given = self.sampler, self.minibatchSize, self.subsampling
        if isinstance(self.data, Bundles):
            return minibatches_of_bundles(*given, self.data, self.float_type)
        return checked_minibatches(*given, self.data.size, self.float_type)

    @property
    def sampler_fields(self) -> dict[str, Any]:
        """The fields that all samplers have."""
        return {
            "name": self.sampler,
            "data": self.data,
            "dtype": self.float_type,
            "minibatch": self.minibatches.minibatch,
            "stepsize": self.stepsizes,
            "start": self.start,
            "seed": self.random_seed,
            "n_chains": self.n_chains,
            "first_chain": self.chains.start,
            "is_part": isinstance(self.nChains, range),
            "starts": self.chain_starts,
            "shared_minibatch": self.shared_minibatch,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The user's choices by R's names, for JSON."""
        levels = self.data.levels
        before = {"before": self.data.before} if isinstance(self.data, Windows) else {}
        bundled = {"bundles": self.data.size} if isinstance(self.data, Bundles) else {}
        return {
            "sampler": self.sampler,
            "parameters": sorted(self.start),
            "N": self.data.as_counted(self.data.size),
            "stepsize": {name: _described(eps, self.float_type) for name, eps in self.stepsizes.items()},
            "seed": self.random_seed,
            "integers": sorted({*self.integers, *levels}),
            **({"levels": levels} if levels else {}),
            **before,
            **bundled,
            "dtype": self.dtype,
            **settings_of_chains(self.n_chains, self.chains, self.chain_starts),
            "sharedMinibatch": self.shared_minibatch,
            **self.minibatches.settings,
        }


def _described(stepsize: float | Schedule, dtype: tf.DType) -> Any:
    """A number, or values that identify a schedule in any process."""
    if not callable(stepsize):
        return stepsize
    values = {"schedule": [_value_at(stepsize, tf.constant(k, dtype)) for k in SCHEDULE_AT]}
    return values | {key: eps.explorationFraction for key, eps in exploring({"explorationFraction": stepsize}).items()}


def _value_at(schedule: Schedule, iteration: tf.Tensor) -> float | None:
    try:
        return float(schedule(iteration))
    except Exception:  # such as a table that is too short
        return None
