"""The arguments that say how long a run is, what it keeps, and whether there is room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import psutil
import tensorflow as tf

from sgmcmc.arguments import POSITIVE, Rule, is_auto, require_counter, require_number
from sgmcmc.arguments.destination import GB, checked_jobs, in_store, require_portable
from sgmcmc.arguments.refusals import OF_RUNS, AskedOfRun, refuse
from sgmcmc.arguments.signatures import RunOptions
from sgmcmc.arguments.trial import require_repeatable
from sgmcmc.core.errors import attempted, require_count, require_flag, takes, types_and_shapes
from sgmcmc.core.tracing import trace
from sgmcmc.dataset.bundles import Bundles
from sgmcmc.run.one_call import Run, RunCache
from sgmcmc.run.recorder import Keep
from sgmcmc.run.sampler import Sampler
from sgmcmc.run.stopping_rule import AT_FIRST, StoppingRule
from sgmcmc.storage import Reducer


def require_memory(run: Run, accumulators: Mapping[str, Any], on_disk: bool) -> None:
    name, n_chains = run.sampler.name, run.sampler.n_chains or 1
    free = psutil.virtual_memory().available
    sums = 2 * n_chains * _bytes(tf.nest.flatten(accumulators))  # the loop holds the old sums and the new ones
    if sums > free:
        raise MemoryError(
            f"reduce of {name} must keep sums that fit into memory; got {sums / GB:.1f} GB, while {free / GB:.1f} GB "
            f"are free. Use collect to reduce less of each draw."
        )
    if on_disk or not run.keep.stores:
        return
    needed = sums + run.plan.n_rows * n_chains * _bytes_of_row(run)
    if needed > free:
        ways = [
            *(["store fewer draws with thin"] if run.keep.thin == 1 else ["use a larger thin"]),
            *([] if run.keep.collect else ["store less of each draw with collect"]),
            *([] if run.keep.reducers else ["store only sums with reduce"]),
            "write them to disk with storage='run.zarr'",
            f"run step by step with {name}Setup",
        ]
        raise MemoryError(
            f"nIters of {name} must produce draws that fit into memory; got {run.plan.n_rows} draws, which need "
            f"{needed / GB:.1f} GB, while {free / GB:.1f} GB are free. Options: {'; '.join(ways)}."
        )


def _bytes_of_row(run: Run) -> int:
    sampler = run.sampler
    gradients = sum(theta.nbytes for theta in sampler.start.values()) if run.keep.gradients else 0
    return _bytes(run.keep.draw.values()) + sampler.n_stats * sampler.dtype.size + gradients


def _bytes(specs: Any) -> int:
    return sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)


ESS = 1000.0

DRAWS: Rule = (lambda x: x >= 10, "a number of effective draws, at least 10")
ERROR: Rule = (lambda x: 0 < x <= 0.3, "a number of posterior standard deviations, in (0, 0.3]")


class Length(NamedTuple):
    """The length of a run, at least at first, and which draws it stores."""

    n_iterations: int
    burn_in: int
    thin: int
    stopping_rule: StoppingRule | None


def checked_length(sampler: Sampler, nIters: Any, options: Mapping[str, Any]) -> Length:
    name = sampler.name
    burn_in = require_count("burnIn", name, options["burnIn"], 0)
    thin = 1 if is_auto(options["thin"]) else require_count("thin", name, options["thin"], 1)
    if is_auto(nIters):
        return Length(burn_in + AT_FIRST, burn_in, thin, _checked_stopping_rule(sampler, burn_in, thin, options))
    if isinstance(nIters, str):
        raise ValueError(f"nIters of {name} must be an integer of at least 1, or 'auto'; got {nIters!r}.")
    n_iterations = require_count("nIters", name, nIters, 1)
    require_counter("nIters", name, n_iterations, sampler.leaps)
    if burn_in >= n_iterations:
        raise ValueError(f"burnIn of {name} must be less than nIters = {n_iterations}; got {burn_in}.")
    if thin > (left := n_iterations - burn_in):
        raise ValueError(f"thin of {name} must be at most the {left} iterations after burnIn; got {thin}.")
    return Length(n_iterations, burn_in, thin, None)


def _checked_stopping_rule(sampler: Sampler, burn_in: int, thin: int, options: Mapping[str, Any]) -> StoppingRule:
    name, ess, mcse = sampler.name, options["ess"], options["mcse"]
    if mcse is not None:
        wanted = require_number("mcse", name, mcse, ERROR) ** -2.0
    else:
        wanted = ESS if ess is None else require_number("ess", name, ess, DRAWS)
    most, seconds = options["maxIters"], options["maxSeconds"]
    if most is not None:
        most = require_count("maxIters", name, most, burn_in + thin, " (burnIn + thin)" if burn_in else "")
        require_counter("maxIters", name, most, sampler.leaps)
    if seconds is not None:
        seconds = require_number("maxSeconds", name, seconds, POSITIVE)
    return StoppingRule(wanted, mcse is not None, most, seconds, is_auto(options["thin"]))


NO_NOISE = "Draw random numbers after the run."


def checked_run(
    sampler: Sampler, seeded: bool, nIters: int | str, verbose: bool, options: RunOptions, cache: RunCache | None = None
) -> Run:
    """The run that these arguments of a one-call function describe; `cache` has what earlier runs prepared."""
    name = sampler.name
    refuse(OF_RUNS, name, AskedOfRun(sampler, nIters, options))
    length = checked_length(sampler, nIters, options)
    collect, draw = _observed(sampler, options["collect"])
    reducers, accumulators = _reducers(sampler, options["reduce"], draw)
    gradients = require_flag("gradients", name, options["gradients"])
    keep = Keep(draw, length.thin, length.burn_in, collect, reducers, gradients, sampler.transforms)
    executor = options["executor"]
    jobs = executor if executor is None else checked_jobs(name, sampler.chains, executor, options["chainsPerJob"])
    show = require_flag("verbose", name, verbose)
    run = Run(
        sampler,
        length.n_iterations,
        keep,
        show,
        cache=cache or RunCache(),
        jobs=jobs,
        stopping_rule=length.stopping_rule,
    )
    resume, storage = require_flag("resume", name, options["resume"]), options["storage"]
    require_memory(run, accumulators, on_disk=storage is not None)
    _try_results(name, reducers, accumulators)
    if jobs is not None:
        require_portable(name, replace(run, jobs=None, cache=RunCache()))
    if storage is not None:
        return in_store(run, storage, resume, seeded)
    return run


def _observed(sampler: Sampler, collect: Callable | None) -> tuple[Callable | None, dict[str, tf.TensorSpec]]:
    """`collect` as a function of the parameters alone, and the specs of one draw."""
    dtype = sampler.dtype
    params = sampler.draw
    if collect is None:
        return None, params
    must = f"collect of {sampler.name} must be a function of params, or of params and dataset, in TensorFlow operations"
    if not callable(collect):
        raise ValueError(f"{must}; got {collect!r}.")
    data, takes_data = sampler.data, takes(collect, "dataset", 1)
    if takes_data and not data.in_memory:
        raise ValueError(
            f"collect of {sampler.name} must be a function of params alone if the data are not in memory, since it "
            "would read all of them for every draw; got a function of params and dataset."
        )

    if takes_data and isinstance(data, Bundles):
        raise ValueError(
            f"collect of {sampler.name} must be a function of params alone if groups are bundled; got a function of "
            "params and dataset. Use groups(..., bundled=False)."
        )

    def of_params(params: dict) -> dict:
        outputs = collect(dict(params), data.all()) if takes_data else collect(dict(params))
        if not isinstance(outputs, Mapping) or not outputs or not all(isinstance(key, str) for key in outputs):
            raise TypeError(f"it must return a dict of tensors by name, not {outputs!r}")
        return {key: tf.convert_to_tensor(value, dtype_hint=dtype) for key, value in outputs.items()}

    traced = attempted(f"{must}, that returns a dict of tensors", lambda: trace(of_params, params))
    outputs = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in traced.structured_outputs.items()}
    require_repeatable(f"collect of {sampler.name}", traced.graph, NO_NOISE)
    for key, spec in outputs.items():
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"collect of {sampler.name} must return tensors of the same shape for every draw; got {key!r} of the "
                f"varying shape {spec.shape}."
            )
        if not (spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_bool):
            raise ValueError(f"collect of {sampler.name} must return numbers; got {key!r} of {spec.dtype.name}.")
    return of_params, outputs


Accumulators = dict[str, Any]
"""The specs of each reducer's accumulator for one chain."""


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
            f"reduce of {sampler.name} must be a Reducer such as runningMean(), or a dict of Reducers by name; "
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

    def tried() -> tuple[Any, Any]:
        before = trace(init).structured_outputs
        traced = trace(reducer.update, before, dict(draw))
        tf.nest.assert_same_structure(before, traced.structured_outputs)
        after = types_and_shapes(traced.structured_outputs)
        if not tf.nest.flatten(before):
            raise TypeError("its accumulator holds no tensor")
        if types_and_shapes(before) != after:
            raise TypeError(f"update turns {types_and_shapes(before)} into {after}")
        return before, traced

    before, traced = attempted(f"{label} must keep an accumulator of fixed shapes, in TensorFlow operations", tried)
    require_repeatable(label, traced.graph, NO_NOISE)
    return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), before)


def _try_results(name: str, reducers: Mapping[str, Reducer], accumulators: Accumulators) -> None:
    """Try `result` of each reducer on zeros, so that it fails before the run."""
    for label, reducer in reducers.items():
        zeros = tf.nest.map_structure(lambda s: np.zeros(s.shape, s.dtype.as_numpy_dtype), accumulators[label])
        must = f"reduce[{label!r}] of {name} must have a result that is a dict of arrays"
        result = attempted(must, partial(reducer.result, zeros)) if reducer.result else zeros
        if not isinstance(result, Mapping):
            raise ValueError(f"{must}; got {type(result).__name__}.")
