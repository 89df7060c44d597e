"""Mean, sd and quantiles over the draws of a function of the parameters."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import compilation
from sgmcmc.core.errors import attempted, refused, require_count, require_flag
from sgmcmc.core.tracing import trace
from sgmcmc.core.trees import Tree
from sgmcmc.dataset.arrays import converted, is_on_disk, with_levels
from sgmcmc.dataset.groups import groups
from sgmcmc.dataset.row_groups import RowGroups
from sgmcmc.dataset.windows import AUTO, windows
from sgmcmc.draws.convergence import diagnostics

if TYPE_CHECKING:
    from sgmcmc.draws.draws import Draws


DIAGNOSTICS = ("ess_bulk", "r_hat")
BLOCK = 2**22  # numbers in the draws and results of one block, and in the columns of one call of np.quantile


def predictions(
    draws: Draws,
    function: Callable,
    dataset: Mapping[str, Any] | None,
    quantiles: Sequence[float],
    batch_size: int | None,
    diagnosed: bool,
    kept: bool,
) -> dict[str, np.ndarray]:
    """The results described in `Draws.predict`."""
    if not draws or not len(draws.iterations):
        raise ValueError("predict needs draws; there are none.")
    compilation.use()
    diagnosed, kept = require_flag("diagnostics", "predict", diagnosed), require_flag("draws", "predict", kept)
    names, of = _names(quantiles), _Function(function)
    seeds = np.random.default_rng(draws.seed)
    entries = None if dataset is None else _entries(dataset, draws.settings)

    def of_rows(*given: Tree) -> dict[str, Any]:
        return _of_rows(draws, of, given, names, diagnosed, kept, seeds)

    if batch_size is None:
        return of_rows() if entries is None else of_rows(_rows(entries, slice(None), draws.settings))
    batch_size = require_count("batchSize", "predict", batch_size, at_least=1)
    parts, n_rows = [], _length(entries)
    assert entries is not None
    for start in range(0, n_rows, batch_size):
        part = of_rows(_rows(entries, slice(start, min(start + batch_size, n_rows)), draws.settings))
        if part["mean"].shape[:1] != (n := min(batch_size, n_rows - start),):
            must = "return a row for each row of the dataset if batchSize is given"
            raise refused("predict", "function", must, f"shape {part['mean'].shape} for {n} rows")
        parts.append(part)
    axes = {"draws": 1 if draws.nChains is None else 2}
    return {name: np.concatenate([part[name] for part in parts], axis=axes.get(name, 0)) for name in parts[0]}


def _of_rows(
    draws: Draws,
    function: _Function,
    given: tuple[Tree, ...],
    names: Mapping[str, float],
    diagnosed: bool,
    all_kept: bool,
    seeds: np.random.Generator,
) -> dict[str, Any]:
    """The results for some rows of the dataset, which are in memory."""
    params = draws.groups["posterior"]  # [C, T, ...]; may be on disk
    specs = {name: tf.TensorSpec(array.shape[2:], tf.as_dtype(array.dtype)) for name, array in params.items()}
    of_block, shape = function.compiled(specs, given)
    n_chains, n_draws = draws.nChains or 1, len(draws.iterations)
    size = int(np.prod(shape))
    step = max(1, BLOCK // max(1, size, *(int(np.prod(array.shape[2:])) for array in params.values())))
    count, mean, squares = 0, np.zeros(shape), np.zeros(shape)
    kept: list[np.ndarray] = []
    for chain in range(n_chains):
        for start in range(0, n_draws, step):
            block = {name: tf.constant(np.asarray(x[chain, start : start + step])) for name, x in params.items()}
            of_noise = tf.constant(seeds.integers(0, 2**31, (min(step, n_draws - start), 2)).astype(np.int32))
            values = of_block(block, of_noise, *given).numpy()
            if names or diagnosed or all_kept:
                kept.append(values)
            # Blocks are combined by their means, not by a difference of large sums, which would cancel.
            added, of_values = count + len(values), values.mean(axis=0, dtype=np.float64)
            shift = of_values - mean
            squares += ((values - of_values) ** 2).sum(axis=0) + shift**2 * count * len(values) / added
            mean, count = mean + shift * len(values) / added, added
    results = {"mean": mean, "sd": np.sqrt(squares / count)}
    if not kept:
        return results
    every, wide = np.concatenate(kept).reshape(count, size), max(1, BLOCK // count)
    parts = [every[:, at : at + wide] for at in range(0, size, wide)]
    if names:
        levels = list(names.values())
        found = np.concatenate([np.quantile(part, levels, axis=0) for part in parts], axis=1)
        results |= dict(zip(names, found.reshape(-1, *shape), strict=True))
    if diagnosed:
        each = [diagnostics(part.T.reshape(-1, n_chains, n_draws).astype(np.float64), DIAGNOSTICS) for part in parts]
        results |= {key: np.concatenate([one[key] for one in each]).reshape(shape) for key in DIAGNOSTICS}
    if all_kept:
        lead = (n_draws,) if draws.nChains is None else (n_chains, n_draws)
        results["draws"] = every.reshape(*lead, *shape)
    return results


def _names(quantiles: Any) -> dict[str, float]:
    """The quantiles by their names in the results, such as "5%"."""
    levels: list[Any] = list(quantiles) if isinstance(quantiles, Iterable) else [None]
    if not all(isinstance(q, float) and 0 < q < 1 for q in levels):
        raise refused("predict", "quantiles", "be numbers in (0, 1), or an empty list", repr(quantiles))
    return {f"{100 * q:.10g}%": q for q in levels}


def _entries(dataset: Any, settings: Mapping[str, Any]) -> dict[str, Any] | RowGroups:
    """The dataset with the types of the sampler's dataset; arrays on disk stay there."""
    levels = settings.get("levels", {})
    if isinstance(dataset, groups | windows):
        if isinstance(dataset, windows) and dataset.before == AUTO:
            dataset = replace(dataset, before=settings.get("before", AUTO))
        if isinstance(dataset, groups):
            dataset = replace(dataset, bundled=False)
        integers, dtype = settings.get("integers", ()), np.dtype(settings.get("dtype", "float32"))
        return dataset.with_levels("predict", levels).opened("predict", integers, dtype)
    dataset = with_levels("predict", dataset, levels)
    if not isinstance(dataset, Mapping):
        raise refused("predict", "dataset", "be None or a dict of arrays", type(dataset).__name__)
    return {name: entry if is_on_disk(entry) else _converted(name, entry, settings) for name, entry in dataset.items()}


def _converted(name: str, entry: Any, settings: Mapping[str, Any]) -> np.ndarray:
    integers, dtype = settings.get("integers", ()), np.dtype(settings.get("dtype", "float32"))
    return converted("predict", name, entry, name in integers, dtype)


def _length(entries: Mapping[str, Any] | RowGroups | None) -> int:
    if isinstance(entries, RowGroups):
        return entries.size
    lengths = {name: entry.shape[0] if entry.shape else 0 for name, entry in (entries or {}).items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise refused("predict", "dataset", "have entries of one length if batchSize is given", lengths)
    return next(iter(lengths.values()))


def _rows(entries: Mapping[str, Any] | RowGroups, rows: slice, settings: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    if isinstance(entries, RowGroups):
        return entries.part(rows)

    def in_memory(name: str, entry: Any) -> Any:
        if is_on_disk(entry):
            return _converted(name, entry[rows], settings)
        return entry[rows] if entry.shape else entry

    return {name: tf.constant(in_memory(name, entry)) for name, entry in entries.items()}


class _Function:
    """The function of one draw, compiled once for all rows of one shape."""

    def __init__(self, function: Any) -> None:
        self._function, self._has_noise = function, False
        with contextlib.suppress(TypeError, ValueError):  # of a callable without a signature
            self._has_noise = "seed" in inspect.signature(function).parameters
        self._compiled: dict[Any, tuple[Callable, tuple[int, ...]]] = {}

    def compiled(self, specs: dict[str, tf.TensorSpec], given: tuple[Tree, ...]) -> tuple[Callable, tuple[int, ...]]:
        """The function of a block of draws, and the shape of its result for one."""
        rows = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), given)
        if (key := repr(rows)) not in self._compiled:
            self._compiled[key] = self._compile(specs, rows)
        return self._compiled[key]

    def _compile(self, specs: dict[str, tf.TensorSpec], rows: tuple) -> tuple[Callable, tuple[int, ...]]:
        def of_one(params: dict, seed: tf.Tensor, *given: dict) -> tf.Tensor:
            noise = {"seed": seed} if self._has_noise else {}
            result = tf.convert_to_tensor(self._function(params, *given, **noise))
            return result if result.dtype.is_floating else tf.cast(result, tf.float64)

        signature = "(params, dataset)" if rows else "params"
        must = f"function of predict must be a function of {signature} in TensorFlow operations"
        if not callable(self._function):
            raise ValueError(f"{must}; got {self._function!r}.")
        seed = tf.TensorSpec([2], tf.int32)
        output = attempted(must, lambda: trace(of_one, specs, seed, *rows)).structured_outputs
        if not output.shape.is_fully_defined():
            raise ValueError(f"{must}, with a result of fixed shape; got shape {output.shape}.")

        def of_block(params: dict, seeds: tf.Tensor, *given: dict) -> tf.Tensor:
            return tf.map_fn(lambda one: of_one(*one, *given), (params, seeds), fn_output_signature=output.dtype)

        block = {name: tf.TensorSpec([None, *spec.shape], spec.dtype) for name, spec in specs.items()}
        return trace(of_block, block, tf.TensorSpec([None, 2], tf.int32), *rows), tuple(output.shape)
