"""Indices in the data that are out of range.

For such an index XLA silently gathers some other row. TensorFlow's own operations on
the CPU raise an error, so a log likelihood that gathers is tried with them on all
observations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Tree
from sgmcmc.dataset.data import Data, block_size
from sgmcmc.dataset.elsewhere import Elsewhere
from sgmcmc.dataset.layout import may_be_index
from sgmcmc.dataset.memory import InMemory
from sgmcmc.dataset.remote import Remote, Remotes
from sgmcmc.dataset.shards import Joined

OUT_OF_RANGE = re.compile(r"= \[?(-?\d+)\]? (?:is not in|is out of range|does not index)[^\[]*\[(?:0, )?(\d+)")

Try = Callable[[Mapping[str, np.ndarray]], None]
"""Raises ValueError for observations, {name: [m, ...]}, that hold an index out of range."""


def attempt(of: str, argument: str, function: Callable, start: Mapping[str, np.ndarray]) -> Try:
    """A function that tries the user's function, known by this argument, on some observations."""

    def tried(observations: Mapping[str, np.ndarray]) -> None:
        with tf.device("CPU:0"):
            params = {name: tf.constant(theta) for name, theta in start.items()}
            data: Tree = {name: tf.constant(entry) for name, entry in observations.items()}
            try:
                function(params, data)
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(_said(of, argument, observations, str(error.message))) from error

    return tried


def check_indices(of: str, argument: str, function: Callable, start: Mapping[str, np.ndarray], data: Data) -> None:
    """Try all observations: those in memory now, others when they are read, each where it is."""
    if isinstance(data, Joined | Remotes):
        for part in data.parts:
            check_indices(of, argument, function, start, part)
    elif isinstance(data, Remote):
        data.asked(_checked, (of, argument, function, start))
    elif isinstance(data, InMemory):
        require_in_range(attempt(of, argument, function, start), data)
    elif isinstance(data, Elsewhere):
        data.watch(attempt(of, argument, function, start))


def _checked(data: Data, given: tuple[str, str, Callable, Mapping[str, np.ndarray]]) -> None:
    check_indices(*given, data)


def require_in_range(tried: Try, data: InMemory) -> None:
    """Try all observations, in blocks.

    Raises
    ------
    ValueError
        Naming the entry, the index and the size.
    """
    arrays, size = data.arrays(), block_size(data)
    for start in range(0, data.size, size):
        tried({name: array[start : start + size] for name, array in arrays.items()})


def _said(of: str, argument: str, observations: Mapping[str, Any], message: str) -> str:
    found = OUT_OF_RANGE.search(message)
    if found is None:
        must = f"{argument} of {of} must be defined for every observation"
        if "does not index" in message:  # several at once, of tf.gather_nd
            must = f"dataset of {of} must hold indices that {argument} can use"
        return f"{must}; on some it raised: {message}"
    index, size = int(found[1]), int(found[2])
    holding = [name for name, entry in observations.items() if may_be_index(entry) and (entry == index).any()]
    where = ", ".join(f"dataset[{name!r}]" for name in holding)
    return (
        f"dataset of {of} must hold indices that {argument} can use, here from 0 to {size - 1} for an axis of {size}; "
        f"got {index}, {f'which is in {where}' if where else f'computed by {argument}'}."
    )
