"""Functions of one chain, mapped over the chain axis."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def over_chains(fn: Callable, n_chains: int) -> Callable:
    """Map `fn(*args)` over the chain axis of args.

    For one chain call it directly, which compiles faster.
    """

    def call(*args: Any) -> Any:
        if n_chains == 1:
            result = fn(*tf.nest.map_structure(lambda x: tf.squeeze(x, 0), args))
            return tf.nest.map_structure(lambda x: tf.expand_dims(x, 0), result)
        return mapped(lambda args: fn(*args), args)

    return call


def one_by_one(fn: Callable, n_chains: int, specs: Any) -> Callable:
    """The same, one chain after the other, for rejection samplers, which cannot be vectorised.

    `specs` are the specs of the result of `fn`.
    """
    if n_chains == 1:
        return over_chains(fn, 1)

    def call(*args: Any) -> Any:
        return tf.map_fn(lambda args: fn(*args), args, fn_output_signature=specs)

    return call


def finite_chains(tree: Any) -> tf.Tensor:
    """Whether all leaves [C, ...] are finite, for each chain, [C]."""
    leaves = [x for x in tf.nest.flatten(tree) if x.dtype.is_floating]
    each = [tf.reduce_all(tf.math.is_finite(x), axis=list(range(1, x.shape.rank))) for x in leaves]
    return tf.reduce_all(tf.stack(each), axis=0)


def mapped(fn: Callable, elements: Any) -> Any:
    """tf.vectorized_map without its unavoidable warnings of retracing."""
    logger = logging.getLogger("tensorflow")
    logger.addFilter(_is_no_retracing)
    try:
        return tf.vectorized_map(fn, elements)
    finally:
        logger.removeFilter(_is_no_retracing)


def _is_no_retracing(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return "retracing" not in message or "pfor.<locals>" not in message
