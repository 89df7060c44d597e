"""Indices in the data that point outside of what they index.

XLA gathers without a word from wherever such an index comes to lie. TensorFlow's own operations on the CPU refuse; so
the log likelihood is tried with them, on the observations that hold the least and the greatest index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Tree
from sgmcmc.dataset.layout import extremes, may_be_index

OUT_OF_RANGE = re.compile(r"= \[?(-?\d+)\]? (?:is not in|is out of range|does not index)[^\[]*\[(?:0, )?(\d+)")

Try = Callable[[Mapping[str, np.ndarray]], None]
"""Raises ValueError for observations, {name: [m, ...]}, that hold an index out of range."""


def attempt(of: str, log_lik: Callable, start: Mapping[str, np.ndarray]) -> Try:
    """What tries the log likelihood on some observations."""

    def tried(observations: Mapping[str, np.ndarray]) -> None:
        with tf.device("CPU:0"):
            params = {name: tf.constant(theta) for name, theta in start.items()}
            data: Tree = {name: tf.constant(entry) for name, entry in observations.items()}
            try:
                log_lik(params, data)
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(_said(of, observations, str(error.message))) from error

    return tried


def require_in_range(tried: Try, arrays: Mapping[str, np.ndarray]) -> None:
    """Try the extremes of every entry that may hold indices.

    Raises
    ------
    ValueError
        Naming the entry, the index and the size.
    """
    for entry in arrays.values():
        if may_be_index(entry):
            at = extremes(entry)
            tried({name: array[at] for name, array in arrays.items()})


def _said(of: str, observations: Mapping[str, Any], message: str) -> str:
    found = OUT_OF_RANGE.search(message)
    if found is None:
        return f"logLik of {of} must be defined for every observation; on two of them it raised: {message}"
    index, size = int(found[1]), int(found[2])
    holding = [name for name, entry in observations.items() if may_be_index(entry) and (entry == index).any()]
    where = ", ".join(f"dataset[{name!r}]" for name in holding)
    return (
        f"dataset of {of} must hold indices that logLik can use, here from 0 to {size - 1} for an axis of {size}; "
        f"got {index}, {f'which is in {where}' if where else 'computed by logLik'}."
    )
