"""The arguments that say what becomes of a run, checked before anything is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import tensorflow as tf

from sgmcmc.core.types import Reducer
from sgmcmc.run.checkpoint import Checkpoint, differing_setting
from sgmcmc.run.recorder import Keep
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.whole import Run
from sgmcmc.samplers._arguments import require_count, require_flag
from sgmcmc.storage.zarr import read_checkpoint

GB = 1e9


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
    burn_in = require_count("burnIn", name, burnIn, 0)
    if burn_in >= n_iterations:
        raise ValueError(f"burnIn of {name} must be less than nIters = {n_iterations}; got {burnIn!r}.")
    every = require_count("thin", name, thin, 1)
    if every > (left := n_iterations - burn_in):
        raise ValueError(f"thin of {name} must be at most the {left} iterations after burnIn; got {thin!r}.")
    collect, draw = _observed(sampler, collect)
    reducers = _reducers(sampler, reduce, draw)
    keep = Keep(draw, every, burn_in, collect, reducers, require_flag("gradients", name, gradients))
    run = Run(sampler, n_iterations, keep, require_flag("verbose", name, verbose))
    if storage is None:
        if require_flag("resume", name, resume):
            raise ValueError(f"resume of {name} must come with storage, the store to go on with; got storage=None.")
        _require_memory(run)
        return run
    path = _path(name, storage)
    bad = [label for label in draw if "/" in label or label in ("chain", "draw")]
    if bad and keep.stores_draws:
        raise ValueError(f"names of draws of {name} must suit xarray, for storage; got {bad}, which it reserves.")
    return _stored(replace(run, path=path), path, require_flag("resume", name, resume), seeded)


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
        outputs = dict(collect(dict(params), data.all()) if takes_data else collect(dict(params)))
        return {key: tf.convert_to_tensor(value, dtype_hint=dtype) for key, value in outputs.items()}

    try:
        traced = tf.function(of_params, autograph=False).get_concrete_function(params).structured_outputs
        outputs = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in traced.items()}
        if not outputs or not all(isinstance(key, str) for key in outputs):
            raise TypeError("it returned no dict of tensors by name")
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


def _reducers(sampler: Sampler, reduce: Any, draw: Mapping[str, tf.TensorSpec]) -> dict[str, Reducer]:
    if reduce is None:
        return {}
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
    for label, reducer in reducers.items():
        _try_reducer(f"reduce[{label!r}] of {sampler.name}", reducer, draw)
    return dict(reducers)


def _try_reducer(label: str, reducer: Reducer, draw: Mapping[str, tf.TensorSpec]) -> None:
    zeros = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in draw.items()}
    try:
        before = tf.nest.map_structure(tf.convert_to_tensor, reducer.init(zeros))
        update = tf.function(lambda x, y: reducer.update(x, y), autograph=False)
        after = update.get_concrete_function(before, zeros).structured_outputs
        tf.nest.assert_same_structure(before, after)
        if not tf.nest.flatten(before):
            raise TypeError("its accumulator holds no tensor")
        for x, y in zip(tf.nest.flatten(before), tf.nest.flatten(after), strict=True):
            if (x.shape, x.dtype) != (y.shape, y.dtype):
                raise TypeError(f"update turns {x.dtype.name}{x.shape} into {y.dtype.name}{y.shape}")
        if reducer.result:
            reducer.result(tf.nest.map_structure(lambda x: x.numpy(), before))
    except Exception as error:
        raise ValueError(
            f"{label} must keep an accumulator of fixed shapes by TensorFlow operations; "
            f"it raised {type(error).__name__}: {error}"
        ) from error


def _require_memory(run: Run) -> None:
    draw = run.keep.draw.values() if run.keep.stores_draws else ()
    sizes = [spec.shape.num_elements() * spec.dtype.size for spec in draw]
    told = sum(2 for dynamics in run.sampler.dynamics.values() if dynamics.stats)  # at most, and the log posterior
    sizes.append((1 + told) * run.sampler.model.dtype.size)
    if run.keep.gradients:
        sizes += [theta.nbytes for theta in run.sampler.start.values()]
    needed = run.plan.n_rows * (run.sampler.n_chains or 1) * sum(sizes)
    free = psutil.virtual_memory().available
    if needed > free:
        raise MemoryError(
            f"nIters of {run.sampler.name} must leave draws that fit into memory; got {run.plan.n_rows} draws, which "
            f"need {needed / GB:.1f} GB, while {free / GB:.1f} GB are free. Store fewer with thin or burnIn, or less "
            f"of each with collect; add them up with reduce; write them to disk with storage='run.zarr'; or go step by "
            f"step with {run.sampler.name}Setup."
        )


def _path(name: str, storage: Any) -> Path:
    must = f"storage of {name} must be None or the path of a Zarr store, whose name ends in '.zarr'"
    if not isinstance(storage, str | Path) or Path(storage).suffix != ".zarr":
        raise ValueError(f"{must}; got {storage!r}.")
    path = Path(storage)
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{must}, in a folder that exists; got {str(storage)!r}.")
    try:
        import xarray  # noqa: F401
        import zarr  # noqa: F401
    except ImportError as error:
        raise ImportError('storage needs Zarr and xarray: pip install "sgmcmc[zarr]"') from error
    return path


def _stored(run: Run, path: Path, resume: bool, seeded: bool) -> Run:
    name = run.sampler.name
    if not path.exists():
        return run
    if not resume:
        raise ValueError(
            f"storage of {name} must be a new path, or come with resume=True to go on; got {str(path)!r}, which exists."
        )
    try:
        saved = Checkpoint.decode(read_checkpoint(path))
    except Exception as error:
        raise ValueError(
            f"storage of {name} must be a store that this package wrote; got {str(path)!r}, which is none."
        ) from error
    if not seeded:
        run = replace(run, sampler=run.sampler.with_seed(saved.settings["seed"]))
    key = differing_setting(run.identity, saved.settings)
    if key is not None:
        raise ValueError(
            f"{key} of {name} must be what it was when {str(path)!r} was begun, {saved.settings.get(key)!r}; "
            f"got {run.identity.get(key)!r}."
        )
    if run.n_iterations < saved.iteration:
        raise ValueError(
            f"nIters of {name} must be at least the {saved.iteration} iterations that {str(path)!r} already holds; "
            f"got {run.n_iterations}."
        )
    return replace(run, saved=saved)
