"""What becomes of the draws: kept in memory, written to a Zarr store, or summarised as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sgmcmc.core.trees import Tree


class Reducer(NamedTuple):
    """A summary of the draws of one chain that needs constant memory.

    Pure functions of TensorFlow operations, except for the last. A draw is a dict of tensors without a chain axis: the
    parameters, or what `collect` returns.

    Parameters
    ----------
    init : callable
        From a draw of zeros, which gives the shapes, to the first accumulator: any nest of tensors.
    update : callable
        (accumulator, draw) -> accumulator.
    result : callable, optional
        From the accumulator as NumPy arrays to the result, a dict of arrays. By default the accumulator itself.

    Examples
    --------
    The largest value of each parameter:

    >>> import tensorflow as tf
    >>> from sgmcmc import Reducer
    >>> largest = Reducer(
    ...     init=lambda draw: {name: x - float("inf") for name, x in draw.items()},
    ...     update=lambda top, draw: {name: tf.maximum(top[name], x) for name, x in draw.items()},
    ... )
    """

    init: Callable[[Tree], Any]
    update: Callable[[Any, Tree], Any]
    result: Callable[[Any], Tree] | None = None
