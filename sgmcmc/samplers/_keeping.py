"""The arguments that say what is kept of a run, checked before anything is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sgmcmc.core.types import Reducer
from sgmcmc.run.recorder import Keep
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.whole import Run
from sgmcmc.samplers._arguments import require_count, require_counter, require_flag
from sgmcmc.samplers._room import in_store, require_memory


def checked_run(
    sampler: Sampler,
    *,
    seeded: bool,
    nIters: int,
    verbose: bool,
    thin: int,
    burnIn: int,
    collect: Callable | None,
    reduce: Any,
    gradients: bool,
    storage: str | Path | None,
    resume: bool,
) -> Run:
    """The run that these arguments of a one-call function describe.

    Raises
    ------
    ValueError
        If one of them is unfit.
    MemoryError
        If what is to be stored in memory exceeds what is free.
    """
    name = sampler.name
    n_iterations = require_count("nIters", name, nIters, 1)
    require_counter("nIters", name, n_iterations, sampler.inner_steps)
    burn_in = require_count("burnIn", name, burnIn, 0)
    if burn_in >= n_iterations:
        raise ValueError(f"burnIn of {name} must be less than nIters = {n_iterations}; got {burnIn!r}.")
    every = require_count("thin", name, thin, 1)
    if every > (left := n_iterations - burn_in):
        raise ValueError(f"thin of {name} must be at most the {left} iterations after burnIn; got {thin!r}.")
    collect, draw = _observed(sampler, collect)
    reducers, accumulators = _reducers(sampler, reduce, draw)
    keep = Keep(draw, every, burn_in, collect, reducers, require_flag("gradients", name, gradients))
    run = Run(sampler, n_iterations, keep, require_flag("verbose", name, verbose))
    goes_on = require_flag("resume", name, resume)
    require_memory(run, accumulators, on_disk=storage is not None)
    _try_results(name, reducers, accumulators)
    if storage is not None:
        return in_store(run, storage, goes_on, seeded)
    if goes_on:
        raise ValueError(f"resume of {name} must come with storage, the store to go on with; got storage=None.")
    return run


def _observed(sampler: Sampler, collect: Callable | None) -> tuple[Callable | None, dict[str, tf.TensorSpec]]:
    """`collect` as a function of the parameters alone, and what one draw is."""
    dtype = sampler.model.dtype
    params = {name: tf.TensorSpec(theta.shape, dtype) for name, theta in sampler.start.items()}
    if collect is None:
        return None, params
    must = f"collect of {sampler.name} must be a function of params, or of params and dataset, in TensorFlow operations"
    if not callable(collect):
        raise ValueError(f"{must}; got {collect!r}.")
    data, takes_data = sampler.model.data, _takes_two(collect)

    def of_params(params: dict) -> dict:
        outputs = collect(dict(params), data.all()) if takes_data else collect(dict(params))
        if not isinstance(outputs, Mapping) or not outputs or not all(isinstance(key, str) for key in outputs):
            raise TypeError(f"it returned no dict of tensors by name, but {outputs!r}")
        return {key: tf.convert_to_tensor(value, dtype_hint=dtype) for key, value in outputs.items()}

    try:
        traced = tf.function(of_params, autograph=False).get_concrete_function(params).structured_outputs
        outputs = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in traced.items()}
    except Exception as error:
        raise ValueError(
            f"{must}, that returns a dict of tensors; it raised {type(error).__name__}: {error}"
        ) from error
    for key, spec in outputs.items():
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"collect of {sampler.name} must return tensors of one shape for every draw; got {key!r} of the "
                f"changing shape {spec.shape}."
            )
        if not (spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_bool):
            raise ValueError(f"collect of {sampler.name} must return numbers; got {key!r} of {spec.dtype.name}.")
    return of_params, outputs


def _takes_two(function: Callable) -> bool:
    """Whether a second argument must be given, or is called dataset; other defaults are the function's own."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable without a signature
        return False
    dataset = signature.parameters.get("dataset")
    if dataset is not None and dataset.kind is dataset.POSITIONAL_OR_KEYWORD:
        return True
    try:
        signature.bind(None)
    except TypeError:
        return True
    return False


Accumulators = dict[str, Any]
"""The specs of what each reducer keeps of a chain."""


def _reducers(
    sampler: Sampler, reduce: Any, draw: Mapping[str, tf.TensorSpec]
) -> tuple[dict[str, Reducer], Accumulators]:
    if reduce is None:
        return {}, {}
    reducers = {"draws": reduce} if isinstance(reduce, Reducer) else reduce
    if (
        not isinstance(reducers, Mapping)
        or not reducers
        or not all(isinstance(k, str) and isinstance(r, Reducer) for k, r in reducers.items())
    ):
        raise ValueError(
            f"reduce of {sampler.name} must be a Reducer such as runningMean(), or a dict of some by name; "
            f"got {reduce!r}."
        )
    return dict(reducers), {
        label: _accumulator(f"reduce[{label!r}] of {sampler.name}", reducer, draw)
        for label, reducer in reducers.items()
    }


def _accumulator(label: str, reducer: Reducer, draw: Mapping[str, tf.TensorSpec]) -> Any:
    """The specs of the accumulator, from a trial on abstract draws."""

    def init() -> Any:
        zeros = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in draw.items()}
        return tf.nest.map_structure(tf.convert_to_tensor, reducer.init(zeros))

    try:
        before = tf.function(init, autograph=False).get_concrete_function().structured_outputs
        update = tf.function(lambda x, y: reducer.update(x, y), autograph=False)
        after = update.get_concrete_function(before, dict(draw)).structured_outputs
        tf.nest.assert_same_structure(before, after)
        if not tf.nest.flatten(before):
            raise TypeError("its accumulator holds no tensor")
        for x, y in zip(tf.nest.flatten(before), tf.nest.flatten(after), strict=True):
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                raise TypeError(f"update turns {x.dtype.name}{x.shape} into {y.dtype.name}{y.shape}")
        return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), before)
    except Exception as error:
        raise ValueError(
            f"{label} must keep an accumulator of fixed shapes by TensorFlow operations; "
            f"it raised {type(error).__name__}: {error}"
        ) from error


def _try_results(name: str, reducers: Mapping[str, Reducer], accumulators: Accumulators) -> None:
    """On zeros, so that what fails does so before the run, not after it."""
    for label, reducer in reducers.items():
        zeros = tf.nest.map_structure(lambda s: np.zeros(s.shape, s.dtype.as_numpy_dtype), accumulators[label])
        must = f"reduce[{label!r}] of {name} must have a result that is a dict of arrays"
        try:
            result = reducer.result(zeros) if reducer.result else zeros
        except Exception as error:
            raise ValueError(f"{must}; it raised {type(error).__name__}: {error}") from error
        if not isinstance(result, Mapping):
            raise ValueError(f"{must}; got {type(result).__name__}.")
