"""Checks of numbers: which are allowed, and how a message says so."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.checks import is_integer, require_count
from sgmcmc.dataset.entry import described, n_masked

DTYPES = {"float32": tf.float32, "float64": tf.float64}
LAST_STEP = 2**32
LAST_CHAIN = 2**31 - 1
AUTO = "auto"
EXACT = 2**53  # up to here a float is one integer

Rule = tuple[Callable[[float], bool], str]
"""Whether a number is allowed, and what a message says of those that are."""

POSITIVE: Rule = (lambda x: x > 0, "a positive number")
STEPSIZE: Rule = (lambda eps: eps > 0, "a positive number or a schedule such as polynomial(h, a, b)")
FRICTION: Rule = (lambda alpha: 0 < alpha <= 1, "a number in (0, 1]")
FRACTION: Rule = (lambda x: 0 < x < 1, "a number between 0 and 1")
DECAY: Rule = (lambda beta: 0 <= beta < 1, "a number from 0 to below 1")
DIFFUSION: Rule = (lambda a: 0 < a < 0.5, "a positive number below 0.5, since chains have no equilibrium from 0.5 on")


def is_list(value: Any) -> bool:
    """Whether `starts` has an entry for each chain."""
    return isinstance(value, list | tuple)


def is_auto(value: Any) -> bool:
    """Whether an argument is left to the package."""
    return isinstance(value, str) and value == AUTO


def require_number(label: str, of: str, value: Any, rule: Rule) -> float:
    """The value as a float, if it is one number that the rule allows."""
    allowed, must = rule
    scalar = isinstance(value, Real | np.number) and not isinstance(value, bool)
    if not scalar and isinstance(value, np.ndarray | tf.Tensor) and np.ndim(value) == 0 and not n_masked(value):
        scalar, value = True, np.asarray(value).item()
    try:
        number = float(value) if scalar else np.nan
    except OverflowError:  # an integer beyond the floats
        number = np.inf
    if not np.isfinite(number) or not allowed(number):
        raise ValueError(f"{label} of {of} must be {must}; got {described(value)}.")
    return number


def require_float_type(of: str, dtype: Any) -> tf.DType:
    """The type of this name."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"dtype of {of} must be 'float32' or 'float64'; got {dtype!r}.")
    return DTYPES[dtype]


def require_seed(of: str, seed: Any) -> int:
    """A seed that is given; R's numbers are doubles."""
    if not (is_integer(seed) and 0 <= seed < 2**64) and not (
        isinstance(seed, float) and seed.is_integer() and 0 <= seed < EXACT
    ):
        raise ValueError(f"seed of {of} must be None or an integer from 0 to 2**64 - 1; got {seed!r}.")
    return int(seed)


def checked_chains(of: str, chains: Any) -> range:
    """The numbers of the chains, given how many there are or a range of them; of a single one for None."""
    if not isinstance(chains, range):
        return range(1 if chains is None else require_count("nChains", of, chains, at_least=1))
    if chains.step != 1 or not 0 <= chains.start < chains.stop <= LAST_CHAIN:
        raise ValueError(
            f"nChains of {of} must be an integer of at least 1, or a range of the numbers of chains such as range(4, "
            f"8); got {chains!r}."
        )
    return chains


def require_counter(argument: str, of: str, n_iterations: int, leaps: int) -> None:
    """Refuse more gradients than the counter of the random numbers has values."""
    if n_iterations * leaps >= LAST_STEP:
        raise ValueError(
            f"{argument} of {of} must make fewer than 2**32 steps in all, since random numbers would repeat; "
            f"got {n_iterations} iterations of {leaps}."
        )
