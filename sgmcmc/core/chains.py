"""Functions of one chain or observation, mapped over all chains or observations."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sgmcmc.core.xla import forgotten_by_bijectors, not_vectorizable


def over_chains(fn: Callable, n_chains: int) -> Callable:
    """`fn(*args)`, mapped over the chain axis of args; a single chain is passed directly, which compiles faster."""

    def call(*args: Any) -> Any:
        if n_chains == 1:
            result = fn(*tf.nest.map_structure(lambda x: tf.squeeze(x, 0), args))
            return tf.nest.map_structure(lambda x: tf.expand_dims(x, 0), result)
        return mapped(lambda args: fn(*args), args)

    return call


def one_by_one(fn: Callable, n_chains: int, specs: Any) -> Callable:
    """As `over_chains`, one by one, for rejection samplers, which cannot be vectorised; `specs` are of the results."""
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


def mapped(fn: Callable, elements: Any, otherwise: Callable[[], Any] | None = None) -> Any:
    """Map `fn` over the first axis of all tensors in `elements`, at once.

    tf.vectorized_map cannot do that if `fn` has a loop or value-dependent shapes, such as those of tf.boolean_mask.
    Then the result is `otherwise()`, by default that of tf.map_fn, which maps them one by one.
    """
    specs: list[tf.TensorSpec] = []
    structure: Any = None

    def flat(element: Any) -> list[tf.Tensor]:
        nonlocal structure
        structure = fn(element)
        return [tf.convert_to_tensor(x) for x in tf.nest.flatten(structure)]

    def vectorizable(element: Any) -> list[tf.Tensor]:
        with not_vectorizable() as found:
            result = flat(element)
        if found():
            specs.extend(tf.TensorSpec(x.shape, x.dtype) for x in result)
            raise _NotVectorizableError
        return result

    logger = logging.getLogger("tensorflow")
    logger.addFilter(_is_no_retracing)
    try:
        with forgotten_by_bijectors():
            result = tf.vectorized_map(vectorizable, elements, warn=False)
    except _NotVectorizableError:
        if otherwise is not None:
            return otherwise()
        result = tf.map_fn(flat, elements, fn_output_signature=specs) if specs else []
    finally:
        logger.removeFilter(_is_no_retracing)
    return tf.nest.pack_sequence_as(structure, result)


class _NotVectorizableError(Exception):
    """The function has operations that tf.vectorized_map cannot map."""


def _is_no_retracing(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    return "retracing" not in message or "pfor.<locals>" not in message
