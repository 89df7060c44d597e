"""Mean, sd and quantiles over the draws of a function of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sgmcmc.core import process
from sgmcmc.core.checks import attempted
from sgmcmc.core.tracing import trace
from sgmcmc.dataset.entry import converted

if TYPE_CHECKING:
    from sgmcmc.output.draws import Draws

BLOCK = 2**22  # numbers in the draws and results of one block, and in the columns of one call of np.quantile


def predictions(
    draws: Draws, function: Callable, dataset: Mapping[str, Any] | None, quantiles: Sequence[float]
) -> dict[str, np.ndarray]:
    """The results described in `Draws.predict`."""
    if not draws or not len(draws.iterations):
        raise ValueError("predict needs draws; there are none.")
    process.use()
    names = _names(quantiles)
    params = draws.groups["posterior"]  # [C, T, ...]; may be on disk
    given = () if dataset is None else (_tensors(dataset, draws.settings),)
    specs = {name: tf.TensorSpec(array.shape[2:], tf.as_dtype(array.dtype)) for name, array in params.items()}
    of_block, shape = _compiled(function, specs, given)
    n_chains, n_draws = draws.nChains or 1, len(draws.iterations)
    size = int(np.prod(shape))
    step = max(1, BLOCK // max(1, size, *(int(np.prod(array.shape[2:])) for array in params.values())))
    count, mean, squares = 0, np.zeros(shape), np.zeros(shape)
    kept: list[np.ndarray] = []
    for chain in range(n_chains):
        for start in range(0, n_draws, step):
            block = {
                name: tf.constant(np.asarray(array[chain, start : start + step])) for name, array in params.items()
            }
            values = of_block(block).numpy()
            if names:
                kept.append(values)
            # Blocks are combined by their means, not by a difference of large sums, which would cancel.
            added, of_values = count + len(values), values.mean(axis=0, dtype=np.float64)
            shift = of_values - mean
            squares += ((values - of_values) ** 2).sum(axis=0) + shift**2 * count * len(values) / added
            mean, count = mean + shift * len(values) / added, added
    results = {"mean": mean, "sd": np.sqrt(squares / count)}
    if names:
        every = np.concatenate(kept).reshape(count, size)
        wide = max(1, BLOCK // count)
        levels = list(names.values())
        parts = [np.quantile(every[:, at : at + wide], levels, axis=0) for at in range(0, size, wide)]
        results |= dict(zip(names, np.concatenate(parts, axis=1).reshape(-1, *shape), strict=True))
    return results


def _names(quantiles: Any) -> dict[str, float]:
    """The quantiles by their names in the results, such as "5%"."""
    levels: list[Any] = list(quantiles) if isinstance(quantiles, Iterable) else [None]
    if not all(isinstance(q, float) and 0 < q < 1 for q in levels):
        raise ValueError(f"quantiles of predict must be numbers in (0, 1), or none of them; got {quantiles!r}.")
    return {f"{100 * q:.10g}%": q for q in levels}


def _tensors(dataset: Any, settings: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """The dataset as tensors, with the types that the sampler gave its own dataset."""
    if not isinstance(dataset, Mapping):
        raise ValueError(f"dataset of predict must be None or a dict of arrays; got {type(dataset).__name__}.")
    integers, dtype = settings.get("integers", ()), np.dtype(settings.get("dtype", "float32"))
    return {
        name: tf.constant(converted("predict", name, entry, name in integers, dtype)) for name, entry in dataset.items()
    }


def _compiled(function: Any, specs: dict[str, tf.TensorSpec], given: tuple) -> tuple[Callable, tuple[int, ...]]:
    """The function for a block of draws, and the shape of its result for one."""

    def of_one(params: dict) -> tf.Tensor:
        result = tf.convert_to_tensor(function(params, *given))
        return result if result.dtype.is_floating else tf.cast(result, tf.float64)

    must = f"function of predict must be one of {'(params, dataset)' if given else 'params'} in TensorFlow operations"
    if not callable(function):
        raise ValueError(f"{must}; got {function!r}.")
    output = attempted(must, lambda: trace(of_one, specs)).structured_outputs
    if not output.shape.is_fully_defined():
        raise ValueError(f"{must}, with a result of one shape; got shape {output.shape}.")

    def of_block(params: dict) -> tf.Tensor:
        return tf.map_fn(of_one, params, fn_output_signature=output.dtype)

    block = {name: tf.TensorSpec([None, *spec.shape], spec.dtype) for name, spec in specs.items()}
    return trace(of_block, block), tuple(output.shape)
